"""Cooperative steps: long work in short turns of the event loop.

Work is a generator of steps (`storage.steps`). It yields None about once per millisecond of work, or a function to call
in a thread: one that blocks on the disk or releases the GIL while it runs. `in_turns` returns the result itself,
without an awaitable, if the work ends within the first turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from storage.steps import Step, Steps

T = TypeVar("T")

STEPS_A_TURN = 4

SLICE_S = 0.002
"""The longest time in seconds that `in_slices` holds the loop in one turn."""


def in_turns(work: Steps[T], loop: asyncio.AbstractEventLoop) -> T | Awaitable[T]:
    """Run the first turn of `work`. Return its result, or an awaitable of the result if `work` has not ended."""
    try:
        step = _turn(work, None)
    except StopIteration as done:
        result: T = done.value
        return result
    return _go_on(work, step, loop)


async def _go_on(work: Steps[T], step: Step, loop: asyncio.AbstractEventLoop) -> T:
    try:
        while True:
            if step is None:
                await asyncio.sleep(0)
                step = _turn(work, None)
                continue
            try:
                answer = await loop.run_in_executor(None, step)
            except Exception as error:
                step = work.throw(error)
            else:
                step = _turn(work, answer)
    except StopIteration as done:
        result: T = done.value
        return result


async def in_slices(work: Steps[T], loop: asyncio.AbstractEventLoop, executor: Executor | None = None) -> T:
    """Run `work` to its end, for at most about `SLICE_S` in each turn of the loop. Return its result.

    Functions that `work` yields are called in `executor`; None means the loop's default executor.
    """
    slice_ends = loop.time() + SLICE_S
    try:
        step = next(work)
        while True:
            answer = None
            if step is not None:
                try:
                    answer = await loop.run_in_executor(executor, step)
                except Exception as error:
                    step = work.throw(error)
                    continue
                slice_ends = loop.time() + SLICE_S
            elif loop.time() >= slice_ends:
                await asyncio.sleep(0)
                slice_ends = loop.time() + SLICE_S
            step = work.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result


def _turn(work: Steps[T], answer: object) -> Step:
    """Advance `work` by at most `STEPS_A_TURN` steps, up to the first function. StopIteration when `work` ends."""
    step = work.send(answer)
    for _ in range(STEPS_A_TURN - 1):
        if step is not None:
            break
        step = next(work)
    return step
