"""Fenced producers and aborted transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.control import transactions
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from protocol.record_batch import build_batch
from tests.unit.broker.control.controlled_broker import ControlledBroker


class Producer:
    """A producer with the transactional id x, which has written a record to topic t in an open transaction."""

    def __init__(self, broker: ControlledBroker, *, enable_2pc: bool = False) -> None:
        self._broker = broker
        broker.post("/v1/topics", topic="t")
        broker.call(ApiKey.FIND_COORDINATOR, 3, key="x", key_type=1)
        init: dict[str, Any] = {"transactional_id": "x", "transaction_timeout_ms": 60_000}
        if enable_2pc:
            init["enable_2pc"] = True
        given = broker.call(ApiKey.INIT_PRODUCER_ID, 6 if enable_2pc else 4, **init)
        self._identity = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
        broker.call(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=given.producer_id,
            v3_and_below_producer_epoch=given.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnRequest.Topic(name="t", partitions=[0])],
        )
        batch = build_batch([(None, b"v")], base_sequence=0, is_transactional=True, **self._identity)
        rows = [ProduceRequest.Topic.Partition(index=0, records=bytes(batch))]
        topics = [ProduceRequest.Topic(name="t", partition_data=rows)]
        broker.call(ApiKey.PRODUCE, 9, transactional_id="x", acks=-1, timeout_ms=10_000, topic_data=topics)

    def fence_coordinator(self, coordinator_epoch: int) -> None:
        """Write a marker in the name of a later coordinator, so that this one's are refused."""
        topics = [WriteTxnMarkersRequest.Marker.Topic(name="t", partition_indexes=[0])]
        marker = WriteTxnMarkersRequest.Marker(
            **self._identity, transaction_result=False, topics=topics, coordinator_epoch=coordinator_epoch
        )
        written = self._broker.call(ApiKey.WRITE_TXN_MARKERS, 1, markers=[marker])
        assert written.markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE

    def commit(self) -> int:
        """Commit; return the error code."""
        response = self._broker.call(ApiKey.END_TXN, 3, transactional_id="x", committed=True, **self._identity)
        code: int = response.error_code
        return code


@pytest.fixture
def producer(broker: ControlledBroker) -> Producer:
    return Producer(broker)


def committed(broker: ControlledBroker) -> Any:
    return broker.get("/v1/topics/t/records?isolation=read_committed").content


def test_a_fenced_producer_cannot_commit_and_its_transaction_is_aborted(
    broker: ControlledBroker, producer: Producer
) -> None:
    fenced = broker.post("/v1/transactions/x/fence")
    assert fenced.status == 200
    assert fenced.content["producer_epoch"] > 0
    assert producer.commit() in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert committed(broker) == {"records": [], "next": {"0": 2}}


def test_a_producer_without_a_transaction_is_fenced_too(broker: ControlledBroker, producer: Producer) -> None:
    assert producer.commit() == ErrorCode.NONE
    assert broker.post("/v1/transactions/x/fence").status == 200
    assert producer.commit() in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


def test_an_aborted_transaction_is_complete_when_the_response_comes(
    broker: ControlledBroker, producer: Producer
) -> None:
    aborted = broker.post("/v1/transactions/x/abort")
    assert (aborted.status, aborted.content["state"]) == (200, "CompleteAbort")
    assert committed(broker) == {"records": [], "next": {"0": 2}}
    assert producer.commit() != ErrorCode.NONE


def test_there_is_nothing_to_abort_after_the_end(broker: ControlledBroker, producer: Producer) -> None:
    assert producer.commit() == ErrorCode.NONE
    broker.post("/v1/wait/records", topic="t", after={"0": 1}, isolation="read_committed")
    refused = broker.post("/v1/transactions/x/abort")
    assert refused.status == 409
    assert refused.message.startswith("x has no open transaction: it is CompleteCommit")


@pytest.mark.parametrize("operation", ["fence", "abort"])
def test_an_abort_that_is_not_complete_in_time_is_answered_with_what_is_missing(
    broker: ControlledBroker, producer: Producer, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "DEFAULT_TIMEOUT_MS", 50)
    producer.fence_coordinator(7)
    refused = broker.post(f"/v1/transactions/x/{operation}")
    message = "the transaction of x is still PrepareAbort: its marker is missing in t-0"
    assert refused == (504, {"message": message, "state": "PrepareAbort", "partitions": ["t-0"]})
    assert broker.post("/v1/sweep", keep_topics=["t"]).content["transactions"] == []


def test_an_abort_that_cannot_be_written_is_answered_with_what_is_open(
    broker: ControlledBroker, producer: Producer
) -> None:
    broker.reply("PUT", "/v1/disk", fault="full")
    refused = broker.post("/v1/transactions/x/abort")
    message = "the transaction of x is still Ongoing: it is open in t-0"
    assert refused == (504, {"message": message, "state": "Ongoing", "partitions": ["t-0"]})
    assert broker.reply("DELETE", "/v1/disk").status == 200


def test_a_producer_of_two_phase_commit_is_fenced(start: Callable[..., ControlledBroker]) -> None:
    broker = start(transaction_two_phase_commit_enable="true")
    producer = Producer(broker, enable_2pc=True)
    assert broker.post("/v1/transactions/x/fence").status == 200
    assert producer.commit() in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert committed(broker) == {"records": [], "next": {"0": 2}}


@pytest.mark.parametrize("operation", ["fence", "abort"])
def test_an_unknown_transactional_id_is_answered_with_the_known_ones(
    broker: ControlledBroker, producer: Producer, operation: str
) -> None:
    refused = broker.post(f"/v1/transactions/y/{operation}")
    assert refused == (404, {"message": "there is no transactional id y; there are: x"})


def test_a_sweep_of_everything_aborts_open_transactions(broker: ControlledBroker, producer: Producer) -> None:
    assert broker.post("/v1/sweep", keep_topics=["t"]).content["transactions"] == ["x"]
    assert committed(broker) == {"records": [], "next": {"0": 2}}
