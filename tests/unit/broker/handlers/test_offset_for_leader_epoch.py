"""OffsetForLeaderEpoch, sent by a client."""

from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.unit.broker.node import Node


@pytest.fixture
def node(node: Node) -> Node:
    """Return a node whose log has offsets 0 and 1 of epoch 0, and 2 of epoch 3."""
    node.create("t")
    node.append("t")
    node.append("t")
    for _ in range(3):
        node.elect("t", 1)
    node.append("t")
    return node


def end(node: Node, epoch: int, *, current: int = -1, topic: str = "t", version: int = 4) -> tuple[int, int, int]:
    """Return (error code, epoch, end offset)."""
    partition = OffsetForLeaderEpochRequest.Topic.Partition(
        partition=0, current_leader_epoch=current, leader_epoch=epoch
    )
    topics = [OffsetForLeaderEpochRequest.Topic(topic=topic, partitions=[partition])]
    response = node.answer(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics)
    [answer] = response.topics[0].partitions
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(("epoch", "answer"), [(0, (0, 0, 2)), (2, (0, 0, 2)), (3, (0, 3, 3)), (4, (0, -1, -1))])
def test_end_offset_of_an_epoch_is_the_start_of_the_next(
    node: Node, version: int, epoch: int, answer: tuple[int, int, int]
) -> None:
    assert end(node, epoch, version=version) == answer


@pytest.mark.parametrize(
    ("current", "code"), [(2, ErrorCode.FENCED_LEADER_EPOCH), (3, 0), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_current_leader_epoch_of_the_request_is_checked(node: Node, current: int, code: int) -> None:
    assert end(node, 0, current=current)[0] == code


def test_follower_returns_not_leader(node: Node) -> None:
    node.elect("t", 2)
    assert end(node, 0)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_unknown_topic_or_partition_is_refused(node: Node) -> None:
    assert end(node, 0, topic="missing") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
