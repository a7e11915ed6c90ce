"""Quotas of new connections, of the broker, of a listener and of an address (KIP-612; Kafka: `ConnectionQuotas`).

    max.connection.creation.rate                       of the broker; not for the listener between brokers, if it has
                                                       another
    listener.name.NAME.max.connection.creation.rate    of the listener
    connection_creation_rate                           of an address, a client quota

Each has a token bucket, which admits a burst of what accrues in a window. A connection above a rate is accepted, and
read from when its turn comes: so it delays no other. One that would wait for more than `MAX_DELAY_MS` is refused, and
takes no tokens, so that neither the delays nor the number of waiting connections grow without bound. As in Kafka, a
connection that the quota of its address refuses does not count for the listener and the broker.

Pure: time is passed in by a clock, in ms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from broker.monitoring.rate import SampleWindow, ThrottleTimes
from broker.quotas.token_bucket import TokenBucket
from broker.quotas.usage_table import UsageTable

MAX_DELAY_MS = 20_000
"""The longest delay: clients wait for 30 s for their first response by default."""


class RateLimits(NamedTuple):
    """The most new connections per second; what has no limit is missing or None."""

    of_broker: float | None = None
    per_listener: Mapping[str, float] = {}
    per_address: Mapping[str, float] = {}
    of_other_addresses: float | None = None


class Admission(NamedTuple):
    """What becomes of a new connection: the delay before it is read from, or the quota that refuses it."""

    delay_s: float = 0.0
    refused_by: str | None = None


class ConnectionRates:
    """The rates of new connections."""

    def __init__(
        self, window: SampleWindow, clock_ms: Callable[[], float], exempt_listeners: Collection[str] = ()
    ) -> None:
        """Limit nothing yet. The limit of the broker does not apply to `exempt_listeners`."""
        self._window = window
        self._clock_ms = clock_ms
        self._exempt = exempt_listeners
        self._limits = RateLimits()
        self._buckets: UsageTable[tuple[str, str], TokenBucket] = UsageTable(TokenBucket.is_full)
        self.throttle_times: dict[str, ThrottleTimes] = {}
        """The delays by listener."""

    @property
    def buckets(self) -> int:
        """Return how many buckets are kept."""
        return len(self._buckets)

    def limit(self, limits: RateLimits) -> None:
        """Apply other limits; connections so far count."""
        self._limits = limits

    def admit(self, listener: str, host: str) -> Admission:
        """Count a new connection, and return what becomes of it."""
        now_ms = self._clock_ms()
        taken: list[TokenBucket] = []
        delay_ms = 0.0
        for name, key, rate in (
            (f"connection_creation_rate of {host}", ("ip", host), self._limit_of_address(host)),
            (
                f"listener.name.{listener.lower()}.max.connection.creation.rate",
                ("listener", listener),
                self._limits.per_listener.get(listener),
            ),
            (
                "max.connection.creation.rate",
                ("broker", ""),
                None if listener in self._exempt else self._limits.of_broker,
            ),
        ):
            if rate is None:
                continue
            if rate <= 0:
                return Admission(refused_by=f"{name}={rate:g}")
            bucket = self._bucket(key, rate, now_ms)
            delay_ms = max(delay_ms, 1000 * (1 - bucket.tokens(now_ms)) / rate)
            if delay_ms > MAX_DELAY_MS:
                return Admission(refused_by=f"{name}={rate:g}")
            taken.append(bucket)
        for bucket in taken:
            bucket.record(1, now_ms)
        if delay_ms > 0:
            self._times_of(listener).record(round(delay_ms) or 1, now_ms)
        return Admission(delay_ms / 1000)

    def average_delay_ms(self, listener: str) -> float:
        """Return the average delay of the delayed connections of a listener within the window."""
        times = self.throttle_times.get(listener)
        return 0.0 if times is None else times.average_ms(self._clock_ms())

    def _limit_of_address(self, host: str) -> float | None:
        own = self._limits.per_address.get(host)
        return self._limits.of_other_addresses if own is None else own

    def _times_of(self, listener: str) -> ThrottleTimes:
        if listener not in self.throttle_times:
            self.throttle_times[listener] = ThrottleTimes(self._window)
        return self.throttle_times[listener]

    def _bucket(self, key: tuple[str, str], rate: float, now_ms: float) -> TokenBucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets.add(key, TokenBucket(self._window, rate, now_ms), now_ms)
        bucket.limit_to(rate, now_ms)
        return bucket
