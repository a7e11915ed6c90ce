"""Virtual time, turns of several loops, threads, and the end of processes."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Coroutine
from random import Random

import pytest

from simulation.loop import Exhausted, Loop, Schedule, Stuck, Trace, Worker


@pytest.fixture
def schedule() -> Schedule:
    return Schedule(Random(1), Trace())


def test_hours_of_virtual_time_pass_at_once(schedule: Schedule) -> None:
    schedule.run(schedule.loop("a"), asyncio.sleep(3600))
    assert 3600 <= schedule.now < 3601


def test_ready_callbacks_of_one_loop_run_in_order(schedule: Schedule) -> None:
    loop, seen = schedule.loop("a"), list[int]()

    async def call() -> None:
        for number in range(10):
            loop.call_soon(seen.append, number)
        await asyncio.sleep(1)

    schedule.run(loop, call())
    assert seen == list(range(10))


def test_seed_decides_which_loop_runs_first() -> None:
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


def test_thread_takes_time_and_its_errors_arrive(schedule: Schedule) -> None:
    loop = schedule.loop("a")

    async def work() -> tuple[int, float]:
        result = await loop.run_in_executor(None, int, "7")
        with pytest.raises(ValueError, match="seven"):
            await loop.run_in_executor(None, int, "seven")
        return result, loop.time()

    result, took_s = schedule.run(loop, work())
    assert result == 7
    assert took_s > 0


def test_endless_wait_raises_stuck(schedule: Schedule) -> None:
    loop = schedule.loop("a")

    async def wait() -> None:
        await loop.create_future()

    with pytest.raises(Stuck):
        schedule.run(loop, wait())
    loop.die()


def test_endless_work_raises_exhausted(schedule: Schedule) -> None:
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


def test_dead_process_runs_no_callback(schedule: Schedule) -> None:
    victim, ticks = schedule.loop("a"), list[float]()
    _ticking(victim, ticks)
    other = schedule.loop("b")
    other.call_later(2.5, victim.die)
    schedule.run(other, asyncio.sleep(10))
    assert len(ticks) == 3


def test_process_that_dies_before_task_starts_causes_no_never_awaited_warning(schedule: Schedule) -> None:
    loop = schedule.loop("a")

    async def inner() -> None:
        pass

    async def outer(work: Coroutine[object, object, None]) -> None:
        await work

    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always")
        task = loop.create_task(outer(inner()))
        loop.die()
    assert (reported, task.done()) == ([], False)


def test_paused_process_continues_after_resume(schedule: Schedule) -> None:
    victim, ticks = schedule.loop("a"), list[float]()
    _ticking(victim, ticks)
    other = schedule.loop("b")
    other.call_later(2.5, victim.pause)
    other.call_later(7.5, victim.resume)
    schedule.run(other, asyncio.sleep(10))
    assert [int(tick) for tick in ticks] == [0, 1, 2, 7, 8, 9]


def test_fast_clock_fires_its_timers_earlier(schedule: Schedule) -> None:
    loop = schedule.loop("a")
    loop.origin_s, loop.rate = 1000.0, 2.0
    begun_s = loop.time()
    schedule.run(loop, asyncio.sleep(10))
    assert 10 <= loop.time() - begun_s < 10.1
    assert 5 <= schedule.now < 5.1


def test_loop_runs_nothing_while_it_waits_for_disk(schedule: Schedule) -> None:
    loop, schedule.keeper = schedule.loop("a"), schedule.loop("keeper")
    waits_s = [3.0]
    loop.disk_waits_s = lambda: waits_s.pop() if waits_s else 0.0
    schedule.run(loop, asyncio.sleep(0.1))
    assert 3 <= schedule.now < 3.1


def stepped(schedule: Schedule) -> Loop:
    loop = schedule.loop("a")
    loop.stepped_share = 1.0
    return loop


def test_loop_runs_between_two_operations_of_thread(schedule: Schedule) -> None:
    loop, seen = stepped(schedule), list[str]()

    def work() -> str:
        for number in range(5):
            Worker.yield_point()
            seen.append(f"thread {number}")
        return "done"

    async def both() -> str:
        working = loop.run_in_executor(None, work)
        while not working.done():
            seen.append("loop")
            await asyncio.sleep(1e-4)
        return working.result()

    assert schedule.run(loop, both()) == "done"
    assert [one for one in seen if one != "loop"] == [f"thread {number}" for number in range(5)]
    assert "loop" in seen[seen.index("thread 0") : seen.index("thread 4")]


def test_thread_of_dead_process_has_no_effect(schedule: Schedule) -> None:
    loop, other, seen = stepped(schedule), schedule.loop("b"), list[str]()

    def work() -> None:
        for _ in range(1000):
            Worker.yield_point()
            seen.append("written")

    loop.run_in_executor(None, work)
    while not seen:
        schedule.run(other, asyncio.sleep(1e-3))
    written = len(seen)
    loop.die()
    schedule.run(other, asyncio.sleep(10))
    assert len(seen) == written < 1000


def test_exception_of_thread_reaches_its_future(schedule: Schedule) -> None:
    loop = stepped(schedule)

    def work() -> None:
        Worker.yield_point()
        raise OSError("broken")

    async def call() -> None:
        await loop.run_in_executor(None, work)

    with pytest.raises(OSError, match="broken"):
        schedule.run(loop, call())
