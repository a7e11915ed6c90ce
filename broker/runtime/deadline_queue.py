"""Deadlines in one heap (Kafka: `SystemTimer`, `CoordinatorTimer`).

Most deadlines are renewed or cancelled before they pass: each heartbeat renews a session, and each response cancels a
timeout. So both leave the heap as it is, and change only the `Scheduled` object. An entry that reaches the top before
the deadline of its object is queued again with that deadline. So an object has one live entry, never later than its
deadline. Stale entries (replaced by an earlier one, or cancelled) are dropped at the top, or all at once when they may
outnumber the live ones: a session may last half an hour, while members come and go faster.

Pure: times are numbers of one clock, in the unit of the owner.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

CHECKS_A_CALL = 500
"""The most entries that `pop_due` takes from the top in one call."""

_SWEEP_FROM = 64


class Scheduled:
    """Something with a deadline; None while nothing is due."""

    __slots__ = ("deadline", "queued_at")

    def __init__(self) -> None:
        self.deadline: float | None = None
        self.queued_at: float | None = None
        """The time of the live entry in the queue."""

    def cancel(self) -> None:
        """Clear the deadline."""
        self.deadline = None


T = TypeVar("T", bound=Scheduled)


class DeadlineQueue(Generic[T]):
    """Scheduled objects by deadline."""

    __slots__ = ("_heap", "_on_earliest", "_sequence", "_sweep_at")

    def __init__(self, on_earliest: Callable[[float], object] = lambda _at: None) -> None:
        """Call `on_earliest` with the next time for `pop_due`, when that becomes earlier."""
        self._heap: list[tuple[float, int, T]] = []
        self._on_earliest = on_earliest
        self._sequence = 0
        self._sweep_at = _SWEEP_FROM

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[T]:
        """Yield the timers that have a deadline."""
        return (timer for at, _, timer in self._heap if timer.deadline is not None and timer.queued_at == at)

    @property
    def next_at(self) -> float | None:
        """Return the time for the next `pop_due`: never later than the earliest deadline, possibly earlier."""
        return self._heap[0][0] if self._heap else None

    def schedule(self, timer: T, deadline: float) -> None:
        """Set the deadline of `timer`, replacing any other."""
        timer.deadline = deadline
        if timer.queued_at is None or deadline < timer.queued_at:
            heap = self._heap
            if len(heap) >= self._sweep_at:
                self._sweep()
            self._sequence += 1
            timer.queued_at = deadline
            heappush(heap, (deadline, self._sequence, timer))
            if heap[0][1] == self._sequence:
                self._on_earliest(deadline)

    def pop_due(self, now: float) -> T | None:
        """Return the timer with the earliest deadline if that has passed, and clear the deadline; else None.

        One at a time, because handling it may cancel or move later deadlines. Also None after `CHECKS_A_CALL` entries
        of which none was due; `next_at` may have passed then.
        """
        heap = self._heap
        for _ in range(CHECKS_A_CALL):
            if not heap:
                break
            at, _, timer = heap[0]
            if at == timer.queued_at:
                deadline = timer.deadline
                if deadline is not None and at > now:
                    break
                if deadline is not None and deadline > now:
                    self._sequence += 1
                    timer.queued_at = deadline
                    heapreplace(heap, (deadline, self._sequence, timer))
                    continue
                timer.queued_at = timer.deadline = None
                heappop(heap)
                if deadline is not None:
                    return timer
            else:
                heappop(heap)
        return None

    def _sweep(self) -> None:
        """Drop the stale entries."""
        live = []
        for entry in self._heap:
            at, _, timer = entry
            if timer.queued_at == at and timer.deadline is None:
                timer.queued_at = None
            elif timer.queued_at == at:
                live.append(entry)
        self._heap[:] = live
        heapify(self._heap)
        self._sweep_at = max(_SWEEP_FROM, 2 * len(live))
