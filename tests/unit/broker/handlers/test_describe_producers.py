"""DescribeProducers, sent by a client."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.describe_producers import DescribeProducersRequest
from protocol.record_batch import EndTxnMarker
from tests.unit.broker.node import START_MS, Node


def describe(node: Node, topic: str = "t", index: int = 0) -> Any:
    topics = [DescribeProducersRequest.Topic(name=topic, partition_indexes=[index])]
    [answer] = node.answer(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics).topics
    [partition] = answer.partitions
    assert (answer.name, partition.partition_index) == (topic, index)
    return partition


def test_each_producer_has_the_state_of_its_last_batch(node: Node) -> None:
    node.create("t")
    records = [(None, b"v")] * 3
    node.append("t", *records, producer_id=7, producer_epoch=2, base_sequence=0)
    node.append("t", *records, producer_id=7, producer_epoch=2, base_sequence=3)
    node.append("t")
    [found] = describe(node).active_producers
    assert (found.producer_id, found.producer_epoch, found.last_sequence) == (7, 2, 5)
    assert (found.last_timestamp, found.coordinator_epoch, found.current_txn_start_offset) == (START_MS, -1, -1)


def test_open_transaction_has_its_start_offset(node: Node) -> None:
    node.create("t")
    node.append("t")
    for sequence in range(2):
        node.append("t", producer_id=7, producer_epoch=0, base_sequence=sequence, is_transactional=True)
    [found] = describe(node).active_producers
    assert found.current_txn_start_offset == 1


def test_marker_of_the_next_epoch_ends_the_transaction(node: Node) -> None:
    node.create("t")
    node.append("t", producer_id=7, producer_epoch=0, base_sequence=4, is_transactional=True)
    node.replicas.append_marker(node.partition("t"), 7, 1, EndTxnMarker(True, 6), transaction_version=2)
    [found] = describe(node).active_producers
    assert (found.producer_epoch, found.last_sequence, found.coordinator_epoch) == (1, -1, 6)
    assert found.current_txn_start_offset == -1


def test_follower_describes_producers(node: Node) -> None:
    node.create("t", replicas=[1, 2])
    node.append("t", producer_id=7, producer_epoch=0, base_sequence=0)
    node.elect("t", leader=2)
    assert [found.producer_id for found in describe(node).active_producers] == [7]


def test_expired_producer_is_not_listed(node: Node) -> None:
    node.create("t")
    node.append("t", producer_id=7, producer_epoch=0, base_sequence=0)
    node.partition("t").log.producers.expire(START_MS + 1000, 1000)
    assert describe(node).active_producers == []


@pytest.mark.parametrize(
    ("topic", "index", "code"),
    [
        ("t", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("missing", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("b@d", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("elsewhere", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_partition_without_local_log_is_refused(node: Node, topic: str, index: int, code: ErrorCode) -> None:
    node.create("t")
    node.create("elsewhere", replicas=[2], leader=2)
    answer = describe(node, topic, index)
    assert (answer.error_code, answer.active_producers) == (code, [])
