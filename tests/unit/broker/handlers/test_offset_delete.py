from __future__ import annotations

from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import OffsetDeleteRequest
from tests.unit.broker.group_node import GroupNode

Topic = OffsetDeleteRequest.Topic
TO_T = b"\x00\x00\x00\x00\x00\x01\x00\x01t"


@pytest.fixture
def hosting(group_node: GroupNode) -> GroupNode:
    group_node.host()
    group_node.node.create("t", partitions=2)
    group_node.wait(group_node.commit(5))
    return group_node


def delete(node: GroupNode, topic: str, *partitions: int, group: str = "g") -> Any:
    entries = [Topic.Partition(partition_index=index) for index in partitions]
    topics = [Topic(name=topic, partitions=entries)]
    return node.answer(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=topics)


def reported(answer: Any) -> list[tuple[int, int]]:
    return [(one.partition_index, one.error_code) for topic in answer.topics for one in topic.partitions]


def test_offset_is_deleted(hosting: GroupNode) -> None:
    answer = delete(hosting, "t", 0, 1)
    assert (answer.error_code, reported(answer)) == (0, [(0, 0), (1, 0)])
    assert hosting.offset() is None


def test_unknown_partition_fails_without_failing_others(hosting: GroupNode) -> None:
    assert reported(delete(hosting, "t", 0, 9)) == [(0, 0), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert reported(delete(hosting, "nowhere", 0)) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_offset_of_subscribed_topic_is_not_deleted(hosting: GroupNode) -> None:
    hosting.stable_member(protocols={"range": TO_T})
    assert reported(delete(hosting, "t", 0)) == [(0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)]
    assert hosting.offset() == 5


def test_unknown_group_is_refused(hosting: GroupNode) -> None:
    answer = delete(hosting, "t", 0, group="h")
    assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
