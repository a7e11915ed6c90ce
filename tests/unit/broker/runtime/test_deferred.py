from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from broker.runtime.deferred import Deferred


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def turn(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_until_complete(asyncio.sleep(0))


def watched(loop: asyncio.AbstractEventLoop) -> tuple[Deferred[Any], list[Any]]:
    promise: Deferred[Any] = Deferred(loop)
    told: list[Any] = []
    promise.add_done_callback(told.append)
    return promise, told


def test_result_is_delivered_synchronously(loop: asyncio.AbstractEventLoop) -> None:
    promise, told = watched(loop)
    assert not promise.done()
    promise.answer(5)
    assert told == [promise]
    assert (promise.done(), promise.cancelled(), promise.exception(), promise.result()) == (True, False, None, 5)


def test_result_can_be_delivered_in_next_loop_iteration(loop: asyncio.AbstractEventLoop) -> None:
    promise, told = watched(loop)
    promise.answer_soon(5)
    assert promise.done()
    assert told == []
    turn(loop)
    assert told == [promise]


def test_callback_added_after_completion_is_called(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[Any] = Deferred(loop)
    promise.answer(5)
    told: list[Any] = []
    promise.add_done_callback(told.append)
    turn(loop)
    assert told == [promise]


def test_an_exception_is_kept(loop: asyncio.AbstractEventLoop) -> None:
    promise, told = watched(loop)
    wrong = ValueError("wrong")
    promise.answer(wrong)
    assert told == [promise]
    assert promise.exception() is wrong
    with pytest.raises(ValueError, match="wrong"):
        promise.result()


def test_deferred_completes_once(loop: asyncio.AbstractEventLoop) -> None:
    promise, _ = watched(loop)
    promise.answer(5)
    with pytest.raises(asyncio.InvalidStateError):
        promise.answer(6)


def test_cancellation_calls_callbacks_once(loop: asyncio.AbstractEventLoop) -> None:
    promise, told = watched(loop)
    promise.cancel()
    assert (told, promise.done(), promise.cancelled()) == ([promise], True, True)
    promise.cancel()
    assert told == [promise]
    with pytest.raises(asyncio.CancelledError):
        promise.result()


def test_cancelling_completed_deferred_has_no_effect(loop: asyncio.AbstractEventLoop) -> None:
    promise, _ = watched(loop)
    promise.answer(5)
    promise.cancel()
    assert not promise.cancelled()


def test_then_transforms_result(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[int] = Deferred(loop)
    finished = promise.then(lambda outcome: [outcome])
    promise.answer(5)
    assert finished.result() == [5]


@pytest.mark.parametrize("outcome", [0, ValueError("wrong")])
def test_then_can_be_added_after_completion(loop: asyncio.AbstractEventLoop, outcome: Any) -> None:
    promise, told = watched(loop)
    promise.answer_soon(outcome)
    assert promise.then(repr).then(lambda text: text.upper()).result() == repr(outcome).upper()  # type: ignore[union-attr]  # the type is known here
    turn(loop)
    assert told == [promise]
    assert promise.exception() is None


def test_then_can_turn_exception_into_result_and_vice_versa(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[int] = Deferred(loop)
    mended = promise.then(str)
    promise.answer(ValueError("mended"))
    assert mended.result() == "mended"
    broken: Deferred[Any] = Deferred(loop)
    broken.then(len)  # type: ignore[arg-type]  # narrower than declared
    broken.answer(5)
    assert isinstance(broken.exception(), TypeError)


def test_deferred_can_be_awaited(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[int] = Deferred(loop)

    async def wait() -> int:
        return await promise

    loop.call_soon(promise.answer, 5)
    assert loop.run_until_complete(wait()) == 5


def test_failing_callback_does_not_block_others(loop: asyncio.AbstractEventLoop) -> None:
    failures: list[Any] = []
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    wrong = ValueError("wrong")

    def fail(_: object) -> None:
        raise wrong

    promise: Deferred[int] = Deferred(loop)
    promise.add_done_callback(fail)
    told: list[Any] = []
    promise.add_done_callback(told.append)
    promise.answer(5)
    assert told == [promise]
    assert failures == [wrong]


def test_then_can_be_chained(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[Any] = Deferred(loop)
    promise.then(lambda number: 2 * int(str(number))).then(str)
    promise.answer(5)
    assert promise.result() == "10"


def test_exception_in_chain_reaches_last_step(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[Any] = Deferred(loop)
    promise.then(len).then(lambda outcome: type(outcome).__name__)  # type: ignore[arg-type]  # narrower than declared
    promise.answer(5)
    assert promise.result() == "TypeError"


def test_future_of_deferred_completes_in_later_loop_iteration(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[int] = Deferred(loop)
    future, told = promise.as_future(), list[int]()
    future.add_done_callback(lambda done: told.append(done.result()))
    promise.answer(5)
    assert told == []
    turn(loop)
    assert told == [5]


def test_future_of_deferred_carries_failure_and_cancellation(loop: asyncio.AbstractEventLoop) -> None:
    failed, given_up, forgotten = Deferred[int](loop), Deferred[int](loop), Deferred[int](loop)
    futures = [promise.as_future() for promise in (failed, given_up, forgotten)]
    futures[2].cancel()
    failed.answer(ValueError("wrong"))
    given_up.cancel()
    forgotten.answer(5)
    turn(loop)
    assert isinstance(futures[0].exception(), ValueError)
    assert futures[1].cancelled()
