"""InitProducerId, sent by a client."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from broker.coordinator.runtime.context import ProducerIdAndEpoch
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.node import Node
from tests.unit.broker.transaction_node import TransactionNode


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
    ("transactional_id", "code"), [("tx", ErrorCode.NOT_COORDINATOR), ("", ErrorCode.INVALID_REQUEST)]
)
def test_transactional_id_is_initialized_by_its_coordinator(node: Node, transactional_id: str, code: ErrorCode) -> None:
    assert init(node, transactional_id) == (code, -1, -1)


@pytest.mark.parametrize(("version", "code"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)])
def test_fenced_producer_gets_the_error_that_it_knows(node: Node, version: int, code: ErrorCode) -> None:
    TransactionNode(node).host()
    _, producer_id, epoch = init(node, "t")
    assert init(node, "t") == (ErrorCode.NONE, producer_id, epoch + 1)
    response = node.answer(
        ApiKey.INIT_PRODUCER_ID,
        version,
        transactional_id="t",
        transaction_timeout_ms=60_000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    assert response.error_code == code


class TestTwoPhaseCommit:
    @pytest.fixture
    def coordinated(self, new_node: NewNode) -> TransactionNode:
        node = new_node(transaction_two_phase_commit_enable="true")
        node.start()
        return TransactionNode(node).host()

    def init(self, node: Node, timeout_ms: int = 60_000, *, keep_prepared_txn: bool = False) -> Any:
        return node.answer(
            ApiKey.INIT_PRODUCER_ID,
            6,
            transactional_id="t",
            transaction_timeout_ms=timeout_ms,
            enable_2pc=True,
            keep_prepared_txn=keep_prepared_txn,
        )

    def open(self, coordinated: TransactionNode) -> ProducerIdAndEpoch:
        answer = self.init(coordinated.node, timeout_ms=0)
        assert answer.error_code == ErrorCode.NONE
        producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
        coordinated.node.wait(coordinated.add(producer))
        return producer

    def test_version_is_advertised_only_if_it_is_enabled(self, coordinated: TransactionNode, node: Node) -> None:
        assert coordinated.node.broker.dispatcher.apis[ApiKey.INIT_PRODUCER_ID].max_version == 6
        assert node.broker.dispatcher.apis[ApiKey.INIT_PRODUCER_ID].max_version == 5

    def test_transaction_without_a_timeout_outlives_any_time_and_a_restart(self, coordinated: TransactionNode) -> None:
        producer = self.open(coordinated)
        for _ in range(2):
            coordinated.node.pass_time(5 * 24 * 3600)
            coordinated.node.wait(coordinated.transactions.abort_timed_out())
            coordinated.node.wait(coordinated.transactions.expire())
            assert coordinated.state() == "Ongoing"
            coordinated.restart()
        described = coordinated.node.answer(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["t"])
        assert described.transaction_states[0].transaction_timeout_ms == 2**31 - 1
        assert coordinated.node.wait(coordinated.end(producer)).error == ErrorCode.NONE
        coordinated.settle()
        assert (coordinated.state(), coordinated.markers()) == ("CompleteCommit", ["commit 1 by 0"])

    def test_new_producer_aborts_the_open_transaction(self, coordinated: TransactionNode) -> None:
        self.open(coordinated)
        assert self.init(coordinated.node).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        coordinated.settle()
        assert coordinated.state() == "CompleteAbort"
        assert self.init(coordinated.node).error_code == ErrorCode.NONE

    def keep(self, coordinated: TransactionNode) -> tuple[ProducerIdAndEpoch, ProducerIdAndEpoch]:
        """Return the new producer, and that of the transaction which was kept for it."""
        answer = self.init(coordinated.node, keep_prepared_txn=True)
        assert answer.error_code == ErrorCode.NONE
        return (
            ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch),
            ProducerIdAndEpoch(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch),
        )

    @pytest.mark.parametrize("commit", [True, False])
    def test_prepared_transaction_is_kept_for_the_next_producer_and_a_new_coordinator(
        self, coordinated: TransactionNode, commit: bool
    ) -> None:
        crashed = self.open(coordinated)
        producer, ongoing = self.keep(coordinated)
        assert (producer, ongoing) == (crashed._replace(epoch=1), crashed)
        coordinated.restart()
        described = coordinated.node.answer(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["t"])
        [shown] = described.transaction_states
        assert (shown.transaction_state, shown.producer_id, shown.producer_epoch) == ("Ongoing", *ongoing)
        assert coordinated.node.wait(coordinated.end(crashed, commit=commit)).error == ErrorCode.PRODUCER_FENCED
        result = coordinated.node.wait(coordinated.end(producer, commit=commit))
        assert (result.error, result.producer_id, result.producer_epoch) == (ErrorCode.NONE, crashed.producer_id, 2)
        coordinated.settle()
        decision = "commit" if commit else "abort"
        assert (coordinated.state(), coordinated.markers()) == (f"Complete{decision.title()}", [f"{decision} 1 by 0"])

    def test_without_a_transaction_there_is_none_to_keep(self, coordinated: TransactionNode) -> None:
        assert self.keep(coordinated)[1] == (-1, -1)

    def test_coordinator_without_the_setting_refuses_it(self, node: Node) -> None:
        TransactionNode(node).host()
        assert self.init(node).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
