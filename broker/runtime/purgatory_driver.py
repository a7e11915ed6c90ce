"""Runs a `Purgatory` on the event loop: woken watchers at the end of the turn, deadlines by one timer.

A timer may fire early (uvloop's do, by up to a millisecond): it looks at the clock and arms itself again. It fires
at once where the last run has left operations that are due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.runtime.purgatory import Purgatory

if TYPE_CHECKING:
    import asyncio


class PurgatoryDriver:
    """The one who calls `Purgatory.run`."""

    __slots__ = ("_armed_for", "_loop", "_soon", "_timer", "purgatory")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = 0.0
        self.purgatory = Purgatory(self._arrange)

    def stop(self) -> None:
        """Run no more; whatever waits goes on waiting."""
        for handle in (self._soon, self._timer):
            if handle is not None:
                handle.cancel()

    def _arrange(self) -> None:
        """See to it that the purgatory runs when it next has something to do."""
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
