"""AlterPartitionReassignments and ListPartitionReassignments, sent by a client."""

from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.topics import create

_Topic = AlterPartitionReassignmentsRequest.Topic


@pytest.mark.parametrize("version", range(2))
def test_response_has_an_entry_for_each_partition(controlled: ControllerNode, version: int) -> None:
    create(controlled, "t", 4)
    wanted = {0: [1], 1: [2], 2: None, 7: [1]}
    partitions = [_Topic.Partition(partition_index=index, replicas=replicas) for index, replicas in wanted.items()]
    response = controlled.query(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, topics=[_Topic(name="t", partitions=partitions)]
    )
    [topic] = response.responses
    assert {answer.partition_index: answer.error_code for answer in topic.partitions} == {
        0: ErrorCode.NONE,
        1: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        2: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_response_echoes_allow_replication_factor_change(controlled: ControllerNode) -> None:
    response = controlled.query(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, allow_replication_factor_change=False, topics=[]
    )
    assert not response.allow_replication_factor_change


def test_no_reassignment_is_listed_where_none_is_under_way(controlled: ControllerNode) -> None:
    create(controlled, "t", 1)
    assert controlled.query(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None).topics == []
