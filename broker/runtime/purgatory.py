"""The purgatory: operations that wait for events on keys, or for a deadline (Kafka: `DelayedOperationPurgatory`).

An event happens to a key: a partition's high watermark advances, its log start moves, its leader changes, it is
deleted. A watcher (the session of a deferred fetch, a produce that waits for its replicas) is registered under every
key whose events can complete it. There is no polling:

    watch(key, watcher)     notify `watcher` of events on `key`, until `unwatch`
    wake(key, size_bytes)   record an event on `key`; the next `run` notifies the key's watchers
    expire_at(operation, t) call `operation.expire()` at loop time `t` unless it is cancelled by then
    notify()                notify the watchers of all recorded events
    run(now)                notify, let each notified watcher act once, then expire at most `EXPIRED_A_RUN` due
                            operations; if more are due, `next_deadline` is in the past

The records of a log, read by replicas, and the committed records of a partition, read by clients, are separate keys: an
append would wake clients in vain, and an advancing high watermark would wake replicas in vain.

`wake` only records the key. So the append that advances a high watermark first answers its own client, and a hundred
appends in one turn of the loop cause one wake-up. `on_work` is called when the driver must schedule a `run` soon,
`on_deadline` when it must schedule one at an earlier time than before.

Pure: time is the loop's, in seconds, and is passed in. `broker.runtime.purgatory_driver` runs it.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import ClassVar, Protocol

from broker.runtime.deadline_queue import DeadlineQueue, Scheduled

CHANGED = 1 << 62
"""The `size_bytes` of an event that is not only about bytes: the watcher must re-evaluate everything."""

EXPIRED_A_RUN = 64
"""The most operations that one `run` expires: thousands of fetches may share a deadline."""


class Watcher(Protocol):
    """A receiver of events on keys."""

    def woken(self, key: Hashable, size_bytes: int) -> None:
        """Record that `size_bytes` more can be read under `key`, or (from `CHANGED` on) that anything may be new."""

    def act(self) -> None:
        """Complete if the recorded events suffice. Called after all keys woken so far were delivered."""


class DelayedOperation(Scheduled):
    """A deferred operation. `expire_at` sets its deadline; whatever ends it earlier calls `cancel`."""

    __slots__ = ()

    kind: ClassVar[str]
    """The API that is deferred, as the metric of the purgatory's size names it."""

    def expire(self) -> None:
        """End the operation: its deadline has passed."""
        raise NotImplementedError


class Purgatory:
    """The watchers of each key, and the deadlines of operations."""

    __slots__ = ("_deadlines", "_notified", "_on_work", "_watchers", "_woken")

    def __init__(self, on_work: Callable[[], object], on_deadline: Callable[[float], object]) -> None:
        self._on_work = on_work
        self._watchers: dict[Hashable, dict[Watcher, None]] = {}
        self._woken: dict[Hashable, int] = {}
        self._notified: dict[Watcher, None] = {}
        self._deadlines: DeadlineQueue[DelayedOperation] = DeadlineQueue(on_deadline)

    @property
    def next_deadline(self) -> float | None:
        """Return the earliest deadline in loop seconds; None if there is none."""
        return self._deadlines.next_at

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
        """Expire `operation`, which had no deadline before, at `deadline` in loop seconds, unless cancelled by then."""
        operation.queued_at = None
        self._deadlines.schedule(operation, deadline)

    def waiting(self) -> Iterator[DelayedOperation]:
        """Yield the operations that have not ended."""
        return iter(self._deadlines)

    def notify(self) -> None:
        """Notify the watchers of the keys woken so far; they act in the next `run`."""
        woken, self._woken = self._woken, {}
        for key, size_bytes in woken.items():
            for watcher in tuple(self._watchers.get(key, ())):
                watcher.woken(key, size_bytes)
                self._notified[watcher] = None

    def run(self, now: float) -> None:
        """Notify the watchers of the keys woken so far, let them act, and expire some of the due operations."""
        self.notify()
        notified, self._notified = self._notified, {}
        for watcher in notified:
            watcher.act()
        for _ in range(EXPIRED_A_RUN):
            operation = self._deadlines.pop_due(now)
            if operation is None:
                break
            operation.expire()

    def expire_all(self) -> None:
        """Notify the watchers of the keys woken so far, let them act, and expire every operation that is left."""
        while self._woken or self._notified or self._deadlines:
            self.run(float("inf"))
