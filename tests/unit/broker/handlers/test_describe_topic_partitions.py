"""DescribeTopicPartitions, page by page."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from tests.unit.broker.conftest import NewController
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.topics import create

Cursor = DescribeTopicPartitionsRequest.Cursor


def query(node: ControllerNode, *names: str, limit: int = 2000, cursor: Any = None) -> Any:
    topics = [DescribeTopicPartitionsRequest.Topic(name=name) for name in names]
    return node.query(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics, response_partition_limit=limit, cursor=cursor)


def page(response: Any) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    described = [(topic.name, [one.partition_index for one in topic.partitions]) for topic in response.topics]
    following = response.next_cursor
    return described, None if following is None else (following.topic_name, following.partition_index)


@pytest.fixture
def controlled(controlled: ControllerNode) -> ControllerNode:
    create(controlled, "b", 3)
    create(controlled, "a", 2)
    return controlled


def test_topics_are_sorted_by_name(controlled: ControllerNode) -> None:
    assert page(query(controlled)) == ([("a", [0, 1]), ("b", [0, 1, 2])], None)


def test_partitions_have_leader_isr_and_eligible_leader_replicas(controlled: ControllerNode) -> None:
    [topic] = query(controlled, "a").topics
    assert (topic.error_code, topic.is_internal, topic.topic_authorized_operations) == (0, False, 3576)
    first = topic.partitions[0]
    assert (first.error_code, first.leader_id, first.leader_epoch) == (0, 1, 0)
    assert (first.replica_nodes, first.isr_nodes, first.offline_replicas) == ([1], [1], [])
    assert (first.eligible_leader_replicas, first.last_known_elr) == ([], [])


@pytest.mark.parametrize("limit", range(1, 7))
def test_cursors_page_through_all_partitions_without_gaps(controlled: ControllerNode, limit: int) -> None:
    seen: list[tuple[str, int]] = []
    cursor = None
    while True:
        response = query(controlled, limit=limit, cursor=cursor)
        described, following = page(response)
        partitions = [(name, index) for name, indexes in described for index in indexes]
        assert 0 < len(partitions) <= limit
        seen += partitions
        if following is None:
            break
        cursor = Cursor(topic_name=following[0], partition_index=following[1])
    assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)]


def test_max_request_partition_size_limit_bounds_a_page(new_controller: NewController) -> None:
    controlled = new_controller(max_request_partition_size_limit="2")
    create(controlled, "t", 3)
    assert page(query(controlled)) == ([("t", [0, 1])], ("t", 2))


def test_topic_deleted_since_the_last_page_is_skipped(controlled: ControllerNode) -> None:
    cursor = Cursor(topic_name="aa", partition_index=1)
    assert page(query(controlled, cursor=cursor)) == ([("b", [0, 1, 2])], None)


def test_unknown_topics_are_reported_and_not_created(controlled: ControllerNode) -> None:
    topics = query(controlled, "nope", "a b").topics
    assert [(topic.name, topic.error_code) for topic in topics] == [
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert controlled.image.topic("nope") is None


def test_cursor_with_a_negative_partition_is_refused(controlled: ControllerNode) -> None:
    with pytest.raises(KafkaError) as invalid:
        query(controlled, cursor=Cursor(topic_name="a", partition_index=-1))
    assert invalid.value.code is ErrorCode.INVALID_REQUEST
