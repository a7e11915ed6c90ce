"""Purgatory driver on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator
from typing import ClassVar

import pytest

from broker.runtime.purgatory import EXPIRED_A_RUN, DelayedOperation
from broker.runtime.purgatory_driver import PurgatoryDriver
from tests.unit.broker.node import VirtualLoop


class Operation(DelayedOperation):
    """Records when it is woken and expired, by the loop's clock."""

    kind: ClassVar[str] = "Fetch"

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop = loop
        self.acted_at: list[float] = []
        self.expired_at: list[float] = []

    @property
    def done(self) -> bool:
        return bool(self.expired_at)

    def woken(self, key: Hashable, size_bytes: int) -> None:
        pass

    def act(self) -> None:
        self.acted_at.append(self.loop.time())

    def expire(self) -> None:
        self.expired_at.append(self.loop.time())


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


def until(loop: VirtualLoop, seconds: float) -> None:
    loop.run_until_complete(asyncio.sleep(seconds - loop.time()))


def test_woken_watcher_acts_without_delay(loop: VirtualLoop) -> None:
    purgatory = PurgatoryDriver(loop).purgatory
    operation = Operation(loop)
    purgatory.watch("a", operation)
    loop.call_later(1.0, purgatory.wake, "a")
    loop.call_later(1.0, purgatory.wake, "a")
    until(loop, 2.0)
    assert operation.acted_at == [pytest.approx(1.0, abs=0.001)]


def test_operations_expire_at_deadlines_in_any_order_of_arrival(loop: VirtualLoop) -> None:
    purgatory = PurgatoryDriver(loop).purgatory
    operations = {deadline: Operation(loop) for deadline in (3.0, 1.0, 2.0)}
    for deadline, operation in operations.items():
        purgatory.expire_at(operation, deadline)
    until(loop, 5.0)
    for deadline, operation in operations.items():
        assert operation.expired_at == [pytest.approx(deadline, abs=0.001)]


def test_earlier_deadline_added_later_is_met(loop: VirtualLoop) -> None:
    purgatory = PurgatoryDriver(loop).purgatory
    late, early = Operation(loop), Operation(loop)
    purgatory.expire_at(late, 10.0)
    loop.call_later(1.0, lambda: purgatory.expire_at(early, 2.0))
    until(loop, 11.0)
    assert early.expired_at == [pytest.approx(2.0, abs=0.001)]
    assert late.expired_at == [pytest.approx(10.0, abs=0.001)]


def test_a_timer_that_fires_early_is_armed_again() -> None:
    class Hasty(VirtualLoop):
        """Fires its first timer 0.5 ms early, as uvloop may."""

        early_s = 0.0005

        def call_at(self, when: float, *rest: object, **more: object) -> asyncio.TimerHandle:
            early_s, self.early_s = self.early_s, 0.0
            return super().call_at(when - early_s, *rest, **more)  # type: ignore[arg-type]

    loop = Hasty()
    operation = Operation(loop)
    PurgatoryDriver(loop).purgatory.expire_at(operation, 1.0)
    until(loop, 2.0)
    assert operation.expired_at == [pytest.approx(1.0, abs=0.001)]
    assert operation.expired_at[0] >= 1.0
    loop.close()


def test_failing_operation_does_not_delay_others(loop: VirtualLoop) -> None:
    purgatory = PurgatoryDriver(loop).purgatory
    failures: list[str] = []
    loop.set_exception_handler(lambda _, context: failures.append(repr(context["exception"])))

    class Broken(Operation):
        def expire(self) -> None:
            super().expire()
            raise RuntimeError("broken")

    other = Operation(loop)
    purgatory.expire_at(Broken(loop), 1.0)
    purgatory.expire_at(other, 1.0)
    until(loop, 2.0)
    assert failures == ["RuntimeError('broken')"]
    assert other.done


def test_a_stopped_driver_runs_nothing(loop: VirtualLoop) -> None:
    driver = PurgatoryDriver(loop)
    operation = Operation(loop)
    driver.purgatory.expire_at(operation, 1.0)
    until(loop, 0.5)
    driver.stop()
    until(loop, 2.0)
    assert not operation.done


def test_operations_due_together_expire_over_several_loop_iterations(loop: VirtualLoop) -> None:
    purgatory = PurgatoryDriver(loop).purgatory
    operations = [Operation(loop) for _ in range(3 * EXPIRED_A_RUN - 1)]
    for operation in operations:
        purgatory.expire_at(operation, 1.0)
    done: list[int] = []

    async def watch() -> None:
        await asyncio.sleep(1.0)
        while not done or done[-1] < len(operations):
            done.append(sum(operation.done for operation in operations))
            await asyncio.sleep(0)

    loop.run_until_complete(watch())
    assert list(dict.fromkeys(done))[-3:] == [EXPIRED_A_RUN, 2 * EXPIRED_A_RUN, len(operations)]
    assert loop.time() == pytest.approx(1.0, abs=0.01)
