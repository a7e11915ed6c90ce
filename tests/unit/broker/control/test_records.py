"""Records through the control API, and how they look to consumers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kafka.partitioner.default import murmur2 as reference_murmur2

from broker.control.records import murmur2
from protocol.api import ApiKey
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch
from tests.unit.broker.control.controlled_broker import ControlledBroker


@pytest.fixture
def topic(broker: ControlledBroker) -> str:
    broker.post("/v1/topics", topic="t", partitions=3)
    return "t"


def values(content: Any) -> list[Any]:
    return [record["value"] for record in content["records"]]


def test_written_records_are_read(broker: ControlledBroker, topic: str) -> None:
    given = [
        {"partition": 1, "key": "k", "value": "v", "headers": [{"key": "h", "value": "x"}], "timestamp_ms": 7},
        {"partition": 0, "value": {"base64": "/w=="}},
        {"partition": 1, "key": "tombstone"},
    ]
    written = broker.post("/v1/topics/t/records", records=given).content
    assert written["records"] == [
        {"partition": 1, "offset": 0},
        {"partition": 0, "offset": 0},
        {"partition": 1, "offset": 1},
    ]
    found = broker.get("/v1/topics/t/records").content
    assert found["next"] == {"0": 1, "1": 2, "2": 0}
    assert values(found) == [{"base64": "/w=="}, "v", None]
    assert found["records"][1] == {
        "partition": 1,
        "offset": 0,
        "timestamp_ms": 7,
        "key": "k",
        "value": "v",
        "headers": [{"key": "h", "value": "x"}],
    }
    assert broker.get("/v1/topics/t/records?binary=true").content["records"][1]["value"] == {"base64": "dg=="}


def test_reading_goes_on_from_offsets_and_ends_at_the_limit(broker: ControlledBroker, topic: str) -> None:
    broker.post("/v1/topics/t/records", records=[{"partition": 0, "value": str(number)} for number in range(5)])
    first = broker.get("/v1/topics/t/records?offsets=0:1&limit=2").content
    assert values(first) == ["1", "2"]
    assert first["next"] == {"0": 3}
    assert values(broker.get("/v1/topics/t/records?offsets=0:3").content) == ["3", "4"]


def test_a_key_chooses_the_partition_as_in_kafkas_clients(broker: ControlledBroker, topic: str) -> None:
    written = broker.post("/v1/topics/t/records", records=[{"key": key, "value": "v"} for key in "abcdef"]).content
    assert [one["partition"] for one in written["records"]] == [
        (reference_murmur2(key.encode()) & 0x7FFFFFFF) % 3 for key in "abcdef"
    ]


@pytest.mark.parametrize("data", [b"", b"a", b"ab", b"abc", b"abcd", b"\xff" * 9, bytes(range(256))])
def test_murmur2_is_that_of_kafkas_clients(data: bytes) -> None:
    assert murmur2(data) == reference_murmur2(data)


def test_records_without_a_key_go_round_the_partitions(broker: ControlledBroker, topic: str) -> None:
    written = broker.post("/v1/topics/t/records", records=[{"value": "v"}] * 4).content
    assert [one["partition"] for one in written["records"]] == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("records", "status", "message"),
    [
        ([], 400, "records: there are none"),
        ([{"partition": 3, "value": "v"}], 404, "topic t has no partition 3"),
        ([{"value": {"base64": "!"}}], 400, "base64: "),
        ([{"partition": -1}], 400, "records[0].partition: -1 is not an integer from 0 or null"),
    ],
)
def test_invalid_records_are_refused(
    broker: ControlledBroker, topic: str, records: Any, status: int, message: str
) -> None:
    refused = broker.post("/v1/topics/t/records", records=records)
    assert refused.status == status
    assert refused.message.startswith(message)


def test_records_that_the_topic_refuses_are_not_written(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="c", configs=[{"name": "cleanup.policy", "value": "compact"}])
    refused = broker.post("/v1/topics/c/records", records=[{"value": "without a key"}])
    assert refused.status == 409
    assert refused.message.startswith("c-0: INVALID_RECORD")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("offsets=0", "offsets: '0' is not PARTITION:OFFSET"),
        ("offsets=0:9", "t-0: OFFSET_OUT_OF_RANGE"),
        ("limit=0", "limit: 0 is not an integer from 1 to 100000"),
    ],
)
def test_an_invalid_reading_is_refused(broker: ControlledBroker, topic: str, query: str, message: str) -> None:
    refused = broker.get(f"/v1/topics/t/records?{query}")
    assert refused.status == 400
    assert refused.message.startswith(message)


def test_a_wait_for_records_is_met_by_the_first_partition_that_has_some(broker: ControlledBroker, topic: str) -> None:
    broker.post("/v1/topics/t/records", records=[{"partition": 0, "value": "old"}])

    async def both() -> Any:
        waiting = asyncio.ensure_future(
            broker.ask("POST", "/v1/wait/records", topic="t", after={"0": 1, "1": 0}, timeout_ms=30_000)
        )
        done, _ = await asyncio.wait((waiting,), timeout=0.05)
        assert not done
        await broker.ask("POST", "/v1/topics/t/records", records=[{"partition": 1, "value": "new"}])
        return (await waiting).content

    assert broker.wait(both()) == {
        "met": True,
        "message": "t has records after {0: 1, 1: 0}: yes",
        "seen": {"ends": {"0": 1, "1": 1}},
    }


def test_a_wait_for_records_says_where_the_logs_end(broker: ControlledBroker, topic: str) -> None:
    waited = broker.post("/v1/wait/records", topic="t", after={"0": 0, "1": 0}, timeout_ms=20)
    assert waited.message.endswith("the ends are t-0: 0, t-1: 0")
    assert broker.post("/v1/wait/records", topic="t", after={"7": 0}).status == 404


def test_records_of_transactions_are_read_by_their_outcome(broker: ControlledBroker, topic: str) -> None:
    async def transact(value: str, *, committed: bool | None) -> None:
        name = f"tx-{value}"
        await broker.query(ApiKey.FIND_COORDINATOR, 3, key=name, key_type=1)
        producer = await broker.query(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=name, transaction_timeout_ms=60_000)
        identity = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        await broker.query(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnRequest.Topic(name="t", partitions=[0])],
        )
        batch = build_batch([(None, value.encode())], base_sequence=0, is_transactional=True, **identity)
        rows = [ProduceRequest.Topic.Partition(index=0, records=bytes(batch))]
        topics = [ProduceRequest.Topic(name="t", partition_data=rows)]
        await broker.query(ApiKey.PRODUCE, 9, transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=topics)
        if committed is not None:
            await broker.query(ApiKey.END_TXN, 3, transactional_id=name, committed=committed, **identity)

    for value, committed in (("aborted", False), ("committed", True), ("open", None)):
        broker.wait(transact(value, committed=committed))
    assert values(broker.get("/v1/topics/t/records").content) == ["aborted", "committed", "open"]
    found = broker.get("/v1/topics/t/records?isolation=read_committed").content
    assert values(found) == ["committed"]
    assert found["next"]["0"] == 4, "the open transaction begins there"
    waited = broker.post("/v1/wait/records", topic="t", after={"0": 4}, isolation="read_committed", timeout_ms=20)
    assert waited.content["met"] is False
