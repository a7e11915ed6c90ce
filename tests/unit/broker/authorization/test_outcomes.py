"""What a guard makes of a response, whenever it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from broker.authorization.outcomes import complete
from broker.runtime.deferred import Deferred
from protocol.errors import ErrorCode, KafkaError


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_a_response_is_completed_at_once() -> None:
    assert complete(1, lambda found: found + 1) == 2
    assert complete(None, lambda found: found is None) is True


def test_an_awaited_response_is_completed_when_it_comes(loop: asyncio.AbstractEventLoop) -> None:
    future = loop.create_future()
    outcome = complete(future, lambda found: found + 1)
    future.set_result(1)
    assert loop.run_until_complete(outcome) == 2


def test_a_deferred_response_is_completed_in_the_same_turn(loop: asyncio.AbstractEventLoop) -> None:
    deferred: Deferred[int] = Deferred(loop)
    outcome = complete(deferred, lambda found: found + 1)
    assert isinstance(outcome, Deferred)
    deferred.answer(1)
    assert outcome.result() == 2


def test_errors_of_a_response_are_those_of_the_result(loop: asyncio.AbstractEventLoop) -> None:
    error = KafkaError(ErrorCode.NOT_COORDINATOR)
    deferred: Deferred[int] = Deferred(loop)
    outcome = complete(deferred, lambda found: found)
    deferred.answer(error)
    assert isinstance(outcome, Deferred)
    assert outcome.exception() is error
    future = loop.create_future()
    future.set_exception(error)
    with pytest.raises(KafkaError):
        loop.run_until_complete(complete(future, lambda found: found))
