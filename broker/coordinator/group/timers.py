"""Deadlines of a coordinator's groups and members, in one heap.

Sessions are renewed by every heartbeat and hardly ever expire, so renewing must cost nothing: it stores the
later deadline in the timer and leaves the heap alone. A heap entry that comes due before its timer's
deadline is put back at that deadline; so a timer has one live entry, never later than its deadline, and
entries that an earlier deadline replaced, or whose timer was cancelled, are dropped when they surface, or
when they are as many as the others: a session may be half an hour long, and members come and go faster.
What fires is an event, a plain tuple that the owner gave the timer.

Times are those of the event loop, in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

LOOKS_A_CALL = 500
_SWEEP_FROM = 1_000


class Timer:
    """One deadline: None while nothing is due."""

    __slots__ = ("deadline", "event", "queued")

    def __init__(self, event: tuple[Any, ...]) -> None:
        self.event = event
        self.deadline: float | None = None
        self.queued: float | None = None

    def cancel(self) -> None:
        """Let nothing be due any more."""
        self.deadline = None


class Timers:
    """The timers of all shards of a coordinator."""

    __slots__ = ("_heap", "_on_earliest", "_sequence", "_sweep_at")

    def __init__(self, on_earliest: Callable[[float], None] = lambda _at: None) -> None:
        """`on_earliest` is told when `pop_due` has to be asked, if that becomes earlier than before."""
        self._heap: list[tuple[float, int, Timer]] = []
        self._on_earliest = on_earliest
        self._sequence = 0
        self._sweep_at = _SWEEP_FROM

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_at(self) -> float | None:
        """When `pop_due` has to be asked next; perhaps earlier than any deadline, never later."""
        return self._heap[0][0] if self._heap else None

    def schedule(self, timer: Timer, deadline: float) -> None:
        """Make `timer` due at `deadline`, in place of any deadline that it had."""
        timer.deadline = deadline
        if timer.queued is None or deadline < timer.queued:
            self._push(timer, deadline)
            if self._heap[0][2] is timer:
                self._on_earliest(deadline)

    def pop_due(self, now: float) -> tuple[Any, ...] | None:
        """Take the event of the earliest deadline that has passed, if any.

        One at a time, because what an event does may cancel or move the deadlines behind it. None also after
        `LOOKS_A_CALL` entries without an event; `next_at` has passed then.
        """
        heap = self._heap
        for _ in range(LOOKS_A_CALL):
            if not heap or heap[0][0] > now:
                break
            at, _, timer = heappop(heap)
            if at != timer.queued:
                continue
            timer.queued = None
            if timer.deadline is None:
                continue
            if timer.deadline <= now:
                timer.deadline = None
                return timer.event
            self._push(timer, timer.deadline)
        return None

    def _push(self, timer: Timer, at: float) -> None:
        if len(self._heap) >= self._sweep_at:
            self._sweep()
        self._sequence += 1
        timer.queued = at
        heappush(self._heap, (at, self._sequence, timer))

    def _sweep(self) -> None:
        live = []
        for entry in self._heap:
            at, _, timer = entry
            if timer.queued == at and timer.deadline is None:
                timer.queued = None
            elif timer.queued == at:
                live.append(entry)
        self._heap[:] = live
        heapify(self._heap)
        self._sweep_at = max(_SWEEP_FROM, 2 * len(live))
