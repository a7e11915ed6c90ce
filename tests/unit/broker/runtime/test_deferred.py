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


def test_an_answer_is_told_at_once(loop: asyncio.AbstractEventLoop) -> None:
    promise, told = watched(loop)
    assert not promise.done()
    promise.answer(5)
    assert told == [promise]
    assert (promise.done(), promise.cancelled(), promise.exception(), promise.result()) == (True, False, None, 5)


def test_an_answer_may_be_told_in_a_turn_of_its_own(loop: asyncio.AbstractEventLoop) -> None:
    promise, told = watched(loop)
    promise.answer_soon(5)
    assert promise.done()
    assert told == []
    turn(loop)
    assert told == [promise]


def test_who_asks_after_the_answer_is_told_too(loop: asyncio.AbstractEventLoop) -> None:
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


def test_it_is_answered_once(loop: asyncio.AbstractEventLoop) -> None:
    promise, _ = watched(loop)
    promise.answer(5)
    with pytest.raises(asyncio.InvalidStateError):
        promise.answer(6)


def test_letting_go_of_it_is_told(loop: asyncio.AbstractEventLoop) -> None:
    promise, told = watched(loop)
    promise.cancel()
    assert (told, promise.done(), promise.cancelled()) == ([promise], True, True)
    promise.cancel()
    assert told == [promise]
    with pytest.raises(asyncio.CancelledError):
        promise.result()


def test_letting_go_of_what_was_answered_is_nothing(loop: asyncio.AbstractEventLoop) -> None:
    promise, _ = watched(loop)
    promise.answer(5)
    promise.cancel()
    assert not promise.cancelled()


def test_another_step_makes_something_of_the_answer(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[int] = Deferred(loop)
    finished = promise.then(lambda outcome: [outcome])
    promise.answer(5)
    assert finished.result() == [5]


@pytest.mark.parametrize("outcome", [0, ValueError("wrong")])
def test_another_step_may_come_after_the_answer(loop: asyncio.AbstractEventLoop, outcome: Any) -> None:
    promise, told = watched(loop)
    promise.answer_soon(outcome)
    assert promise.then(repr).then(lambda text: text.upper()).result() == repr(outcome).upper()  # type: ignore[union-attr]  # the type is known here
    turn(loop)
    assert told == [promise]
    assert promise.exception() is None


def test_another_step_may_make_an_answer_of_an_exception_and_the_other_way(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[int] = Deferred(loop)
    mended = promise.then(str)
    promise.answer(ValueError("mended"))
    assert mended.result() == "mended"
    broken: Deferred[Any] = Deferred(loop)
    broken.then(len)  # type: ignore[arg-type]  # narrower than declared
    broken.answer(5)
    assert isinstance(broken.exception(), TypeError)


def test_it_can_be_awaited(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[int] = Deferred(loop)

    async def wait() -> int:
        return await promise

    loop.call_soon(promise.answer, 5)
    assert loop.run_until_complete(wait()) == 5


def test_one_who_fails_to_take_it_does_not_keep_it_from_the_others(loop: asyncio.AbstractEventLoop) -> None:
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


def test_what_is_made_of_the_answer_can_be_made_something_of_again(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[Any] = Deferred(loop)
    promise.then(lambda number: 2 * int(str(number))).then(str)
    promise.answer(5)
    assert promise.result() == "10"


def test_what_went_wrong_on_the_way_is_told_to_the_last(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[Any] = Deferred(loop)
    promise.then(len).then(lambda outcome: type(outcome).__name__)  # type: ignore[arg-type]  # narrower than declared
    promise.answer(5)
    assert promise.result() == "TypeError"


def test_as_a_future_it_is_told_in_a_later_turn(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[int] = Deferred(loop)
    future, told = promise.as_future(), list[int]()
    future.add_done_callback(lambda done: told.append(done.result()))
    promise.answer(5)
    assert told == []
    turn(loop)
    assert told == [5]


def test_as_a_future_it_tells_of_failures_and_of_being_given_up(loop: asyncio.AbstractEventLoop) -> None:
    failed, given_up, forgotten = Deferred[int](loop), Deferred[int](loop), Deferred[int](loop)
    futures = [promise.as_future() for promise in (failed, given_up, forgotten)]
    futures[2].cancel()
    failed.answer(ValueError("wrong"))
    given_up.cancel()
    forgotten.answer(5)
    turn(loop)
    assert isinstance(futures[0].exception(), ValueError)
    assert futures[1].cancelled()
