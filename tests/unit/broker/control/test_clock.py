"""Time that a test advances, in a broker: what ages, and in which order. Clusters: `tests/clients/test_clock.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch
from tests.unit.broker.control.controlled_broker import ControlledBroker
from tests.unit.broker.control.members import OneMember, enter

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def advance(broker: ControlledBroker, ms: int) -> Any:
    advanced = broker.post("/v1/clock/advance", ms=ms)
    assert advanced.status == 200, advanced
    return advanced.content


def offsets(broker: ControlledBroker, topic: str) -> Any:
    return broker.get(f"/v1/topics/{topic}").content["partitions"][0]["offsets"]


def test_the_wall_clock_is_ahead_by_what_was_advanced(broker: ControlledBroker) -> None:
    before = broker.get("/v1/clock").content
    after = advance(broker, 25 * HOUR_MS)
    assert (before["clock_ms"], after["clock_ms"]) == (0, 25 * HOUR_MS)
    assert 25 * HOUR_MS <= after["wall_ms"] - before["wall_ms"] < 26 * HOUR_MS
    assert broker.get("/v1").content["clock_ms"] == 25 * HOUR_MS


def test_a_broker_starts_with_the_clock_of_the_setting(start: Callable[..., ControlledBroker]) -> None:
    assert start(barnabas_control_clock_ms=str(DAY_MS)).get("/v1/clock").content["clock_ms"] == DAY_MS


def test_retention_deletes_what_is_too_old(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t", configs=[{"name": "retention.ms", "value": str(DAY_MS)}])
    broker.post("/v1/topics/t/records", records=[{"value": "v"}])
    advance(broker, 23 * HOUR_MS)
    assert offsets(broker, "t")["log_start"] == 0
    advance(broker, 2 * HOUR_MS)
    assert offsets(broker, "t")["log_start"] == 1


def test_a_silent_member_is_removed_after_its_session_timeout(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t")
    member = OneMember(broker, "g")
    enter(member)
    advance(broker, 9_000)
    assert broker.wait(member.heartbeat()) == ErrorCode.NONE
    advance(broker, 9_000)
    assert broker.wait(member.heartbeat()) == ErrorCode.NONE, "the heartbeat renewed the session"
    advance(broker, 11_000)
    assert broker.wait(member.heartbeat()) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_offsets_of_a_group_expire_a_week_after_its_last_session_in_one_advance(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t")
    member = OneMember(broker, "g")
    enter(member)
    broker.wait(member.commit(0))
    advance(broker, 6 * DAY_MS)
    assert broker.get("/v1/groups/g").content["state"] == "Empty"
    advance(broker, 2 * DAY_MS)
    assert broker.get("/v1/groups/g").status == 404


def test_offsets_that_a_member_commits_again_do_not_expire(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t")
    enter(OneMember(broker, "g"))
    advance(broker, 6 * DAY_MS)
    again = OneMember(broker, "g")
    enter(again)
    broker.wait(again.commit(0))
    advance(broker, 6 * DAY_MS)
    assert broker.get("/v1/groups/g").status == 200


def test_an_open_transaction_is_aborted_after_its_timeout(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t")
    broker.call(ApiKey.FIND_COORDINATOR, 3, key="x", key_type=1)
    producer = broker.call(ApiKey.INIT_PRODUCER_ID, 4, transactional_id="x", transaction_timeout_ms=60_000)
    identity = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    broker.call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnRequest.Topic(name="t", partitions=[0])],
    )
    batch = build_batch([(None, b"v")], base_sequence=0, is_transactional=True, **identity)
    rows = [ProduceRequest.Topic.Partition(index=0, records=bytes(batch))]
    topics = [ProduceRequest.Topic(name="t", partition_data=rows)]
    broker.call(ApiKey.PRODUCE, 9, transactional_id="x", acks=-1, timeout_ms=10_000, topic_data=topics)
    advance(broker, 30_000)
    assert offsets(broker, "t")["last_stable_offset"] == 0
    advance(broker, 60_000)
    waited = broker.post("/v1/wait/records", topic="t", after={"0": 0}, isolation="read_committed")
    assert waited.content["met"] is True
    assert broker.get("/v1/topics/t/records?isolation=read_committed").content["records"] == []


def test_tombstones_go_after_their_delete_horizon(broker: ControlledBroker) -> None:
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "segment.ms": "1000"}
    configs = [{"name": name, "value": value} for name, value in settings.items()]
    broker.post("/v1/topics", topic="t", configs=configs)

    def write(key: str, value: str | None) -> None:
        broker.post("/v1/topics/t/records", records=[{"key": key, "value": value}])
        advance(broker, 60_000)

    def keys() -> list[str]:
        return [one["key"] for one in broker.get("/v1/topics/t/records").content["records"]]

    write("k", "v")
    write("k", None)
    write("other", "1")
    assert keys() == ["k", "other"], "the value is compacted away, its tombstone is not"
    advance(broker, 25 * HOUR_MS)
    write("other", "2")
    write("last", "3")
    assert "k" not in keys()


def test_requests_in_flight_do_not_time_out(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t")
    broker.post("/v1/faults", api="Metadata", action={"hold": "before"})

    async def body() -> bool:
        held = broker.loop.create_task(broker.query(ApiKey.METADATA, 12, topics=[]))
        await broker.ask("POST", "/v1/faults/1/wait", hits=1)
        await broker.ask("POST", "/v1/clock/advance", ms=DAY_MS)
        waits = not held.done()
        await broker.ask("DELETE", "/v1/faults")
        await held
        return waits

    assert broker.wait(body()) is True


def test_an_invalid_advance_is_refused(broker: ControlledBroker) -> None:
    refused = broker.post("/v1/clock/advance", ms=-1)
    assert refused.message.startswith("ms: -1 is not an integer from 0 to ")
    assert broker.get("/v1/clock").content["clock_ms"] == 0
