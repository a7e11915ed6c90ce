"""The purgatory driver: runs a `Purgatory` on the event loop.

Woken watchers run in the loop's next round of callbacks; one timer covers all deadlines. The timer may fire early
(uvloop's does, by up to 1 ms): the run compares deadlines with the clock and the timer is set again. If a run leaves
due operations, the timer fires at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.runtime.purgatory import Purgatory

if TYPE_CHECKING:
    import asyncio


class PurgatoryDriver:
    """The caller of `Purgatory.run`."""

    __slots__ = ("_armed_for", "_loop", "_soon", "_timer", "purgatory")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = 0.0
        self.purgatory = Purgatory(self._arrange)

    def stop(self) -> None:
        """Cancel the scheduled runs; operations that still wait are neither completed nor expired."""
        for handle in (self._soon, self._timer):
            if handle is not None:
                handle.cancel()

    def _arrange(self) -> None:
        """Schedule a run, which also sets the timer."""
        if self._soon is None:
            self._soon = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._soon = None
        try:
            self.purgatory.run(self._loop.time())
        finally:
            self._set_timer()

    def _ring(self) -> None:
        self._timer = None
        self._turn()

    def _set_timer(self) -> None:
        deadline = self.purgatory.next_deadline
        if deadline is None or (self._timer is not None and self._armed_for <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = deadline
        self._timer = self._loop.call_at(deadline, self._ring)
