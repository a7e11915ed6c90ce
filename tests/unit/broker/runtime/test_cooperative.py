"""Long work in steps, beside other tasks on one loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any

import pytest

from broker.runtime.cooperative import SLICE_S, STEPS_A_TURN, in_slices, in_turns
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


@pytest.mark.parametrize("count", [0, 1, STEPS_A_TURN - 1])
def test_short_work_completes_immediately(loop: asyncio.AbstractEventLoop, count: int) -> None:
    assert in_turns(steps(count, []), loop) == "done"


def test_other_tasks_run_between_steps_of_long_work(loop: asyncio.AbstractEventLoop) -> None:
    done: list[int] = []
    outcome: Any = in_turns(steps(3 * STEPS_A_TURN, done), loop)
    seen = []

    async def look() -> Any:
        loop.call_soon(lambda: seen.append(len(done)))
        return await outcome

    assert loop.run_until_complete(look()) == "done"
    assert seen == [STEPS_A_TURN]


def test_blocking_call_runs_in_thread(loop: asyncio.AbstractEventLoop) -> None:
    def work() -> Steps[bool]:
        thread = yield threading.get_ident
        return bool(thread != threading.get_ident())

    outcome: Any = in_turns(work(), loop)
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

    assert wait(loop, in_turns(work(), loop)) == "handled"  # type: ignore[arg-type]  # narrower than declared


def test_sliced_work_yields_after_each_time_slice(loop: asyncio.AbstractEventLoop) -> None:
    now_s = 0.0
    loop.time = lambda: now_s  # type: ignore[method-assign]  # a clock that the test moves
    turns: list[int] = []
    done: list[int] = []

    def work() -> Steps[str]:
        nonlocal now_s
        for number in range(20):
            done.append(number)
            now_s += 0.6 * SLICE_S
            yield None
        with pytest.raises(ZeroDivisionError):
            yield lambda: 1 // 0
        return f"done beside {(yield threading.get_ident)}"

    def count() -> None:
        turns.append(len(done))
        if len(done) < 20:
            loop.call_soon(count)

    loop.call_soon(count)
    outcome = loop.run_until_complete(in_slices(work(), loop))
    assert outcome.startswith("done beside ")
    assert outcome != f"done beside {threading.get_ident()}"
    assert turns == list(range(0, 21, 2))


def test_exception_of_work_is_raised(loop: asyncio.AbstractEventLoop) -> None:
    def work(steps_before: int) -> Steps[None]:
        for _ in range(steps_before):
            yield None
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        in_turns(work(0), loop)
    with pytest.raises(ArithmeticError):
        wait(loop, in_turns(work(2 * STEPS_A_TURN), loop))  # type: ignore[arg-type]  # narrower than declared
