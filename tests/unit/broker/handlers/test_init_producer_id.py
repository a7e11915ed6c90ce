"""InitProducerId, sent by a client."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.node import Node


def init(node: Node, transactional_id: str | None = None, version: int = 5) -> tuple[int, int, int]:
    """Return (error code, producer id, epoch)."""
    response = node.answer(
        ApiKey.INIT_PRODUCER_ID, version, transactional_id=transactional_id, transaction_timeout_ms=60_000
    )
    return response.error_code, response.producer_id, response.producer_epoch


@pytest.mark.parametrize("version", range(6))
def test_every_request_gets_a_new_producer_id_with_epoch_0(node: Node, version: int) -> None:
    assert [init(node, version=version) for _ in range(3)] == [(0, 0, 0), (0, 1, 0), (0, 2, 0)]


def test_next_block_is_allocated_once_all_ids_are_used(node: Node) -> None:
    assert [init(node) for _ in range(1002)] == [(0, number, 0) for number in range(1002)]


def test_id_from_the_current_block_is_returned_synchronously(node: Node) -> None:
    init(node)
    outcome = node.query(ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None, transaction_timeout_ms=0)
    assert not isinstance(outcome, Awaitable)


def test_producer_with_an_id_gets_a_new_one(node: Node) -> None:
    response = node.answer(
        ApiKey.INIT_PRODUCER_ID,
        5,
        transactional_id=None,
        transaction_timeout_ms=0,
        producer_id=77,
        producer_epoch=4,
    )
    assert (response.producer_id, response.producer_epoch) == (0, 0)


@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(77, -1), (-1, 4)])
def test_an_id_without_an_epoch_is_refused(node: Node, producer_id: int, producer_epoch: int) -> None:
    response = node.answer(
        ApiKey.INIT_PRODUCER_ID,
        3,
        transactional_id=None,
        transaction_timeout_ms=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    assert (response.error_code, response.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


@pytest.mark.parametrize(
    ("transactional_id", "code"),
    [("tx", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), ("", ErrorCode.INVALID_REQUEST)],
)
def test_transactional_producers_are_refused_immediately(node: Node, transactional_id: str, code: ErrorCode) -> None:
    assert init(node, transactional_id) == (code, -1, -1)
