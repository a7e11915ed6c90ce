"""Every event that ends the wait of a fetch ends it once; `handlers/test_fetch.py` has the responses."""

from __future__ import annotations

import pytest

from broker.replication.delayed_fetch import DelayedFetch
from broker.runtime.deferred import Deferred
from protocol.errors import ErrorCode
from tests.unit.broker.node import Node


class Parked:
    """A fetch of bytes in `available`, which misses 10."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.available = 0
        self.ended = 0
        self.response: Deferred[str] = Deferred(node.loop)
        self.delayed = DelayedFetch(self, 10, self.response, self.end)
        node.purgatory.expire_at(self.delayed, 1.0)

    def attempt(self, final: bool) -> str | int:
        if self.available < 0:
            raise ZeroDivisionError
        return f"{self.available} bytes" if final or self.available >= 10 else 10 - self.available

    def refused(self, code: ErrorCode) -> str:
        return code.name

    def end(self) -> None:
        self.ended += 1
        assert not self.response.done() or self.response.cancelled()

    def becomes_readable(self, size_bytes: int) -> None:
        self.available += size_bytes
        self.delayed.add_readable(size_bytes)
        self.delayed.act()


@pytest.fixture
def parked(node: Node) -> Parked:
    return Parked(node)


def test_enough_bytes_end_the_wait(parked: Parked) -> None:
    parked.becomes_readable(9)
    assert not parked.response.done()
    parked.becomes_readable(1)
    assert (parked.response.result(), parked.ended) == ("10 bytes", 1)


def test_wait_goes_on_with_the_bytes_that_the_attempt_misses(parked: Parked) -> None:
    parked.delayed.add_readable(1 << 62)
    parked.delayed.act()
    assert (parked.response.done(), parked.ended) == (False, 0)
    parked.becomes_readable(10)
    assert parked.response.done()


def test_deadline_ends_the_wait_with_what_can_be_read(parked: Parked, node: Node) -> None:
    parked.becomes_readable(4)
    node.pass_time(1.1)
    assert (parked.response.result(), parked.ended) == ("4 bytes", 1)


def test_next_request_of_the_session_ends_the_wait(parked: Parked, node: Node) -> None:
    parked.delayed.refuse(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    node.pass_time(1.1)
    assert (parked.response.result(), parked.ended) == ("INVALID_FETCH_SESSION_EPOCH", 1)


def test_closed_connection_ends_the_wait(parked: Parked, node: Node) -> None:
    parked.response.cancel()
    node.pass_time(1.1)
    assert (parked.response.cancelled(), parked.ended) == (True, 1)


def test_exception_of_the_attempt_is_the_outcome(parked: Parked) -> None:
    parked.available = -1
    parked.delayed.expire()
    assert isinstance(parked.response.exception(), ZeroDivisionError)
    assert parked.ended == 1
