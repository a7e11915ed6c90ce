"""Cooperative steps: long work in short turns of the event loop.

Work is a generator of steps (`storage.steps`). It yields None about once per millisecond of work, or a function to call
in a thread: one that blocks on the disk or releases the GIL while it runs.

    start_steps    run the first turn now, and return the result itself if the work ends in it: for requests
    run_steps      run all turns in a coroutine: for everything else

A turn ends at a function, and at the limit of its `Turn`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from storage.steps import Step, Steps

T = TypeVar("T")


class Turn(NamedTuple):
    """The work of one turn: at most so many steps, and no further step after so many seconds."""

    steps: int = sys.maxsize
    seconds: float = float("inf")


FEW_STEPS = Turn(steps=4)
ONE_STEP = Turn(steps=1)
SLICE = Turn(seconds=0.002)


async def _next_turn() -> None:
    await asyncio.sleep(0)


def start_steps(
    work: Steps[T],
    loop: asyncio.AbstractEventLoop,
    turn: Turn = FEW_STEPS,
    *,
    executor: Executor | None = None,
    between_turns: Callable[[], Awaitable[None]] = _next_turn,
) -> T | Awaitable[T]:
    """Run the first turn of `work`. Return its result, or an awaitable of the result if `work` has not ended.

    Functions that `work` yields are called in `executor`; None means the loop's default executor. `between_turns` must
    let the loop run, and may wait longer.
    """
    try:
        step = _advance(work, None, loop, turn)
    except StopIteration as done:
        result: T = done.value
        return result

    async def go_on(step: Step) -> T:
        try:
            while True:
                answer = None
                if step is None:
                    await between_turns()
                else:
                    try:
                        answer = await loop.run_in_executor(executor, step)
                    except Exception as error:
                        step = work.throw(error)
                        continue
                step = _advance(work, answer, loop, turn)
        except StopIteration as done:
            result: T = done.value
            return result

    return go_on(step)


async def run_steps(
    work: Steps[T],
    loop: asyncio.AbstractEventLoop,
    turn: Turn = SLICE,
    *,
    executor: Executor | None = None,
    between_turns: Callable[[], Awaitable[None]] = _next_turn,
) -> T:
    """Run `work` to its end and return its result. The parameters are those of `start_steps`."""
    outcome = start_steps(work, loop, turn, executor=executor, between_turns=between_turns)
    return await outcome if isinstance(outcome, Awaitable) else outcome


def _advance(work: Steps[T], answer: object, loop: asyncio.AbstractEventLoop, turn: Turn) -> Step:
    """Run a turn of `work`, or less, up to the first function. StopIteration when `work` ends."""
    ends = loop.time() + turn.seconds
    step = work.send(answer)
    left = turn.steps - 1
    while step is None and left and loop.time() < ends:
        step = next(work)
        left -= 1
    return step
