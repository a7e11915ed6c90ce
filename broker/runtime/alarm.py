"""The alarm: runs one function in the next turn of the event loop, at a deadline, or both.

    schedule()             run in the next turn: once, however often it was called since the last run
    schedule_at(t)         run at loop time `t`, instead of at an earlier set deadline
    schedule_at_ms(ms)     the same, for rules that count whole milliseconds
    run_now()              run at once, instead of in the next turn
    cancel()               neither, until it is scheduled again

Deadlines mostly move later, with each heartbeat and each fetch. The timer of the loop then stays as it is, and is set
again when it fires before the deadline. That also covers timers that fire early (uvloop's, by up to 1 ms).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_RESOLUTION_S = 0.001
"""uvloop rounds a shorter delay to 0, and would spin until the deadline."""


class Alarm:
    """Runs a function when it is due."""

    __slots__ = ("_deadline", "_function", "_loop", "_next_turn", "_timer", "_timer_at")

    def __init__(self, loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
        """Schedule nothing yet. The loop's exception handler gets what `function` raises."""
        self._loop = loop
        self._function = function
        self._deadline: float | None = None
        self._next_turn: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    @property
    def is_set(self) -> bool:
        """Return whether the function will run."""
        return self._next_turn is not None or self._deadline is not None

    def schedule(self) -> None:
        """Run in the next turn of the loop; a deadline stays as it is."""
        if self._next_turn is None:
            self._next_turn = self._loop.call_soon(self._run)

    def schedule_at(self, deadline: float | None) -> None:
        """Run at `deadline`, in the loop's seconds, instead of at any other; None for no deadline."""
        self._deadline = deadline
        if deadline is not None and (self._timer is None or deadline < self._timer_at):
            self._set_timer(deadline)

    def schedule_at_ms(self, due_ms: int | None) -> None:
        """Run when the loop's time in whole ms is past `due_ms`, instead of at any other deadline; None for none."""
        self.schedule_at(None if due_ms is None else (due_ms + 1) / 1000)

    def run_now(self) -> None:
        """Run now, instead of in the next turn."""
        if self._next_turn is not None:
            self._next_turn.cancel()
        self._run()

    def cancel(self) -> None:
        """Do not run, unless scheduled again."""
        self._deadline = None
        for handle in (self._next_turn, self._timer):
            if handle is not None:
                handle.cancel()
        self._next_turn = self._timer = None

    def _run(self) -> None:
        self._next_turn = None
        self._function()

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._fire)

    def _fire(self) -> None:
        self._timer = None
        deadline = self._deadline
        if deadline is None:
            return
        now = self._loop.time()
        if now < deadline:
            self._set_timer(max(deadline, now + _RESOLUTION_S))
            return
        self._deadline = None
        self._function()
