"""Purgatory: operations that watch keys and have deadlines."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from broker.runtime.purgatory import CHANGED, EXPIRED_A_RUN, DelayedOperation, Purgatory


class Waiter(DelayedOperation):
    """Records its callbacks."""

    kind: ClassVar[str] = "Fetch"

    def __init__(self) -> None:
        super().__init__()
        self.events: list[object] = []

    def woken(self, key: Hashable, size_bytes: int) -> None:
        self.events.append((key, size_bytes))

    def act(self) -> None:
        self.events.append("act")

    def expire(self) -> None:
        self.events.append("expire")


@dataclass
class Bench:
    requested_to_run: int = 0
    deadlines: list[float] = field(default_factory=list)
    purgatory: Purgatory = field(init=False)

    def __post_init__(self) -> None:
        self.purgatory = Purgatory(self._on_work, self.deadlines.append)

    def _on_work(self) -> None:
        self.requested_to_run += 1


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_watcher_is_woken_in_next_run_and_not_before(bench: Bench) -> None:
    waiter = Waiter()
    bench.purgatory.watch("a", waiter)
    bench.purgatory.wake("a", 10)
    assert waiter.events == []
    bench.purgatory.run(0.0)
    assert waiter.events == [("a", 10), "act"]


def test_wakes_of_key_before_run_are_merged_with_sum_of_bytes(bench: Bench) -> None:
    waiter = Waiter()
    bench.purgatory.watch("a", waiter)
    bench.purgatory.wake("a", 10)
    bench.purgatory.wake("a", 5)
    bench.purgatory.run(0.0)
    assert waiter.events == [("a", 15), "act"]


def test_watcher_of_several_keys_acts_once_after_all_wakes(bench: Bench) -> None:
    waiter = Waiter()
    for key in ("a", "b"):
        bench.purgatory.watch(key, waiter)
        bench.purgatory.wake(key, 1)
    bench.purgatory.run(0.0)
    assert waiter.events == [("a", 1), ("b", 1), "act"]


def test_change_outweighs_any_number_of_bytes(bench: Bench) -> None:
    waiter = Waiter()
    bench.purgatory.watch("a", waiter)
    bench.purgatory.wake("a", 10)
    bench.purgatory.wake("a")
    bench.purgatory.run(0.0)
    assert waiter.events == [("a", CHANGED + 10), "act"]


def test_driver_run_is_requested_once_for_all_wakes(bench: Bench) -> None:
    waiter = Waiter()
    for key in ("a", "b"):
        bench.purgatory.watch(key, waiter)
    bench.purgatory.wake("a")
    bench.purgatory.wake("b")
    assert bench.requested_to_run == 1


def test_watchers_can_be_woken_before_they_act(bench: Bench) -> None:
    waiter = Waiter()
    bench.purgatory.watch("a", waiter)
    bench.purgatory.wake("a", 1)
    bench.purgatory.notify()
    assert waiter.events == [("a", 1)]
    bench.purgatory.run(0.0)
    assert waiter.events == [("a", 1), "act"]


def test_key_without_watchers_wakes_none(bench: Bench) -> None:
    waiter = Waiter()
    bench.purgatory.watch("a", waiter)
    bench.purgatory.unwatch("a", waiter)
    bench.purgatory.wake("a")
    bench.purgatory.wake("b")
    bench.purgatory.run(0.0)
    assert waiter.events == []
    assert bench.requested_to_run == 0


def test_watcher_may_unwatch_while_woken(bench: Bench) -> None:
    class Once(Waiter):
        def woken(self, key: Hashable, size_bytes: int) -> None:
            super().woken(key, size_bytes)
            bench.purgatory.unwatch(key, self)

    waiters = [Once(), Once()]
    for waiter in waiters:
        bench.purgatory.watch("a", waiter)
    for _ in range(2):
        bench.purgatory.wake("a", 1)
        bench.purgatory.run(0.0)
    assert [waiter.events for waiter in waiters] == [[("a", 1), "act"]] * 2


def test_wake_during_run_is_delivered_in_next_run(bench: Bench) -> None:
    class Waking(Waiter):
        def act(self) -> None:
            super().act()
            bench.purgatory.wake("b", 2)

    other = Waiter()
    bench.purgatory.watch("a", Waking())
    bench.purgatory.watch("b", other)
    bench.purgatory.wake("a")
    bench.purgatory.run(0.0)
    assert other.events == []
    assert bench.requested_to_run == 2
    bench.purgatory.run(0.0)
    assert other.events == [("b", 2), "act"]


def test_an_operation_expires_at_its_deadline_and_not_before(bench: Bench) -> None:
    operation = Waiter()
    bench.purgatory.expire_at(operation, 5.0)
    bench.purgatory.run(4.999)
    assert operation.events == []
    bench.purgatory.run(5.0)
    assert operation.events == ["expire"]


def test_operations_expire_in_the_order_of_their_deadlines(bench: Bench) -> None:
    expired: list[str] = []

    class Named(Waiter):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def expire(self) -> None:
            super().expire()
            expired.append(self.name)

    for name, deadline in (("late", 3.0), ("early", 1.0), ("later", 4.0)):
        bench.purgatory.expire_at(Named(name), deadline)
    assert bench.purgatory.next_deadline == 1.0
    bench.purgatory.run(3.5)
    assert expired == ["early", "late"]
    assert bench.purgatory.next_deadline == 4.0


def test_wakes_are_delivered_before_deadlines_of_same_run(bench: Bench) -> None:
    operation = Waiter()
    bench.purgatory.watch("a", operation)
    bench.purgatory.expire_at(operation, 1.0)
    bench.purgatory.wake("a", 1)
    bench.purgatory.run(1.0)
    assert operation.events == [("a", 1), "act", "expire"]


def test_a_finished_operation_does_not_expire(bench: Bench) -> None:
    operation = Waiter()
    bench.purgatory.expire_at(operation, 1.0)
    operation.cancel()
    assert list(bench.purgatory.waiting()) == []
    bench.purgatory.run(2.0)
    assert operation.events == []
    assert bench.purgatory.next_deadline is None


def test_driver_is_rescheduled_only_for_earlier_deadline(bench: Bench) -> None:
    for deadline in (5.0, 6.0, 4.0):
        bench.purgatory.expire_at(Waiter(), deadline)
    assert bench.deadlines == [5.0, 4.0]
    assert bench.requested_to_run == 0


def test_deadlines_of_finished_operations_are_purged(bench: Bench) -> None:
    for number in range(10_000):
        operation = Waiter()
        bench.purgatory.expire_at(operation, 1e6 + number)
        if number % 100:
            operation.cancel()
    assert len(bench.purgatory._deadlines) < 1000


def test_stop_expires_all_operations(bench: Bench) -> None:
    operations = [Waiter() for _ in range(3 * EXPIRED_A_RUN)]
    for operation in operations:
        bench.purgatory.expire_at(operation, 1e9)
    bench.purgatory.expire_all()
    assert all(operation.events == ["expire"] for operation in operations)
