"""The leader of a partition, moved to another replica in sync."""

from __future__ import annotations

from functools import partial

import pytest

from controller.commands.move_leader import move_leader
from protocol.errors import ErrorCode, KafkaError
from tests.unit.controller.cluster import Cluster
from tests.unit.controller.partitions import change, registration


@pytest.fixture
def cluster() -> Cluster:
    """A topic on brokers 1, 2 and 3, led by 1."""
    cluster = Cluster(brokers=3)
    cluster.create("t", assignments={0: [1, 2, 3]})
    return cluster


def move(cluster: Cluster, leader: int, topic: str = "t", index: int = 0) -> ErrorCode:
    try:
        cluster.apply(partial(move_leader, topic_name=topic, index=index, leader=leader))
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_the_leader_moves_in_a_new_epoch_and_the_isr_stays(cluster: Cluster) -> None:
    before = cluster.partition("t")
    assert move(cluster, 3) == ErrorCode.NONE
    after = cluster.partition("t")
    assert (after.leader, after.leader_epoch) == (3, before.leader_epoch + 1)
    assert after.partition_epoch == before.partition_epoch + 1
    assert (after.isr, after.replicas) == (before.isr, before.replicas)


def test_a_leader_that_leads_already_changes_nothing(cluster: Cluster) -> None:
    before = cluster.partition("t")
    assert move(cluster, 1) == ErrorCode.NONE
    assert cluster.partition("t") == before


def test_a_replica_out_of_sync_does_not_lead(cluster: Cluster) -> None:
    change(cluster, isr=[1, 2])
    assert move(cluster, 3) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert cluster.partition("t").leader == 1


def test_a_fenced_broker_does_not_lead(cluster: Cluster) -> None:
    cluster.replay([registration(cluster, 2, fenced=1)])
    assert move(cluster, 2) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


@pytest.mark.parametrize(("topic", "index"), [("u", 0), ("t", 1)])
def test_an_unknown_partition_is_an_error(cluster: Cluster, topic: str, index: int) -> None:
    assert move(cluster, 2, topic, index) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
