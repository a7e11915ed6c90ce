from __future__ import annotations

from typing import Any

import pytest

from controller.topic_names import CONSUMER_OFFSETS
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest
from tests.unit.broker.group_node import FOLLOWER_ID, GroupNode

KEY = ApiKey.OFFSET_COMMIT
VERSIONS = range(2, 11)
Topic = OffsetCommitRequest.Topic
T_ID = b"t".ljust(16, b"_")


@pytest.fixture
def hosting(group_node: GroupNode) -> GroupNode:
    group_node.host()
    group_node.node.create("t", partitions=2)
    return group_node


def topic(name: str, *partitions: int, topic_id: bytes = T_ID, metadata: str | None = None) -> Topic:
    entries = [
        Topic.Partition(
            partition_index=index, committed_offset=7, committed_leader_epoch=3, committed_metadata=metadata
        )
        for index in partitions
    ]
    return Topic(name=name, topic_id=topic_id, partitions=entries)


def commit(node: GroupNode, version: int, *topics: Topic, **changes: Any) -> list[tuple[Any, ...]]:
    fields = {"group_id": "g", "member_id": "", "topics": list(topics)}
    answer = node.answer(KEY, version, **(fields | changes))
    return [
        (one.topic_id if version >= 10 else one.name, [(p.partition_index, p.error_code) for p in one.partitions])
        for one in answer.topics
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_offset_is_committed_with_its_topic_id(hosting: GroupNode, version: int) -> None:
    assert commit(hosting, version, topic("t", 1, metadata="note")) == [
        (T_ID if version >= 10 else "t", [(1, ErrorCode.NONE)])
    ]
    committed = hosting.groups.shard_of("g").offsets.get("g", "t", 1)
    assert committed is not None
    assert (committed.offset, committed.metadata, committed.topic_id) == (7, "note", T_ID)
    assert committed.leader_epoch == (3 if version >= 6 else -1)
    assert committed.commit_timestamp_ms == hosting.node.now_ms()


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_partition_fails_alone(hosting: GroupNode, version: int) -> None:
    [(_, answers)] = commit(hosting, version, topic("t", 0, 9))
    assert answers == [(0, ErrorCode.NONE), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


@pytest.mark.parametrize(
    ("version", "error"), [(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (10, ErrorCode.UNKNOWN_TOPIC_ID)]
)
def test_unknown_topic_fails_and_creates_no_group(hosting: GroupNode, version: int, error: ErrorCode) -> None:
    [(_, answers)] = commit(hosting, version, topic("nowhere", 0, topic_id=b"?" * 16))
    assert answers == [(0, error)]
    assert hosting.state() is None


def test_oversized_metadata_fails_only_its_partition(hosting: GroupNode) -> None:
    answers = commit(hosting, 8, topic("t", 0, metadata="x" * 4097), topic("t", 1))
    assert [codes for _, codes in answers] == [[(0, ErrorCode.OFFSET_METADATA_TOO_LARGE)], [(1, ErrorCode.NONE)]]


@pytest.mark.parametrize("version", VERSIONS)
def test_refusal_of_an_unknown_group_is_the_error_of_the_existing_partitions(hosting: GroupNode, version: int) -> None:
    [(_, answers)] = commit(hosting, version, topic("t", 0, 9), member_id="m", generation_id_or_member_epoch=1)
    refusal = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert answers == [(0, refusal), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


@pytest.mark.parametrize(("version", "expires"), [(2, True), (4, True), (5, False)])
def test_commit_up_to_version_4_may_set_its_retention(hosting: GroupNode, version: int, expires: bool) -> None:
    commit(hosting, version, topic("t", 0), retention_time_ms=60_000)
    committed = hosting.groups.shard_of("g").offsets.get("g", "t", 0)
    assert committed is not None
    assert committed.expire_timestamp_ms == (hosting.node.now_ms() + 60_000 if expires else -1)


def test_a_group_that_moves_before_its_offsets_are_committed_fails_the_existing_partitions(
    group_node: GroupNode,
) -> None:
    node = group_node.host(replicated=True).node
    node.create("t", partitions=2)
    waiting = node.query(KEY, 8, "c", group_id="g", member_id="", topics=[topic("t", 0, 9)])
    node.elect(CONSUMER_OFFSETS, FOLLOWER_ID, index=group_node.groups.runtime.partition_of("g"))
    [answer] = group_node.wait(waiting).topics
    assert [one.error_code for one in answer.partitions] == [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
