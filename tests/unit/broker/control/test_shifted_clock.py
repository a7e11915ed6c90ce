"""The clock that a test advances: timers at their deadlines, in their order; periodic tasks at ticks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from broker.control.shifted_clock import ShiftedClock
from broker.runtime.alarm import Alarm

HOUR_S, DAY_S = 3600, 24 * 3600
START_MS = 1_700_000_000_000


def run(body: Callable[[ShiftedClock], Awaitable[Any]], shift_ms: int = 0) -> Any:
    """Run a test on a new clock, whose machine's wall clock stands still."""

    async def main() -> Any:
        clock = ShiftedClock(asyncio.get_running_loop(), lambda: START_MS, shift_ms)
        return await body(clock)

    return asyncio.run(asyncio.wait_for(main(), 30))


def test_both_clocks_move_by_what_was_asked() -> None:
    async def body(clock: ShiftedClock) -> None:
        begun = clock.time()
        await clock.advance(DAY_S * 1000)
        await clock.advance(1)
        assert clock.shift_ms == DAY_S * 1000 + 1
        assert clock.now_ms() == START_MS + clock.shift_ms
        assert DAY_S <= clock.time() - begun < DAY_S + 10

    run(body)


def test_a_clock_begins_with_the_shift_of_an_earlier_run() -> None:
    async def body(clock: ShiftedClock) -> tuple[int, int]:
        return clock.shift_ms, clock.now_ms()

    assert run(body, shift_ms=7_000) == (7_000, START_MS + 7_000)


def test_timers_fire_in_the_order_of_their_deadlines_and_at_them() -> None:
    async def body(clock: ShiftedClock) -> None:
        begun = clock.time()
        fired: list[tuple[str, float]] = []

        def fire(name: str) -> None:
            fired.append((name, clock.time() - begun))

        for name, delay_s in (("week", 7 * DAY_S), ("session", 45), ("day", DAY_S)):
            clock.loop.call_later(delay_s, fire, name)
        assert await clock.advance(8 * DAY_S * 1000) == 3
        assert [name for name, _ in fired] == ["session", "day", "week"]
        for (_, at), deadline_s in zip(fired, (45, DAY_S, 7 * DAY_S), strict=True):
            assert deadline_s <= at < deadline_s + 10

    run(body)


def test_a_timer_that_another_sets_fires_in_the_same_advance() -> None:
    async def body(clock: ShiftedClock) -> list[str]:
        fired: list[str] = []

        def first() -> None:
            fired.append("first")
            clock.loop.call_later(7 * DAY_S, fired.append, "second")

        clock.loop.call_later(45, first)
        await clock.advance(7 * DAY_S * 1000)
        assert fired == ["first"], "the second is due 45 s later"
        await clock.advance(60_000)
        return fired

    assert run(body) == ["first", "second"]


def test_cancelled_timers_do_not_fire_and_those_beyond_the_target_stay() -> None:
    async def body(clock: ShiftedClock) -> list[str]:
        fired: list[str] = []
        clock.loop.call_later(1, fired.append, "cancelled").cancel()
        clock.loop.call_later(HOUR_S + 60, fired.append, "later")
        await clock.advance(HOUR_S * 1000)
        return fired

    assert run(body) == []


def test_an_alarm_of_the_clock_fires_when_it_is_advanced() -> None:
    async def body(clock: ShiftedClock) -> int:
        fired: list[float] = []
        alarm = Alarm(clock.loop, lambda: fired.append(clock.time()))
        alarm.schedule_at(clock.time() + HOUR_S)
        alarm.schedule_at(clock.time() + 2 * HOUR_S)
        await clock.advance(HOUR_S * 1000 + 1000)
        assert not fired
        await clock.advance(HOUR_S * 1000)
        return len(fired)

    assert run(body) == 1


def test_timers_fire_without_an_advance_too() -> None:
    async def body(clock: ShiftedClock) -> None:
        done = asyncio.Event()
        clock.loop.call_later(0.02, done.set)
        clock.loop.call_later(HOUR_S, lambda: None)
        await done.wait()
        await clock.sleep(0.02)

    run(body)


def test_a_timer_can_be_set_after_one_that_is_overdue_on_uvloop_too() -> None:
    async def body() -> None:
        clock = ShiftedClock(asyncio.get_running_loop(), lambda: START_MS)
        done = asyncio.Event()
        clock.loop.call_at(clock.loop.time() - 1, done.set)
        clock.loop.call_later(HOUR_S, lambda: None)
        await asyncio.wait_for(done.wait(), 30)

    uvloop.run(body())


