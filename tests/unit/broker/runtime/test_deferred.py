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
    reported: list[Any] = []
    promise.add_done_callback(reported.append)
    return promise, reported


def test_result_is_delivered_synchronously(loop: asyncio.AbstractEventLoop) -> None:
    promise, reported = watched(loop)
    assert not promise.done()
    promise.answer(5)
    assert reported == [promise]
    assert (promise.done(), promise.cancelled(), promise.exception(), promise.result()) == (True, False, None, 5)


def test_result_can_be_delivered_in_next_loop_iteration(loop: asyncio.AbstractEventLoop) -> None:
    promise, reported = watched(loop)
    promise.answer_soon(5)
    assert promise.done()
    assert reported == []
    turn(loop)
    assert reported == [promise]


def test_callback_added_after_completion_is_called(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[Any] = Deferred(loop)
    promise.answer(5)
    reported: list[Any] = []
    promise.add_done_callback(reported.append)
    turn(loop)
    assert reported == [promise]


def test_an_exception_is_kept(loop: asyncio.AbstractEventLoop) -> None:
    promise, reported = watched(loop)
    wrong = ValueError("wrong")
    promise.answer(wrong)
    assert reported == [promise]
    assert promise.exception() is wrong
    with pytest.raises(ValueError, match="wrong"):
        promise.result()


def test_deferred_completes_once(loop: asyncio.AbstractEventLoop) -> None:
    promise, _ = watched(loop)
    promise.answer(5)
    with pytest.raises(asyncio.InvalidStateError):
        promise.answer(6)


def test_cancellation_calls_callbacks_once(loop: asyncio.AbstractEventLoop) -> None:
    promise, reported = watched(loop)
    promise.cancel()
    assert (reported, promise.done(), promise.cancelled()) == ([promise], True, True)
    promise.cancel()
    assert reported == [promise]
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
    promise, reported = watched(loop)
    promise.answer_soon(outcome)
    assert promise.then(repr).then(lambda text: str(text).upper()).result() == repr(outcome).upper()
    turn(loop)
    assert reported == [promise]
    assert promise.exception() is (outcome or None)


def test_then_leaves_the_outcome_of_its_source(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[int] = Deferred(loop)
    texts = [promise.then(str), promise.then(repr)]
    promise.answer(5)
    assert promise.result() == 5
    assert [text.result() for text in texts] == ["5", "5"]


def test_then_can_turn_exception_into_result_and_vice_versa(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[int] = Deferred(loop)
    mended = promise.then(str)
    promise.answer(ValueError("mended"))
    assert mended.result() == "mended"
    broken: Deferred[Any] = Deferred(loop)
    length = broken.then(len)  # type: ignore[arg-type]  # narrower than declared
    broken.answer(5)
    assert isinstance(length.exception(), TypeError)
    assert broken.exception() is None


def test_exception_passes_through_a_continuation_that_raises_it(loop: asyncio.AbstractEventLoop) -> None:
    def passed(outcome: object) -> str:
        if isinstance(outcome, BaseException):
            raise outcome
        return str(outcome)

    promise: Deferred[int] = Deferred(loop)
    derived = promise.then(passed).then(passed)
    wrong = ValueError("wrong")
    promise.answer(wrong)
    assert derived.exception() is wrong


def test_callbacks_of_a_derived_deferred_run_within_answer(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[int] = Deferred(loop)
    reported: list[str] = []
    promise.then(str).then(lambda text: f"{text}!").add_done_callback(lambda done: reported.append(done.result()))
    promise.answer(5)
    assert reported == ["5!"]


def test_callbacks_of_a_derived_deferred_wait_for_the_next_turn_after_answer_soon(
    loop: asyncio.AbstractEventLoop,
) -> None:
    promise: Deferred[int] = Deferred(loop)
    derived = promise.then(str)
    promise.answer_soon(5)
    assert not derived.done()
    turn(loop)
    assert derived.result() == "5"


def test_cancelled_source_runs_the_continuation_and_cancels_what_then_returned(
    loop: asyncio.AbstractEventLoop,
) -> None:
    promise: Deferred[int] = Deferred(loop)
    seen: list[Any] = []
    derived = promise.then(seen.append)
    promise.cancel()
    assert [type(outcome) for outcome in seen] == [asyncio.CancelledError]
    assert derived.cancelled()


def test_then_of_a_cancelled_deferred_is_cancelled(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[int] = Deferred(loop)
    promise.cancel()
    seen: list[Any] = []
    assert promise.then(seen.append).then(seen.append).cancelled()
    assert [type(outcome) for outcome in seen] == [asyncio.CancelledError] * 2


def test_cancelling_what_then_returned_cancels_the_source(loop: asyncio.AbstractEventLoop) -> None:
    promise, reported = watched(loop)
    derived = promise.then(str).then(str)
    derived.cancel()
    assert reported == [promise]
    assert promise.cancelled()
    assert derived.cancelled()


def test_cancelling_before_the_callbacks_run_leaves_the_result_of_the_source(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[int] = Deferred(loop)
    seen: list[Any] = []
    derived = promise.then(seen.append)
    promise.answer_soon(5)
    derived.cancel()
    turn(loop)
    assert (promise.result(), seen, derived.cancelled()) == (5, [5], True)


def test_result_is_refused_before_the_answer(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[int] = Deferred(loop)
    assert promise.exception() is None
    with pytest.raises(asyncio.InvalidStateError):
        promise.result()


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
    reported: list[Any] = []
    promise.add_done_callback(reported.append)
    promise.answer(5)
    assert reported == [promise]
    assert failures == [wrong]


def test_future_of_deferred_completes_in_later_loop_iteration(loop: asyncio.AbstractEventLoop) -> None:
    promise: Deferred[int] = Deferred(loop)
    future, reported = promise.as_future(), list[int]()
    future.add_done_callback(lambda done: reported.append(done.result()))
    promise.answer(5)
    assert reported == []
    turn(loop)
    assert reported == [5]


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
