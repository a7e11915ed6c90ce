"""DeleteRecords, sent by a client."""

from __future__ import annotations

import errno
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.delete_records import DeleteRecordsRequest
from protocol.messages.fetch import FetchRequest
from storage.log.config import LogConfig
from tests.disks import FaultyDisk
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.node import METADATA_LOG, Node


def query(node: Node, offset: int, *, topic: str = "t", version: int = 2, timeout_ms: int = 1000) -> Any:
    partition = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=offset)
    topics = [DeleteRecordsRequest.Topic(name=topic, partitions=[partition])]
    return node.query(ApiKey.DELETE_RECORDS, version, topics=topics, timeout_ms=timeout_ms)


def deleted(node: Node, offset: int, **more: Any) -> tuple[int, int]:
    """Return (error code, low watermark)."""
    [answer] = node.wait(query(node, offset, **more)).topics[0].partitions
    return answer.error_code, answer.low_watermark


@pytest.fixture
def node(node: Node) -> Node:
    node.create("t")
    for _ in range(5):
        node.append("t")
    return node


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_below_the_offset_are_deleted(node: Node, version: int) -> None:
    assert deleted(node, 3, version=version) == (0, 3)
    assert [record.offset for record in node.stored("t")] == [3, 4]


def test_rule_23_fetch_of_a_deleted_offset_is_out_of_range(node: Node) -> None:
    deleted(node, 3)
    for offset, code in ((0, ErrorCode.OFFSET_OUT_OF_RANGE), (2, ErrorCode.OFFSET_OUT_OF_RANGE), (3, ErrorCode.NONE)):
        wanted = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchRequest.Topic(topic="t", partitions=[wanted])]
        response = node.answer(ApiKey.FETCH, 11, max_wait_ms=0, min_bytes=0, topics=topics)
        [found] = response.responses[0].partitions
        assert (found.error_code, found.log_start_offset) == (code, -1 if code else 3)


def test_minus_1_deletes_up_to_the_high_watermark(node: Node) -> None:
    assert deleted(node, -1) == (0, 5)


def test_offset_below_the_log_start_changes_nothing(node: Node) -> None:
    deleted(node, 3)
    assert deleted(node, 2) == (0, 3)


@pytest.mark.parametrize("offset", [6, -2])
def test_rule_23_an_offset_beyond_the_high_watermark_is_out_of_range(node: Node, offset: int) -> None:
    assert deleted(node, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert len(node.stored("t")) == 5


def test_records_of_a_compacted_topic_cannot_be_deleted(node: Node) -> None:
    node.configure("t", cleanup_policy=frozenset({"compact"}))
    assert deleted(node, 3) == (ErrorCode.POLICY_VIOLATION, -1)
    node.configure("t", cleanup_policy=frozenset({"compact", "delete"}))
    assert deleted(node, 3) == (0, 3)


def test_records_of_a_topic_without_a_cleanup_policy_can_be_deleted(node: Node) -> None:
    node.configure("t", cleanup_policy=frozenset())
    assert deleted(node, 3) == (0, 3)


def test_records_of_internal_topics_cannot_be_deleted(node: Node) -> None:
    node.create("__consumer_offsets")
    assert deleted(node, 0, topic="__consumer_offsets") == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


def test_unknown_topic_or_partition_is_refused(node: Node) -> None:
    assert deleted(node, 0, topic="missing") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_rule_23_log_start_survives_a_crash_right_after_the_response(node: Node, tmp_path: Path) -> None:
    deleted(node, 3)
    crashed = tmp_path / "after"
    copy_tree(tmp_path / "data", crashed)
    again = type(node)(str(crashed))
    again.start()
    assert [record.offset for record in again.stored("t")] == [3, 4]
    again.stop()


def test_log_starts_of_all_partitions_are_checkpointed_with_one_write(new_node: NewNode) -> None:
    disk = FaultyDisk()
    node = new_node(disk)
    node.start()
    node.create("t", partitions=20)
    for index in range(20):
        node.append("t", index=index)
    partitions = [DeleteRecordsRequest.Topic.Partition(partition_index=index, offset=1) for index in range(20)]
    topics = [DeleteRecordsRequest.Topic(name="t", partitions=partitions)]
    disk.calls.clear()
    response = node.wait(node.query(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout_ms=1000))
    assert {answer.error_code for answer in response.topics[0].partitions} == {0}
    assert disk.called("replace").count("log-start-offset-checkpoint") == 1


def test_deletion_fails_on_each_retry_until_its_checkpoint_is_written(new_node: NewNode) -> None:
    disk = FaultyDisk(spared=METADATA_LOG)
    node = new_node(disk)
    node.start()
    node.create("t")
    node.append("t")
    node.append("t")
    node.replicas.delete_records(node.partition("t"), 1)
    for _ in range(2):
        disk.arm("replace", errno.ENOSPC)
        assert deleted(node, 1) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert deleted(node, 1) == (0, 1)


def copy_tree(source: Path, target: Path) -> None:
    """Copy the files as a process crash would leave them, without the lock file."""
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir(parents=True)
        elif path.name != ".lock":
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())


class TestReplicas:
    """Broker 1 is the leader; broker 2 is in the ISR and caught up."""

    @pytest.fixture
    def node(self, node: Node) -> Node:
        node.remove("t")
        node.create("t", replicas=(1, 2), config=LogConfig())
        for _ in range(5):
            node.append("t")
        node.follower_fetch(node.partition("t"), 2, 5, 0)
        return node

    def test_rule_23_response_waits_until_every_replica_has_the_log_start(self, node: Node) -> None:
        waiting = query(node, 3)
        assert isinstance(waiting, Awaitable)
        node.loop.call_later(0.2, node.follower_fetch, node.partition("t"), 2, 5, 2)
        node.loop.call_later(0.4, node.follower_fetch, node.partition("t"), 2, 5, 3)
        [answer] = node.wait(waiting).topics[0].partitions
        assert (answer.error_code, answer.low_watermark) == (0, 3)
        assert node.loop.time() == pytest.approx(0.4, abs=0.01)
        assert node.purgatory._watchers == {}

    def test_time_out_returns_the_current_low_watermark(self, node: Node) -> None:
        assert deleted(node, 3, timeout_ms=500) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        assert node.loop.time() == pytest.approx(0.5, abs=0.01)
        assert node.purgatory._watchers == {}

    def test_loss_of_leadership_ends_the_wait(self, node: Node) -> None:
        waiting = query(node, 3)
        node.loop.call_later(0.1, node.elect, "t", 2)
        [answer] = node.wait(waiting).topics[0].partitions
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
