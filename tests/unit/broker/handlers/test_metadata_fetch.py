"""Fetch of the metadata log, sent by another node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controller.batches import decode_entries
from controller.topic_names import METADATA_TOPIC_ID
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from tests.unit.broker.controllers import cluster_id, query
from tests.unit.broker.whole_cluster import WholeCluster

Partition = FetchRequest.Topic.Partition


@pytest.fixture
def three() -> Iterator[WholeCluster]:
    cluster = WholeCluster()
    cluster.start()
    yield cluster
    cluster.close()


def fetch(three: WholeCluster, node: int, offset: int = 0, **fields: list[FetchRequest.Topic] | str) -> Any:
    partition = Partition(
        partition=0,
        current_leader_epoch=three.raft(node).epoch,
        fetch_offset=offset,
        last_fetched_epoch=0,
        partition_max_bytes=1 << 20,
    )
    requested = {
        "cluster_id": cluster_id(three),
        "replica_state": FetchRequest.ReplicaState(replica_id=9),
        "max_wait_ms": 0,
        "min_bytes": 0,
        "topics": [FetchRequest.Topic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        "forgotten_topics_data": [],
    }
    answer = query(three, ApiKey.FETCH, 17, node=node, **{**requested, **fields})
    return ErrorCode(answer.error_code) if answer.error_code else answer.responses[0].partitions[0]


def test_leader_returns_metadata_records(three: WholeCluster) -> None:
    leader = three.active
    partition = fetch(three, leader)
    assert partition.error_code == ErrorCode.NONE
    entries = list(decode_entries(partition.records))
    assert entries[0].base_offset == 0
    assert partition.high_watermark <= entries[-1].next_offset
    assert partition.high_watermark >= three.raft(leader).applied_offset


def test_follower_returns_the_leader_id(three: WholeCluster) -> None:
    partition = fetch(three, three.follower())
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.current_leader.leader_id == three.active


def test_fetch_with_another_cluster_id_is_refused(three: WholeCluster) -> None:
    assert fetch(three, three.active, cluster_id="other") is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_topic_other_than_the_metadata_log_is_refused(three: WholeCluster) -> None:
    topics = [FetchRequest.Topic(topic_id=b"t" * 16, partitions=[])]
    assert fetch(three, three.active, topics=topics) in (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_ID)
