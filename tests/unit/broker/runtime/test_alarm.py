"""An alarm on an event loop in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from broker.runtime.alarm import Alarm
from tests.unit.broker.node import VirtualLoop


class Hasty(VirtualLoop):
    """Fires every timer 0.4 ms early, and counts the timers."""

    timers = 0

    def call_at(self, when: float, *rest: object, **more: object) -> asyncio.TimerHandle:
        self.timers += 1
        return super().call_at(when - 0.0004, *rest, **more)  # type: ignore[arg-type]  # passed on


class Bench:
    """An alarm, and the times at which it ran."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.ran_at: list[float] = []
        self.alarm = Alarm(loop, lambda: self.ran_at.append(loop.time()))

    def until(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds - self.loop.time()))


@pytest.fixture
def bench() -> Iterator[Bench]:
    loop = VirtualLoop()
    yield Bench(loop)
    loop.close()


def test_function_runs_once_in_next_turn_however_often_scheduled(bench: Bench) -> None:
    bench.alarm.schedule()
    bench.alarm.schedule()
    assert bench.ran_at == []
    bench.until(1.0)
    assert bench.ran_at == [0.0]
    bench.alarm.schedule()
    bench.until(2.0)
    assert bench.ran_at == [0.0, 1.0]


def test_function_runs_at_the_deadline_set_last(bench: Bench) -> None:
    for deadline in (3.0, 1.0, 2.0):
        bench.alarm.schedule_at(deadline)
    bench.until(5.0)
    assert bench.ran_at == [pytest.approx(2.0)]


def test_run_in_next_turn_leaves_the_deadline(bench: Bench) -> None:
    bench.alarm.schedule_at(1.0)
    bench.alarm.schedule()
    bench.until(2.0)
    assert bench.ran_at == [0.0, pytest.approx(1.0)]


def test_deadline_that_is_withdrawn_is_not_met(bench: Bench) -> None:
    bench.alarm.schedule_at(1.0)
    bench.alarm.schedule_at(None)
    assert not bench.alarm.is_set
    bench.until(2.0)
    assert bench.ran_at == []


def test_deadline_in_the_past_is_met_at_once(bench: Bench) -> None:
    bench.until(2.0)
    bench.alarm.schedule_at(1.0)
    bench.until(3.0)
    assert bench.ran_at == [pytest.approx(2.0)]


def test_due_time_in_ms_has_passed_when_the_function_runs(bench: Bench) -> None:
    for due_ms in range(1, 200):
        bench.alarm.schedule_at_ms(due_ms)
        bench.until((due_ms + 1) / 1000)
        assert int(bench.ran_at[-1] * 1000) >= due_ms


def test_run_now_replaces_the_run_in_the_next_turn(bench: Bench) -> None:
    bench.alarm.schedule()
    bench.alarm.run_now()
    assert bench.ran_at == [0.0]
    assert not bench.alarm.is_set
    bench.until(1.0)
    assert bench.ran_at == [0.0]


def test_cancelled_alarm_does_not_run_but_can_be_set_again(bench: Bench) -> None:
    bench.alarm.schedule()
    bench.alarm.schedule_at(1.0)
    bench.alarm.cancel()
    assert not bench.alarm.is_set
    bench.until(2.0)
    assert bench.ran_at == []
    bench.alarm.schedule_at(3.0)
    bench.until(4.0)
    assert bench.ran_at == [pytest.approx(3.0)]


def test_timer_that_fires_early_is_set_again_without_spinning() -> None:
    loop = Hasty()
    bench = Bench(loop)
    bench.alarm.schedule_at(1.0)
    bench.loop.run_until_complete(asyncio.sleep(2.0))
    [ran_at] = bench.ran_at
    assert 1.0 <= ran_at < 1.0015
    assert loop.timers <= 4  # that of sleep() included
    loop.close()


def test_deadline_that_moves_later_sets_no_timer_until_the_first_fires() -> None:
    loop = Hasty()
    bench = Bench(loop)
    for number in range(100):
        bench.alarm.schedule_at(1.0 + number)
    assert loop.timers == 1
    loop.close()


def test_function_may_schedule_its_next_run(bench: Bench) -> None:
    def run() -> None:
        times.append(bench.loop.time())
        alarm.schedule_at(None if len(times) == 3 else bench.loop.time() + 1.0)

    times: list[float] = []
    alarm = Alarm(bench.loop, run)
    alarm.schedule()
    bench.until(5.0)
    assert times == [0.0, pytest.approx(1.0), pytest.approx(2.0)]


def test_function_that_fails_can_be_scheduled_again(bench: Bench) -> None:
    failures: list[object] = []
    bench.loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))

    def run() -> None:
        raise RuntimeError("broken")

    alarm = Alarm(bench.loop, run)
    for _ in range(2):
        alarm.schedule()
        alarm.schedule_at(bench.loop.time() + 0.5)
        bench.until(bench.loop.time() + 1.0)
    assert len(failures) == 4
