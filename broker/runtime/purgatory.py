"""Operations that wait for something to happen, or for their deadline.

Theory of operation. What happens, happens *to* a key: a partition's high watermark moves, its log starts
later, its leader changes, it is deleted. A watcher (a parked fetch's session, a produce that waits for its
replicas) is listed under every key that could let it finish. Nobody polls:

    watch(key, watcher)     from now on `watcher` is told what happens to `key`, until `unwatch`
    wake(key, size_bytes)   something happened; remembered, and told to the key's watchers by the next `run`
    expire_at(operation, t) `operation.expire()` unless it is done by loop time `t`
    tell()                  tell the watchers all that happened
    run(now)                tell, let each who was told act once, then expire some of what is due; if more is,
                            `next_deadline` has passed

What is read by replicas, the records of a log, and what is read by clients, those of a partition that are committed,
are two keys: an append would wake clients in vain, and a high watermark that moves would wake replicas.

`wake` only notes the key, so the append that moved a high watermark answers its own client first, and a
hundred appends of one turn of the loop make one wake-up. `on_work` is called whenever there is something new
for the driver to arrange: a `run` soon, and one at `next_deadline`. Deadlines are a heap; operations that
finished before theirs stay in it until they are due or outnumber the others, which makes finishing early,
the usual case, free.

Pure: time is the loop's, in seconds, and is passed in. `broker.purgatory_driver` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Protocol

CHANGED = 1 << 62
"""The `size_bytes` of a wake-up that is not about bytes alone: whoever watches looks anew at everything."""

EXPIRED_A_RUN = 64
"""How many operations one `run` expires: thousands of fetches may have begun to wait together."""

_SWEEP_FROM = 64


class Watcher(Protocol):
    """Whoever is told about keys."""

    def woken(self, key: Hashable, size_bytes: int) -> None:
        """Take note that `size_bytes` more can be read under `key`, or (from `CHANGED` on) anything is new."""

    def act(self) -> None:
        """Finish, if what was noted is enough; every key woken by then has been told."""


class Operation(Protocol):
    """Something with a deadline."""

    @property
    def done(self) -> bool:
        """Say whether it has ended, and its deadline no longer matters."""

    def expire(self) -> None:
        """End it: its time has run out."""


class Purgatory:
    """Who waits for what, and until when."""

    __slots__ = ("_deadlines", "_live", "_on_work", "_sequence", "_told", "_watchers", "_woken")

    def __init__(self, on_work: Callable[[], None]) -> None:
        self._on_work = on_work
        self._watchers: dict[Hashable, dict[Watcher, None]] = {}
        self._woken: dict[Hashable, int] = {}
        self._told: dict[Watcher, None] = {}
        self._deadlines: list[tuple[float, int, Operation]] = []
        self._sequence = 0
        self._live = _SWEEP_FROM

    @property
    def next_deadline(self) -> float | None:
        """Return when the earliest deadline is due, if there is one."""
        return self._deadlines[0][0] if self._deadlines else None

    def watch(self, key: Hashable, watcher: Watcher) -> None:
        """List `watcher` under `key`; listing it twice is listing it once."""
        watchers = self._watchers.get(key)
        if watchers is None:
            self._watchers[key] = {watcher: None}
        else:
            watchers[watcher] = None

    def unwatch(self, key: Hashable, watcher: Watcher) -> None:
        """Take `watcher` off the list of `key`, if it is there."""
        watchers = self._watchers.get(key)
        if watchers is not None:
            watchers.pop(watcher, None)
            if not watchers:
                del self._watchers[key]

    def wake(self, key: Hashable, size_bytes: int = CHANGED) -> None:
        """Have the next `run` tell the watchers of `key` that `size_bytes` more can be read, or it changed."""
        if key in self._watchers:
            woken = self._woken
            if not woken:
                self._on_work()
            woken[key] = woken.get(key, 0) + size_bytes

    def expire_at(self, operation: Operation, deadline: float) -> None:
        """Expire `operation` at `deadline`, unless it is done by then."""
        deadlines = self._deadlines
        if len(deadlines) > self._live:
            deadlines[:] = [entry for entry in deadlines if not entry[2].done]
            heapify(deadlines)
            self._live = max(_SWEEP_FROM, 2 * len(deadlines))
        self._sequence += 1
        heappush(deadlines, (deadline, self._sequence, operation))
        if deadlines[0][2] is operation:
            self._on_work()

    def waiting(self) -> Iterator[Operation]:
        """Yield the operations that wait for a deadline."""
        return (operation for _, _, operation in self._deadlines if not operation.done)

    def tell(self) -> None:
        """Tell the watchers of the keys woken so far; they act in the next `run`."""
        woken, self._woken = self._woken, {}
        for key, size_bytes in woken.items():
            for watcher in tuple(self._watchers.get(key, ())):
                watcher.woken(key, size_bytes)
                self._told[watcher] = None

    def run(self, now: float) -> None:
        """Tell the watchers of the keys woken so far, then expire operations that are due, `EXPIRED_A_RUN` at most."""
        self.tell()
        told, self._told = self._told, {}
        for watcher in told:
            watcher.act()
        deadlines, left = self._deadlines, EXPIRED_A_RUN
        while left and deadlines and (deadlines[0][0] <= now or deadlines[0][2].done):
            operation = heappop(deadlines)[2]
            if not operation.done:
                operation.expire()
                left -= 1
