"""ListPartitionReassignments, sent by a client."""

from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.records.metadata import PartitionChangeRecord
from tests.unit.broker.node import Node


def moving(node: Node) -> None:
    topic_id = node.create("t", 2)
    node.commit(
        PartitionChangeRecord(
            partition_id=1, topic_id=topic_id, replicas=[2, 1], adding_replicas=[2], removing_replicas=[1]
        )
    )


@pytest.mark.parametrize("asked", [None, [0, 1, 7]])
def test_ongoing_reassignment_is_listed(node: Node, asked: list[int] | None) -> None:
    moving(node)
    topics = asked and [ListPartitionReassignmentsRequest.Topic(name="t", partition_indexes=asked)]  # type: ignore[list-item]  # stands in for int
    [topic] = node.answer(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=topics).topics
    [found] = topic.partitions
    assert (topic.name, found.partition_index, found.replicas) == ("t", 1, [2, 1])
    assert (found.adding_replicas, found.removing_replicas) == ([2], [1])


def test_partition_without_reassignment_is_not_listed(node: Node) -> None:
    moving(node)
    topics = [ListPartitionReassignmentsRequest.Topic(name="t", partition_indexes=[0])]
    assert node.answer(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=topics).topics == []
