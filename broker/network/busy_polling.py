"""Adaptive busy polling: keep the event loop spinning for `LINGER_S` after a small request.

Theory of operation. Putting a process to sleep and waking it costs as much as handling several requests, and delays the
client by as much, most of all on virtual machines, whose idle processors have to be woken too. A fast client that sends
one request at a time sends the next one before that is done. So after a request the loop spins without sleeping:

    a request arrived                spin for another `LINGER_S`
    none arrived in time             sleep, and do not spin for a pause
    another process was scheduled    the same: a process that sleeps is scheduled again sooner than one that yields

The pause is `_SHORTEST_PAUSE_S` if enough requests arrived in time, else twice the last one. So slow clients and busy
machines cost at most `LINGER_S` per `_LONGEST_PAUSE_S`. Large requests do not start spinning: handling them takes so
long that the wake-up does not matter. An idle broker never spins, nor does one without a clock: virtual time stands
still while the loop spins.
"""

import asyncio
import os
from collections.abc import Callable

from broker.monitoring.counters import Metrics

SMALL_BYTES = 4096
"""Largest number of bytes received at a time that starts or continues spinning."""

LINGER_S = 100e-6
MIN_HITS = 4
"""Least number of requests in time with which spinning pays, if it ended with a timeout."""
MIN_HITS_IF_PREEMPTED = 100
"""The same if it ended because another process was scheduled, which may run for milliseconds."""
_PREEMPTED_S = 20e-6  # a longer sched_yield means that another process ran
_SHORTEST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.128
_NEVER = float("inf")

_sched_yield: Callable[[], None] = getattr(os, "sched_yield", lambda: None)  # missing on macOS


class BusyPolling:
    """Keeps a loop awake while small requests follow each other quickly."""

    __slots__ = ("_clock", "_hits", "_loop", "_metrics", "_pause_s", "_received_bytes", "_until", "_yield_cpu", "due")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        metrics: Metrics,
        clock: Callable[[], float] | None,
        yield_cpu: Callable[[], None] = _sched_yield,
    ) -> None:
        """`metrics.received_bytes` shows whether anything was received; `clock` is in seconds, finer than the loop's.

        Without a clock, `due` is never reached.
        """
        self._loop = loop
        self._metrics = metrics
        self._clock = clock or loop.time
        self._yield_cpu = yield_cpu
        self._pause_s = _SHORTEST_PAUSE_S
        self._received_bytes = 0
        self._hits = 0  # requests that arrived in time
        self._until = 0.0
        self.due = _NEVER if clock is None else 0.0
        """The loop time from which on a small request calls `begin`."""

    def begin(self) -> None:
        """Start spinning in the next turn, after the received requests have been handled."""
        self.due = _NEVER
        self._loop.call_soon(self._start)

    def _start(self) -> None:
        self._received_bytes = self._metrics.received_bytes
        self._hits = 0
        self._until = self._clock() + LINGER_S
        self._poll()

    def _poll(self) -> None:
        now = self._clock()
        before, self._received_bytes = self._received_bytes, self._metrics.received_bytes
        if 0 < self._received_bytes - before <= SMALL_BYTES:
            self._hits += 1
            self._until = now + LINGER_S
        elif now >= self._until:
            self._stop(MIN_HITS)
            return
        else:
            self._yield_cpu()
            if self._clock() - now > _PREEMPTED_S:
                self._stop(MIN_HITS_IF_PREEMPTED)
                return
        self._loop.call_soon(self._poll)

    def _stop(self, min_hits: int) -> None:
        if self._hits >= min_hits:
            self._pause_s = _SHORTEST_PAUSE_S
        self.due = self._loop.time() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
