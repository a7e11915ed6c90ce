"""Deadlines of a coordinator's shard, in a heap (Kafka: `CoordinatorTimer`).

Every heartbeat renews a session and hardly any expires, so renewal must be cheap: it stores the later deadline in the
timer and leaves the heap unchanged. A heap entry due before its timer's deadline is pushed again with that deadline. So
a timer has one live entry, never later than its deadline. Stale entries (replaced by an earlier one, or of a cancelled
timer) are dropped when they reach the top, or all at once when they may outnumber the live ones: a session may last
half an hour, while members come and go faster.

An event is a value of the timer's owner, a NamedTuple for each kind: a load creates it again, and the log and the tests
print it. Times are the event loop's, in seconds.
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

    def __init__(self, event: object) -> None:
        self.event = event
        self.deadline: float | None = None
        self.queued: float | None = None

    def cancel(self) -> None:
        """Clear the deadline."""
        self.deadline = None


class Timers:
    """The timers of one shard."""

    __slots__ = ("_heap", "_on_earliest", "_sequence", "_sweep_at")

    def __init__(self, on_earliest: Callable[[], None] = lambda: None) -> None:
        """Call `on_earliest` when `next_at` becomes earlier."""
        self._heap: list[tuple[float, int, Timer]] = []
        self._on_earliest = on_earliest
        self._sequence = 0
        self._sweep_at = _SWEEP_FROM

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_at(self) -> float | None:
        """The time for the next `pop_due`; never later than the earliest deadline, possibly earlier."""
        return self._heap[0][0] if self._heap else None

    def schedule(self, timer: Timer, deadline: float) -> None:
        """Set the deadline of `timer`, replacing any other."""
        timer.deadline = deadline
        if timer.queued is None or deadline < timer.queued:
            self._push(timer, deadline)
            if self._heap[0][2] is timer:
                self._on_earliest()

    def pop_due(self, now: float) -> Any | None:
        """Return the event of the earliest deadline that has passed, or None.

        One at a time, because handling an event may cancel or move later deadlines. Also None after `LOOKS_A_CALL`
        entries without an event; `next_at` has passed then.
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