def test_the_event_loops_own_timers_do_not_move() -> None:
    async def body(clock: ShiftedClock) -> bool:
        fired: list[None] = []
        asyncio.get_running_loop().call_later(HOUR_S, fired.append, None)
        await clock.advance(DAY_S * 1000)
        return bool(fired)

    assert run(body) is False


@pytest.mark.parametrize(("interval_s", "most"), [(1, 40), (HOUR_S, 10)])
def test_a_periodic_task_runs_at_few_ticks_and_at_the_end(interval_s: float, most: int) -> None:
    async def body(clock: ShiftedClock) -> list[float]:
        runs: list[float] = []
        begun = clock.time()

        async def repeat() -> None:
            while True:
                await clock.sleep(interval_s)
                runs.append(clock.time() - begun)

        task = asyncio.ensure_future(repeat())
        await asyncio.sleep(0)
        await clock.advance(25 * HOUR_S * 1000)
        task.cancel()
        return runs

    runs = run(body)
    assert 1 <= len(runs) <= most
    assert runs == sorted(runs)
    assert runs[-1] >= 25 * HOUR_S
    assert runs[0] >= interval_s


def test_a_step_waits_for_the_work_of_the_tasks_that_it_woke() -> None:
    async def body(clock: ShiftedClock) -> list[str]:
        order: list[str] = []

        async def repeat() -> None:
            while True:
                await clock.sleep(60)
                for _ in range(100):
                    await asyncio.sleep(0)
                order.append("task")

        task = asyncio.ensure_future(repeat())
        await asyncio.sleep(0)
        clock.loop.call_later(HOUR_S, order.append, "timer")
        await clock.advance(2 * HOUR_S * 1000)
        task.cancel()
        return order

    order = run(body)
    assert order.index("task") < order.index("timer")
    assert order[-1] == "task"


@pytest.mark.parametrize("first_s", [10, 0.01])
def test_a_task_that_is_at_work_while_time_moves_on_runs_again_at_the_end(first_s: float) -> None:
    async def body(clock: ShiftedClock) -> list[float]:
        begun = clock.time()
        runs: list[float] = []

        async def repeat() -> None:
            await clock.sleep(first_s)
            while True:
                runs.append(clock.time() - begun)
                await asyncio.sleep(0.4)
                await clock.sleep(10)

        task = asyncio.ensure_future(repeat())
        await asyncio.sleep(0.1)  # the real time after which the second task is at work
        await clock.advance(120 * 1000)
        task.cancel()
        return runs

    runs = run(body)
    assert runs[0] < 20
    assert 120 <= runs[-1] < 130


def test_an_advance_does_not_wait_for_a_task_that_has_ended() -> None:
    async def body(clock: ShiftedClock) -> float:
        task = asyncio.ensure_future(clock.sleep(10))
        await asyncio.sleep(0)
        begun = asyncio.get_running_loop().time()
        await clock.advance(120 * 1000)
        assert task.done()
        return asyncio.get_running_loop().time() - begun

    assert run(body) < 2


def test_thousands_of_timers_do_not_make_an_advance_long() -> None:
    async def body(clock: ShiftedClock) -> tuple[int, float]:
        for number in range(50_000):
            clock.loop.call_later(number + 1, lambda: None)
        begun = asyncio.get_running_loop().time()
        fired = await clock.advance(DAY_S * 1000)
        return fired, asyncio.get_running_loop().time() - begun

    fired, took_s = run(body)
    assert fired == 50_000
    assert took_s < 5


def test_advances_happen_one_after_the_other() -> None:
    async def body(clock: ShiftedClock) -> int:
        await asyncio.gather(*(clock.advance(HOUR_S * 1000) for _ in range(3)))
        return clock.shift_ms

    assert run(body) == 3 * HOUR_S * 1000


def test_an_exception_of_a_timer_goes_to_the_event_loop_and_stops_no_other() -> None:
    async def body(clock: ShiftedClock) -> tuple[list[str], list[str]]:
        handled: list[str] = []
        fired: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: handled.append(str(context["exception"])))

        def fail() -> None:
            raise ValueError("wrong")

        clock.loop.call_later(1, fail)
        clock.loop.call_later(2, fired.append, "next")
        await clock.advance(5_000)
        return handled, fired

    assert run(body) == (["wrong"], ["next"])
