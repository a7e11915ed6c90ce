"""Long work in steps, beside other tasks on one loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any

import pytest

from broker.runtime.cooperative import FEW_STEPS, ONE_STEP, SLICE, Turn, run_steps, start_steps
from broker.runtime.executors import thread_pool
from storage.steps import Steps


@pytest.fixture
def loop() -> Any:
    loop = asyncio.new_event_loop()
    yield loop
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def steps(count: int, done: list[int]) -> Steps[str]:
    for number in range(count):
        done.append(number)
        yield None
    return "done"


def wait(loop: asyncio.AbstractEventLoop, outcome: Awaitable[Any]) -> Any:
    async def it() -> Any:
        return await outcome

    return loop.run_until_complete(it())


@pytest.mark.parametrize("count", [0, 1, FEW_STEPS.steps - 1])
def test_short_work_completes_immediately(loop: asyncio.AbstractEventLoop, count: int) -> None:
    assert start_steps(steps(count, []), loop) == "done"


def test_other_tasks_run_between_steps_of_long_work(loop: asyncio.AbstractEventLoop) -> None:
    done: list[int] = []
    outcome: Any = start_steps(steps(3 * FEW_STEPS.steps, done), loop)
    seen = []

    async def look() -> Any:
        loop.call_soon(lambda: seen.append(len(done)))
        return await outcome

    assert loop.run_until_complete(look()) == "done"
    assert seen == [FEW_STEPS.steps]


def test_blocking_call_runs_in_thread(loop: asyncio.AbstractEventLoop) -> None:
    def work() -> Steps[bool]:
        thread = yield threading.get_ident
        return bool(thread != threading.get_ident())

    outcome: Any = start_steps(work(), loop)
    assert isinstance(outcome, Awaitable)
    assert wait(loop, outcome)


def test_exception_of_thread_is_raised_in_work(loop: asyncio.AbstractEventLoop) -> None:
    def work() -> Steps[str]:
        try:
            yield lambda: 1 // 0
        except ZeroDivisionError:
            yield None
            return "handled"
        return "not raised"

    assert wait(loop, start_steps(work(), loop)) == "handled"  # type: ignore[arg-type]  # narrower than declared


def test_sliced_work_yields_after_each_time_slice(loop: asyncio.AbstractEventLoop) -> None:
    now_s = 0.0
    loop.time = lambda: now_s  # type: ignore[method-assign]  # a clock that the test moves
    turns: list[int] = []
    done: list[int] = []

    def work() -> Steps[str]:
        nonlocal now_s
        for number in range(20):
            done.append(number)
            now_s += 0.6 * SLICE.seconds
            yield None
        with pytest.raises(ZeroDivisionError):
            yield lambda: 1 // 0
        return f"done beside {(yield threading.get_ident)}"

    def count() -> None:
        turns.append(len(done))
        if len(done) < 20:
            loop.call_soon(count)

    loop.call_soon(count)
    outcome = loop.run_until_complete(run_steps(work(), loop))
    assert outcome.startswith("done beside ")
    assert outcome != f"done beside {threading.get_ident()}"
    assert turns == list(range(0, 21, 2))


def test_exception_of_work_is_raised(loop: asyncio.AbstractEventLoop) -> None:
    def work(steps_before: int) -> Steps[None]:
        for _ in range(steps_before):
            yield None
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        start_steps(work(0), loop)
    with pytest.raises(ArithmeticError):
        wait(loop, start_steps(work(2 * FEW_STEPS.steps), loop))  # type: ignore[arg-type]  # narrower than declared


@pytest.mark.parametrize(("turn", "seen"), [(ONE_STEP, [1, 2, 3, 4, 5]), (Turn(steps=2), [2, 4])])
def test_pause_follows_each_turn(loop: asyncio.AbstractEventLoop, turn: Turn, seen: list[int]) -> None:
    done: list[int] = []
    paused: list[int] = []

    async def pause() -> None:
        paused.append(len(done))

    assert loop.run_until_complete(run_steps(steps(5, done), loop, turn, between_turns=pause)) == "done"
    assert paused == seen


def test_functions_run_in_the_given_executor(loop: asyncio.AbstractEventLoop) -> None:
    def work() -> Steps[str]:
        name = yield lambda: threading.current_thread().name
        return str(name)

    executor = thread_pool("raft")
    assert loop.run_until_complete(run_steps(work(), loop, executor=executor)).startswith("raft")
    executor.shutdown()
