"""Long work in short turns of the event loop.

Work is a generator of steps (`storage.search`): of about a millisecond each, or functions for a thread, which wait for
the disk or hold no lock of Python's while they work. What is done within one turn is answered at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from storage.steps import Search, Step

T = TypeVar("T")

STEPS_A_TURN = 4

SLICE_S = 0.002
"""How long `in_slices` holds the loop in each turn."""


def in_turns(work: Search[T], loop: asyncio.AbstractEventLoop) -> T | Awaitable[T]:
    """Do the first turn of `work`: return what it comes to, or an awaitable of that if there is more to do."""
    try:
        step = _turn(work, None)
    except StopIteration as done:
        result: T = done.value
        return result
    return _go_on(work, step, loop)


async def _go_on(work: Search[T], step: Step, loop: asyncio.AbstractEventLoop) -> T:
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


async def in_slices(work: Search[T], loop: asyncio.AbstractEventLoop, executor: Executor | None = None) -> T:
    """Do `work` for `SLICE_S` of each turn of the loop; return what it comes to.

    Its functions are called in `executor`, by default the loop's.
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


def _turn(work: Search[T], answer: object) -> Step:
    """Go on until a function is to be called or the turn is over; StopIteration at the end."""
    step = work.send(answer)
    for _ in range(STEPS_A_TURN - 1):
        if step is not None:
            break
        step = next(work)
    return step
