"""The purgatory: operations that wait for events on keys, or for a deadline (Kafka: `DelayedOperationPurgatory`).

An event happens to a key: a partition's high watermark advances, its log start moves, its leader changes, it is
deleted. A watcher (the session of a deferred fetch, a produce that waits for its replicas) is registered under every
key whose events can complete it. There is no polling:

    watch(key, watcher)     notify `watcher` of events on `key`, until `unwatch`
    wake(key, size_bytes)   record an event on `key`; the next `run` notifies the key's watchers
    expire_at(operation, t) call `operation.expire()` at loop time `t` unless it is done by then
    tell()                  notify the watchers of all recorded events
    run(now)                notify, let each notified watcher act once, then expire at most `EXPIRED_A_RUN` due
                            operations; if more are due, `next_deadline` is in the past

The records of a log, read by replicas, and the committed records of a partition, read by clients, are separate keys: an
append would wake clients in vain, and an advancing high watermark would wake replicas in vain.

`wake` only records the key. So the append that advances a high watermark first answers its own client, and a hundred
appends in one turn of the loop cause one wake-up. `on_work` is called when the driver must schedule something: a `run`
soon, or a `run` at `next_deadline`.

Deadlines are a heap. An operation that is done before its deadline stays in the heap until it is due, or until the heap
has doubled since the last sweep. So completing early, the usual case, costs nothing.

Pure: time is the loop's, in seconds, and is passed in. `broker.runtime.purgatory_driver` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import ClassVar, Protocol

CHANGED = 1 << 62
"""The `size_bytes` of an event that is not only about bytes: the watcher must re-evaluate everything."""

EXPIRED_A_RUN = 64
"""The most operations that one `run` expires: thousands of fetches may share a deadline."""

_SWEEP_FROM = 64


class Watcher(Protocol):
    """A receiver of events on keys."""

    def woken(self, key: Hashable, size_bytes: int) -> None:
        """Record that `size_bytes` more can be read under `key`, or (from `CHANGED` on) that anything may be new."""

    def act(self) -> None:
        """Complete if the recorded events suffice. Called after all keys woken so far were delivered."""


class DelayedOperation(Protocol):
    """A deferred operation with a deadline."""

    kind: ClassVar[str]
    """The API that is deferred, as the metric of the purgatory's size names it."""

    @property
    def done(self) -> bool:
        """Return whether the operation has ended; its deadline is then ignored."""

    def expire(self) -> None:
        """End the operation: its deadline has passed."""


class Purgatory:
    """The watchers of each key, and the deadlines of operations."""

    __slots__ = ("_deadlines", "_live", "_on_work", "_sequence", "_told", "_watchers", "_woken")

    def __init__(self, on_work: Callable[[], None]) -> None:
        self._on_work = on_work
        self._watchers: dict[Hashable, dict[Watcher, None]] = {}
        self._woken: dict[Hashable, int] = {}
        self._told: dict[Watcher, None] = {}
        self._deadlines: list[tuple[float, int, DelayedOperation]] = []
        self._sequence = 0
        self._live = _SWEEP_FROM

    @property
    def next_deadline(self) -> float | None:
        """Return the earliest deadline in loop seconds; None if there is none."""
        return self._deadlines[0][0] if self._deadlines else None

    def watch(self, key: Hashable, watcher: Watcher) -> None:
        """Register `watcher` under `key`. Idempotent."""
        watchers = self._watchers.get(key)
        if watchers is None:
            self._watchers[key] = {watcher: None}
        else:
            watchers[watcher] = None

    def unwatch(self, key: Hashable, watcher: Watcher) -> None:
        """Remove `watcher` from `key`, if registered."""
        watchers = self._watchers.get(key)
        if watchers is not None:
            watchers.pop(watcher, None)
            if not watchers:
                del self._watchers[key]

    def wake(self, key: Hashable, size_bytes: int = CHANGED) -> None:
        """Record that `size_bytes` more can be read under `key`, or that it changed, for the next `run`.

        Keys without watchers are ignored.
        """
        if key in self._watchers:
            woken = self._woken
            if not woken:
                self._on_work()
            woken[key] = woken.get(key, 0) + size_bytes

    def expire_at(self, operation: DelayedOperation, deadline: float) -> None:
        """Expire `operation` at `deadline`, in loop seconds, unless it is done by then."""
        deadlines = self._deadlines
        if len(deadlines) > self._live:
            deadlines[:] = [entry for entry in deadlines if not entry[2].done]
            heapify(deadlines)
            self._live = max(_SWEEP_FROM, 2 * len(deadlines))
        self._sequence += 1
        heappush(deadlines, (deadline, self._sequence, operation))
        if deadlines[0][2] is operation:
            self._on_work()

    def waiting(self) -> Iterator[DelayedOperation]:
        """Yield the operations that are not done."""
        return (operation for _, _, operation in self._deadlines if not operation.done)

    def tell(self) -> None:
        """Notify the watchers of the keys woken so far; they act in the next `run`."""
        woken, self._woken = self._woken, {}
        for key, size_bytes in woken.items():
            for watcher in tuple(self._watchers.get(key, ())):
                watcher.woken(key, size_bytes)
                self._told[watcher] = None

    def run(self, now: float) -> None:
        """Notify the watchers of the keys woken so far, let them act, and expire some of the due operations."""
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

    def expire_all(self) -> None:
        """Notify the watchers of the keys woken so far, let them act, and expire every operation that is left."""
        while self._woken or self._told or self._deadlines:
            self.run(float("inf"))
