"""Virtual time, turns of several loops, threads, and ends of processes."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Coroutine
from random import Random

import pytest

from tests.simulation.loop import Exhausted, Loop, Schedule, Stuck, Trace


@pytest.fixture
def schedule() -> Schedule:
    return Schedule(Random(1), Trace())


def test_hours_pass_at_once(schedule: Schedule) -> None:
    schedule.run(schedule.loop("a"), asyncio.sleep(3600))
    assert 3600 <= schedule.now < 3601


def test_what_is_ready_in_a_loop_runs_in_its_order(schedule: Schedule) -> None:
    loop, seen = schedule.loop("a"), list[int]()

    async def call() -> None:
        for number in range(10):
            loop.call_soon(seen.append, number)
        await asyncio.sleep(1)

    schedule.run(loop, call())
    assert seen == list(range(10))


def test_the_seed_decides_which_loop_comes_first() -> None:
    def order(seed: int) -> str:
        schedule, seen = Schedule(Random(seed), Trace()), list[str]()
        loops = [schedule.loop(name) for name in "abcd"]
        for loop in loops:
            loop.call_soon(seen.append, loop.host)
        schedule.run(schedule.loop("e"), asyncio.sleep(1))
        return "".join(seen)

    orders = [order(seed) for seed in range(10)]
    assert len(set(orders)) > 3
    assert orders == [order(seed) for seed in range(10)]


def test_a_thread_takes_its_time_and_its_errors_arrive(schedule: Schedule) -> None:
    loop = schedule.loop("a")

    async def work() -> tuple[int, float]:
        result = await loop.run_in_executor(None, int, "7")
        with pytest.raises(ValueError, match="seven"):
            await loop.run_in_executor(None, int, "seven")
        return result, loop.time()

    result, took_s = schedule.run(loop, work())
    assert result == 7
    assert took_s > 0


def test_a_wait_that_never_ends_is_told(schedule: Schedule) -> None:
    loop = schedule.loop("a")

    async def wait() -> None:
        await loop.create_future()

    with pytest.raises(Stuck):
        schedule.run(loop, wait())
    loop.die()


def test_work_that_goes_round_for_ever_is_told(schedule: Schedule) -> None:
    loop = schedule.loop("a")

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    schedule.most_events = 100
    with pytest.raises(Exhausted):
        schedule.run(loop, spin())
    loop.die()


def _ticking(loop: Loop, ticks: list[float]) -> None:
    ticks.append(loop.time())
    loop.call_later(1, _ticking, loop, ticks)


def test_of_a_dead_process_nothing_happens_any_more(schedule: Schedule) -> None:
    victim, ticks = schedule.loop("a"), list[float]()
    _ticking(victim, ticks)
    other = schedule.loop("b")
    other.call_later(2.5, victim.die)
    schedule.run(other, asyncio.sleep(10))
    assert len(ticks) == 3


def test_a_process_that_dies_before_a_task_begins_warns_of_nothing_that_was_not_awaited(schedule: Schedule) -> None:
    loop = schedule.loop("a")

    async def inner() -> None:
        pass

    async def outer(work: Coroutine[object, object, None]) -> None:
        await work

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        task = loop.create_task(outer(inner()))
        loop.die()
    assert (told, task.done()) == ([], False)


def test_a_paused_process_goes_on_where_it_was(schedule: Schedule) -> None:
    victim, ticks = schedule.loop("a"), list[float]()
    _ticking(victim, ticks)
    other = schedule.loop("b")
    other.call_later(2.5, victim.pause)
    other.call_later(7.5, victim.resume)
    schedule.run(other, asyncio.sleep(10))
    assert [int(tick) for tick in ticks] == [0, 1, 2, 7, 8, 9]
