"""Election counts in the controller metrics."""

from __future__ import annotations

from typing import Any

import pytest

from broker.monitoring.elections import ElectionCounts
from protocol.records.metadata import PartitionChangeRecord
from tests.unit.controller.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Topic `t` on brokers 1, 2 and 3: broker 1 is the leader, broker 2 is in the ISR."""
    cluster = Cluster(brokers=3)
    cluster.create("t", assignments={0: [1, 2, 3]})
    cluster.replay([changed(cluster, isr=[1, 2])])
    return cluster


def changed(cluster: Cluster, **fields: Any) -> PartitionChangeRecord:
    topic = cluster.image.topic("t")
    assert topic is not None
    return PartitionChangeRecord(topic_id=topic.topic_id, partition_id=0, **fields)


def counted(cluster: Cluster, *records: PartitionChangeRecord) -> tuple[int, int]:
    counts = ElectionCounts()
    counts.apply(cluster.image, cluster.image, records)
    return counts.unclean, counts.from_eligible


def test_election_of_an_isr_member_counts_as_clean(cluster: Cluster) -> None:
    assert counted(cluster, changed(cluster, leader=2)) == (0, 0)


def test_election_outside_the_isr_counts_as_unclean(cluster: Cluster) -> None:
    assert counted(cluster, changed(cluster, leader=3, isr=[3])) == (1, 0)


def test_election_from_the_elr_is_counted_separately(cluster: Cluster) -> None:
    cluster.replay([changed(cluster, eligible_leader_replicas=[3])])
    assert counted(cluster, changed(cluster, leader=3, isr=[3])) == (0, 1)


def test_changes_without_a_new_leader_do_not_count(cluster: Cluster) -> None:
    assert counted(cluster, changed(cluster, leader=-1), changed(cluster, isr=[1])) == (0, 0)
