from __future__ import annotations

from typing import Any

import pytest

from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.handlers import end_txn
from broker.network.connection import RequestContext
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.node import LISTENER
from tests.unit.broker.transaction_node import TransactionNode


@pytest.fixture
def coordinated(new_node: NewNode) -> TransactionNode:
    node = new_node()
    node.start()
    return TransactionNode(node).host()


def end(coordinated: TransactionNode, producer: ProducerIdAndEpoch, *, version: int, commit: bool = True) -> Any:
    context = RequestContext(ApiKey.END_TXN, version, 7, "c", 1, LISTENER, "127.0.0.1")
    request = EndTxnRequest(
        transactional_id="t", producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=commit
    )
    return coordinated.node.wait(end_txn.handle(coordinated.node.broker, context, request))


def test_version_5_returns_the_epoch_of_the_next_transaction(coordinated: TransactionNode) -> None:
    producer = coordinated.producer()
    coordinated.add(producer)
    response = end(coordinated, producer, version=5)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, producer.producer_id, 1)


def test_version_4_keeps_the_epoch(coordinated: TransactionNode) -> None:
    producer = coordinated.producer()
    coordinated.add(producer)
    response = end(coordinated, producer, version=4)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, -1, -1)
    coordinated.settle()
    assert coordinated.markers() == ["commit 0 by 0"]


def test_abort_without_a_transaction_is_accepted_from_version_5(coordinated: TransactionNode) -> None:
    producer = coordinated.producer()
    assert end(coordinated, producer, version=4, commit=False).error_code == ErrorCode.INVALID_TXN_STATE
    assert end(coordinated, producer, version=5, commit=False).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("version", "error"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_old_client_gets_the_error_that_it_knows(coordinated: TransactionNode, version: int, error: ErrorCode) -> None:
    zombie = coordinated.producer()
    coordinated.producer()
    assert end(coordinated, zombie, version=version).error_code == error
