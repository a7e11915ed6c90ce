from __future__ import annotations

from typing import Any

import pytest

from broker.coordinator.group.offsets import Committed
from broker.coordinator.group.records import offset_record
from broker.coordinator.group.shard import Commit, Offset
from broker.coordinator.runtime.context import ProducerIdAndEpoch
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequest
from tests.unit.broker.group_node import GroupNode

KEY = ApiKey.OFFSET_FETCH
VERSIONS = range(1, 11)
T_ID = b"t".ljust(16, b"_")
Group = OffsetFetchRequest.Group


@pytest.fixture
def hosting(group_node: GroupNode) -> GroupNode:
    """Partition 0 of topic `t` has a committed offset, partition 1 has none."""
    group_node.host()
    group_node.node.create("t", partitions=2)
    commit(group_node, "t", T_ID)
    return group_node


def commit(node: GroupNode, topic: str, topic_id: bytes, group: str = "g") -> None:
    offsets = [Offset(topic, topic_id, 0, 7, 3, "note")]
    node.wait(node.groups.commit(Commit(group, "", None, -1), offsets, retention_ms=-1, reports_unknown_group=True))


def fetch(node: GroupNode, version: int, *partitions: int, topic_id: bytes = T_ID, **changes: Any) -> Any:
    """Fetch offsets of partitions of `t`, or of all if none are listed; return the group's part in any version."""
    if version < 8:
        topics = [OffsetFetchRequest.Topic(name="t", partition_indexes=list(partitions))] if partitions else None
        return node.answer(KEY, version, **({"group_id": "g", "topics": topics} | changes))
    topics = [Group.Topic(name="t", topic_id=topic_id, partition_indexes=list(partitions))] if partitions else None  # type: ignore[list-item]  # only this comes here
    [group] = node.answer(KEY, version, **({"groups": [Group(group_id="g", topics=topics)]} | changes)).groups  # type: ignore[arg-type]  # only this comes here
    assert group.group_id == "g"
    return group


def reported(answer: Any) -> list[tuple[Any, ...]]:
    return [
        (one.partition_index, one.committed_offset, one.metadata, one.error_code)
        for topic in answer.topics
        for one in topic.partitions
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_committed_offset_is_returned_and_missing_offset_is_minus_1(hosting: GroupNode, version: int) -> None:
    answer = fetch(hosting, version, 0, 1)
    assert reported(answer) == [(0, 7, "note", 0), (1, -1, "", 0)]
    assert answer.topics[0].partitions[0].committed_leader_epoch == (3 if version >= 5 else -1)
    assert answer.error_code == 0


@pytest.mark.parametrize("version", range(2, 11))
def test_all_offsets_of_a_group_can_be_requested(hosting: GroupNode, version: int) -> None:
    answer = fetch(hosting, version)
    assert reported(answer) == [(0, 7, "note", 0)]
    if version >= 10:
        assert answer.topics[0].topic_id == T_ID
    else:
        assert answer.topics[0].name == "t"


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_group_has_no_offsets(hosting: GroupNode, version: int) -> None:
    hosting.call("delete_group", "g")
    assert reported(fetch(hosting, version, 0)) == [(0, -1, "", 0)]


def test_each_requested_group_has_its_own_offsets(hosting: GroupNode) -> None:
    commit(hosting, "t", T_ID, "h")
    topics = [Group.Topic(name="t", partition_indexes=[0])]
    groups = [Group(group_id=name, topics=topics) for name in ("g", "h", "i")]
    answer = hosting.answer(KEY, 8, groups=groups)
    assert [(one.group_id, reported(one)) for one in answer.groups] == [
        ("g", [(0, 7, "note", 0)]),
        ("h", [(0, 7, "note", 0)]),
        ("i", [(0, -1, "", 0)]),
    ]


def test_unknown_topic_id_has_an_error(hosting: GroupNode) -> None:
    assert reported(fetch(hosting, 10, 0, topic_id=b"?" * 16)) == [(0, -1, "", ErrorCode.UNKNOWN_TOPIC_ID)]


def test_unknown_topic_ids_are_last_in_the_response(hosting: GroupNode) -> None:
    topics = [Group.Topic(topic_id=topic_id, partition_indexes=[0]) for topic_id in (b"?" * 16, T_ID)]
    [group] = hosting.answer(KEY, 10, groups=[Group(group_id="g", topics=topics)]).groups
    assert [topic.topic_id for topic in group.topics] == [T_ID, b"?" * 16]


@pytest.mark.parametrize("version", [8, 10])
def test_recreated_topic_has_no_offsets_of_the_deleted_topic(hosting: GroupNode, version: int) -> None:
    """Rule 24."""
    hosting.node.remove("t")
    hosting.node.create("t", partitions=2, topic_id=b"u" * 16)
    assert reported(fetch(hosting, version, 0, topic_id=b"u" * 16)) == [(0, -1, "", 0)]
    assert reported(fetch(hosting, version)) == []


@pytest.mark.parametrize(("require_stable", "error"), [(True, ErrorCode.UNSTABLE_OFFSET_COMMIT), (False, 0)])
def test_an_offset_in_an_open_transaction_is_unstable(hosting: GroupNode, require_stable: bool, error: int) -> None:
    key, value = offset_record("g", "t", 0, Committed(9, -1, "", 0))
    hosting.groups.shard_of("g").replay(0, 99, key, value, ProducerIdAndEpoch(4, 0))
    [(_, offset, _, code)] = reported(fetch(hosting, 7, 0, require_stable=require_stable))
    assert (offset, code) == (-1 if error else 7, error)


class TestNotCoordinator:
    """Another broker leads the group's partition."""

    def test_version_1_has_the_error_in_every_partition(self, group_node: GroupNode) -> None:
        answer = fetch(group_node, 1, 0, 1)
        assert reported(answer) == [(0, -1, "", ErrorCode.NOT_COORDINATOR), (1, -1, "", ErrorCode.NOT_COORDINATOR)]

    @pytest.mark.parametrize("version", range(2, 11))
    def test_later_versions_have_one_group_error(self, group_node: GroupNode, version: int) -> None:
        answer = fetch(group_node, version, 0)
        assert (answer.error_code, answer.topics) == (ErrorCode.NOT_COORDINATOR, [])


@pytest.mark.parametrize("version", [2, 8])
def test_offset_fetch_is_refused_if_a_pending_commit_fails(group_node: GroupNode, version: int) -> None:
    group_node.host(replicated=True)
    committing = group_node.commit(5)
    answer = fetch(group_node, version, 0)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    assert group_node.wait(committing) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_response_waits_for_pending_commits(group_node: GroupNode) -> None:
    group_node.host(replicated=True)
    group_node.node.create("t")
    committing = group_node.commit(5)
    topics = [Group.Topic(name="t", partition_indexes=[0])]
    fetching = group_node.node.loop.create_task(
        group_node.node.query(KEY, 8, groups=[Group(group_id="g", topics=topics)])
    )
    group_node.settle()
    assert not fetching.done()
    group_node.replicate()
    assert group_node.wait(committing) == [ErrorCode.NONE]
    assert reported(group_node.wait(fetching).groups[0]) == [(0, 5, "", 0)]
