"""Request latency, from frame to response: a timing wrapper around a dispatcher, and its histograms.

Quantiles cover the last 60 to 120 s; counts and sums are since the start. Times are counted in buckets, each 25 % wider
than the one before. A quantile is the upper bound of its bucket: at most 25 % too long.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from broker.monitoring.request_errors import FailedParts, RequestErrors
from broker.network.connection_protocol import DeferredResponse

if TYPE_CHECKING:
    from broker.network.connection import Connection
    from broker.network.connection_protocol import Response
    from protocol.primitives import Part

    Clock = Callable[[], float]
    Dispatch = Callable[[memoryview, Connection], list[Part] | DeferredResponse | None]

WINDOW_S = 60.0
_SMALLEST_S, _FACTOR, _BUCKETS = 20e-6, 1.25, 72  # up to 150 s
BOUNDS_S = tuple(_SMALLEST_S * _FACTOR**power for power in range(_BUCKETS))


class Times:
    """The times of one API."""

    __slots__ = ("_before", "_began", "_buckets", "count", "total_s", "versions")

    def __init__(self, now: float) -> None:
        self.count = 0
        self.total_s = 0.0
        self.versions = [0] * 256
        """The number of requests of each version."""
        self._buckets = [0] * (_BUCKETS + 1)
        self._before = [0] * (_BUCKETS + 1)
        self._began = now

    def add(self, seconds: float, now: float) -> None:
        """Count one request that was answered at `now`."""
        self._rotate(now)
        self.count += 1
        self.total_s += seconds
        self._buckets[bisect_left(BOUNDS_S, seconds)] += 1

    def quantiles(self, now: float, wanted: tuple[float, ...]) -> tuple[float, ...]:
        """Return each of the `wanted` quantiles in seconds; NaN without requests in the window."""
        self._rotate(now)
        counts = [new + old for new, old in zip(self._buckets, self._before, strict=True)]
        total = sum(counts)
        return tuple(_quantile(counts, total, part) for part in wanted)

    def _rotate(self, now: float) -> None:
        """Rotate the windows if the current one is over."""
        age_s = now - self._began
        if age_s >= WINDOW_S:
            self._before = [0] * (_BUCKETS + 1) if age_s >= 2 * WINDOW_S else self._buckets
            self._buckets, self._began = [0] * (_BUCKETS + 1), now


def _quantile(counts: list[int], total: int, part: float) -> float:
    if not total:
        return float("nan")
    seen = 0
    for bound, count in zip(BOUNDS_S, counts, strict=False):
        seen += count
        if seen >= part * total:
            return bound
    return BOUNDS_S[-1]


class TimedDispatcher:
    """Wraps a dispatcher; times its requests and counts their errors."""

    def __init__(self, dispatch: Dispatch, times: dict[int, Times], errors: RequestErrors, clock: Clock) -> None:
        """Keep times by API key, shared by all listeners. `clock` is in seconds, finer than the loop's."""
        self._dispatch = dispatch
        self._times = times
        self._errors = errors
        self._clock = clock

    def __call__(self, frame: memoryview, connection: Connection) -> list[Part] | DeferredResponse | None:
        """Dispatch and time a request."""
        begun = self._clock()
        outcome = self._dispatch(frame, connection)
        # A dispatched frame begins with API key and version, two bytes each; both are below 256.
        key = frame[1]
        times = self._times.get(key)
        if times is None:
            times = self._times[key] = Times(begun)
        times.versions[frame[3]] += 1
        if type(outcome) is DeferredResponse:
            outcome.response.add_done_callback(partial(self._record_deferred, key, times, begun))
        else:
            self._record(key, times, begun, outcome)
        return outcome

    def _record_deferred(self, key: int, times: Times, begun: float, response: Response) -> None:
        failed = response.cancelled() or response.exception() is not None
        self._record(key, times, begun, None if failed else response.result())

    def _record(self, key: int, times: Times, begun: float, outcome: object) -> None:
        now = self._clock()
        times.add(now - begun, now)
        if type(outcome) is FailedParts:
            self._errors.count(key, outcome.codes)
