"""DescribeQuorum, sent by a client."""

from __future__ import annotations

from typing import Any

import pytest

from controller.image import Endpoint
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.describe_quorum import DescribeQuorumRequest
from protocol.primitives import ZERO_UUID
from tests.unit.broker.conftest import NewController
from tests.unit.broker.controller_node import ControllerNode

METADATA = "__cluster_metadata"
STATIC = {"controller_quorum_voters": "1@localhost:9093"}


def query(node: ControllerNode, version: int, *requested: tuple[str, list[int]]) -> Any:
    _Topic = DescribeQuorumRequest.Topic  # noqa: N806
    topics = [
        _Topic(topic_name=name, partitions=[_Topic.Partition(partition_index=index) for index in indexes])
        for name, indexes in requested
    ]
    return node.query(ApiKey.DESCRIBE_QUORUM, version, topics=topics)


@pytest.mark.parametrize("version", range(3))
def test_single_voter_is_the_leader_at_the_log_end(controlled: ControllerNode, version: int) -> None:
    response = query(controlled, version, (METADATA, [0]))
    [topic] = response.topics
    [partition] = topic.partitions
    [voter] = partition.current_voters
    end_offset = controlled.image.offset + 1
    assert (response.error_code, partition.error_code, partition.observers) == (ErrorCode.NONE, ErrorCode.NONE, [])
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 1, end_offset)
    assert (voter.replica_id, voter.log_end_offset) == (1, end_offset)
    assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp == (controlled.node.now_ms() if version else -1)
    assert voter.replica_directory_id == (
        controlled.broker.logs.directories[0].directory_id if version == 2 else ZERO_UUID
    )


def test_static_voters_have_no_directory_id(new_controller: NewController) -> None:
    controlled = new_controller(**STATIC)
    [voter] = query(controlled, 2, (METADATA, [0])).topics[0].partitions[0].current_voters
    assert voter.replica_directory_id == ZERO_UUID


def test_nodes_have_the_controller_endpoints(new_controller: NewController) -> None:
    controlled = new_controller(controller_listener_names="CONTROLLER")
    controlled.broker.endpoints.update(PLAINTEXT=Endpoint("here", 9092), CONTROLLER=Endpoint("here", 9093))
    [node] = query(controlled, 2, (METADATA, [0])).nodes
    assert node.node_id == 1
    assert [(point.name, point.host, point.port) for point in node.listeners] == [("CONTROLLER", "here", 9093)]


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize(
    "requested",
    [
        [("t", [0])],
        [(METADATA, [1])],
        [(METADATA, [0, 1])],
        [(METADATA, [0]), ("t", [0])],
        [(METADATA, [0])] * 2,
    ],
    ids=str,
)
def test_partition_other_than_the_metadata_log_is_unknown(
    controlled: ControllerNode, version: int, requested: list[tuple[str, list[int]]]
) -> None:
    response = query(controlled, version, *requested)
    found = [(topic.topic_name, [one.partition_index for one in topic.partitions]) for topic in response.topics]
    assert found == requested
    codes = {one.error_code for topic in response.topics for one in topic.partitions}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert response.nodes == []
