"""The token bucket of controller mutations: bursts up to a limit, then a steady rate (KIP-599; Kafka: `TokenBucket`).

A recorded value may take more tokens than there are. The debt has to be repaid before the next value is admitted. Times
are ms of a monotonic clock and never go back.
"""

from __future__ import annotations

from broker.monitoring.rate import MAX_THROTTLE_MS, SampleWindow


class TokenBucket:
    """Tokens that accrue at the rate of a quota, up to what accrues in a `SampleWindow`; it is full at first."""

    __slots__ = ("_limit", "_tokens", "_updated_ms", "_window")

    def __init__(self, window: SampleWindow, limit: float, now_ms: float) -> None:
        """`limit` is the quota, in tokens per second."""
        self._window = window
        self._limit = limit
        self._tokens = self._most
        self._updated_ms = now_ms

    def limit_to(self, limit: float, now_ms: float) -> None:
        """Accrue tokens at another rate from now on."""
        self._tokens, self._updated_ms = self.tokens(now_ms), now_ms
        self._limit = limit

    def record(self, value: float, now_ms: float) -> None:
        """Take tokens."""
        self._tokens, self._updated_ms = self.tokens(now_ms) - value, now_ms

    def tokens(self, now_ms: float) -> float:
        """Return the tokens at a time; negative while a debt is repaid."""
        return min(self._tokens + (now_ms - self._updated_ms) * self._limit / 1000, self._most)

    def throttle_ms(self, now_ms: float) -> int:
        """Return the time until the debt is repaid; 0 without one."""
        tokens = self.tokens(now_ms)
        return max(round(min(-tokens / self._limit * 1000, MAX_THROTTLE_MS)), 1) if tokens < 0 else 0

    def is_full(self, now_ms: float) -> bool:
        """Return whether no token is missing."""
        return self.tokens(now_ms) >= self._most

    @property
    def _most(self) -> float:
        return self._limit * self._window.span_ms / 1000
