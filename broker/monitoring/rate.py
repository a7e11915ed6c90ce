"""Rates over a sliding window of samples (Kafka: `Rate`, `SampledStat`).

A rate is the sum of the last samples by the time that they span. That time counts as at least all samples but one, so a
first burst does not look like a steady rate. Times are ms of a monotonic clock and never go back.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

MAX_THROTTLE_MS = (1 << 31) - 1
"""The longest throttle time that fits into a response."""


class SampleWindow(NamedTuple):
    """The samples of a rate: how many, and the length of each."""

    samples: int
    sample_ms: int

    @property
    def span_ms(self) -> int:
        """Return the time after which a sample is dropped."""
        return self.samples * self.sample_ms


class Rate:
    """The sum of recorded values per second, over a `SampleWindow`."""

    __slots__ = ("_samples", "_window")

    def __init__(self, window: SampleWindow) -> None:
        self._window = window
        self._samples: deque[tuple[float, float]] = deque()  # the start of each in ms, and its sum

    def record(self, value: float, now_ms: float) -> None:
        """Add `value` to the current sample."""
        samples = self._samples
        if samples and now_ms - samples[-1][0] < self._window.sample_ms:
            start_ms, total = samples[-1]
            samples[-1] = (start_ms, total + value)
            return
        self._drop_old(now_ms)
        samples.append((now_ms, value))

    def total(self, now_ms: float) -> float:
        """Return the sum of the values within the window."""
        self._drop_old(now_ms)
        return sum(total for _, total in self._samples)

    def per_second(self, now_ms: float) -> float:
        """Return the rate."""
        return 1000 * self.total(now_ms) / self.measured_ms(now_ms)

    def measured_ms(self, now_ms: float) -> float:
        """Return the time over which the rate is measured."""
        samples, sample_ms = self._window
        elapsed_ms = now_ms - self._samples[0][0] if self._samples else 0.0
        missing = samples - 1 - int(elapsed_ms // sample_ms)
        return max(elapsed_ms + max(missing, 0) * sample_ms, 1.0)

    def is_idle(self, now_ms: float) -> bool:
        """Return whether nothing was recorded within the window; such a rate is 0."""
        return not self._samples or now_ms - self._samples[-1][0] >= self._window.span_ms

    def throttle_ms(self, limit: float, now_ms: float) -> int:
        """Return for how long nothing may be recorded until the rate is `limit` again; 0 if it is not above it.

        `MAX_THROTTLE_MS` at most: 3 MB in one request are above a quota of one byte per second for 34 days.
        """
        rate = self.per_second(now_ms)
        if rate <= limit:
            return 0
        return round(min((rate - limit) / limit * self.measured_ms(now_ms), MAX_THROTTLE_MS))

    def _drop_old(self, now_ms: float) -> None:
        samples, span_ms = self._samples, self._window.span_ms
        while samples and now_ms - samples[0][0] >= span_ms:
            samples.popleft()


class SimpleRate(Rate):
    """A rate over the time since the first sample of the window, but over one whole sample at least.

    Unlike a `Rate`, it has its full value from the first sample on (Kafka: `SimpleRate`).
    """

    __slots__ = ()

    def measured_ms(self, now_ms: float) -> float:
        """Return the time over which the rate is measured."""
        self._drop_old(now_ms)
        elapsed_ms = now_ms - self._samples[0][0] if self._samples else 0.0
        return max(elapsed_ms, float(self._window.sample_ms))


class ThrottleTimes:
    """The throttle times of responses within a `SampleWindow`, for metrics; zeros do not count, as in Kafka."""

    __slots__ = ("_count", "_total_ms")

    def __init__(self, window: SampleWindow) -> None:
        self._count = Rate(window)
        self._total_ms = Rate(window)

    def record(self, throttle_ms: int, now_ms: float) -> None:
        """Add a throttle time, unless it is 0."""
        if throttle_ms > 0:
            self._count.record(1, now_ms)
            self._total_ms.record(throttle_ms, now_ms)

    def average_ms(self, now_ms: float) -> float:
        """Return the average; 0 if no response within the window had a throttle time."""
        count = self._count.total(now_ms)
        return self._total_ms.total(now_ms) / count if count else 0.0
