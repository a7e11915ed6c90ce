"""Looking at the sockets a little longer before the process goes to sleep, where that pays.

Theory of operation. To be put to sleep and woken costs a process as much as handling some requests, and costs the
client as much again, most of all on virtual machines, whose idle processors have to be woken too. A client that sends
one request at a time, and is quick, sends the next one before that is done. So from a request on the loop goes round
without sleeping, until none has come for `LINGER_S`:

    a request came                   go round for as long again
    none came in time                sleep, and linger no more for a pause
    others want the processor        let them, and the same: who sleeps gets it back sooner than who let others run

The pause is a short one if enough requests had come in time to be worth that end, else twice as long as the last. Slow
clients and busy machines thus pay next to nothing: `LINGER_S` of each `_LONGEST_PAUSE_S`. Nor do those that send much
at a time: handling that takes so long that waking up does not matter. A broker that nobody asks anything does nothing
here at all, nor does one without a clock to go by: where time is virtual, it stands still while the loop goes round.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from broker.monitoring.counters import Metrics

SMALL_BYTES = 4096
"""What is received at a time must be as little as that to be waited for."""

LINGER_S = 100e-6
WORTH_WAITING = 4
"""The requests that must come in time before one that does not."""
WORTH_A_SLICE = 100
"""The same where others got the processor instead: they may have it for milliseconds."""
_TAKEN_AWAY_S = 20e-6  # a yield that takes longer let others run
_SHORTEST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.128
_NEVER = float("inf")

_sched_yield: Callable[[], None] = getattr(os, "sched_yield", lambda: None)  # macOS has none


class Lingering:
    """Keeps a loop awake for as long as requests follow one another quickly."""

    __slots__ = ("_clock", "_give_way", "_loop", "_metrics", "_pause_s", "_received_bytes", "_taken", "_until", "due")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        metrics: Metrics,
        clock: Callable[[], float] | None,
        give_way: Callable[[], None] = _sched_yield,
    ) -> None:
        """`metrics` tell whether something was received; `clock` is in seconds, and finer than the loop's own.

        Without one, whatever is received is never to `begin`.
        """
        self._loop = loop
        self._metrics = metrics
        self._clock = clock or loop.time
        self._give_way = give_way
        self._pause_s = _SHORTEST_PAUSE_S
        self._received_bytes = 0
        self._taken = 0  # requests that came in time
        self._until = 0.0
        self.due = _NEVER if clock is None else 0.0
        """The time of the loop from which on whoever receives something small is to `begin`."""

    def begin(self) -> None:
        """Stay awake from now on, while what was received is handled, and for a while after that."""
        self.due = _NEVER
        self._loop.call_soon(self._start)

    def _start(self) -> None:
        self._received_bytes = self._metrics.received_bytes
        self._taken = 0
        self._until = self._clock() + LINGER_S
        self._look()

    def _look(self) -> None:
        now = self._clock()
        before, self._received_bytes = self._received_bytes, self._metrics.received_bytes
        if 0 < self._received_bytes - before <= SMALL_BYTES:
            self._taken += 1
            self._until = now + LINGER_S
        elif now >= self._until:
            self._stop(WORTH_WAITING)
            return
        else:
            self._give_way()
            if self._clock() - now > _TAKEN_AWAY_S:
                self._stop(WORTH_A_SLICE)
                return
        self._loop.call_soon(self._look)

    def _stop(self, worth: int) -> None:
        if self._taken >= worth:
            self._pause_s = _SHORTEST_PAUSE_S
        self.due = self._loop.time() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
