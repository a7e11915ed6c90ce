"""Manual replica assignments."""

from __future__ import annotations

import pytest

from controller.commands.assignment import check_assignment, new_partition
from controller.image import DirectoryId
from controller.records import broker_record
from protocol.errors import ErrorCode, KafkaError
from tests.unit.controller.cluster import Cluster, directory

ID = b"i" * 16


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(brokers=2)
    cluster.add_broker(3, directories=2)
    cluster.add_broker(4, fenced=True)
    return cluster


def test_distinct_registered_brokers_are_a_valid_assignment(cluster: Cluster) -> None:
    check_assignment(cluster.image, [4, 1], 2)


@pytest.mark.parametrize(
    ("replicas", "factor", "message"),
    [
        ([], 1, "an empty replica list"),
        ([1, 9], 2, "includes broker 9, but no such broker is registered"),
        ([1, 2, 1], 3, "includes the broker 1 more than once"),
        ([9, 1, 1], 3, "includes the broker 1 more than once"),
        ([1, 2], 3, "with 2 replica(s), but this is not consistent with previous partitions, which have 3"),
    ],
)
def test_invalid_assignments_are_rejected(cluster: Cluster, replicas: list[int], factor: int, message: str) -> None:
    with pytest.raises(KafkaError) as invalid:
        check_assignment(cluster.image, replicas, factor)
    assert invalid.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message in invalid.value.message


def test_oversized_assignment_is_rejected_early(cluster: Cluster) -> None:
    with pytest.raises(KafkaError, match="includes the broker 1 more than once"):
        check_assignment(cluster.image, [1] * 1_000_000, 2)


def test_a_new_partition_is_led_by_its_first_active_replica(cluster: Cluster) -> None:
    record = new_partition(cluster.image, ID, 5, [4, 3, 1])
    assert (record.partition_id, record.topic_id, record.replicas) == (5, ID, [4, 3, 1])
    assert (record.isr, record.leader, record.leader_epoch, record.partition_epoch) == ([3, 1], 3, 0, 0)
    assert record.directories[0] == directory(4)
    assert record.directories[2] == directory(1)


def test_partitions_of_a_topic_are_spread_over_the_directories(cluster: Cluster) -> None:
    placed = [new_partition(cluster.image, ID, index, [3]).directories for index in range(4)]
    assert placed[0] == placed[2] != placed[1] == placed[3]
    assert placed[0] + placed[1] in ([directory(3, 0), directory(3, 1)], [directory(3, 1), directory(3, 0)])


def test_topics_start_at_different_directories(cluster: Cluster) -> None:
    begun = {new_partition(cluster.image, bytes([*ID[:15], last]), 0, [3]).directories[0] for last in range(10)}
    assert len(begun) == 2


def test_replicas_on_a_broker_without_directories_are_unassigned() -> None:
    cluster = Cluster(brokers=1)
    cluster.replay([broker_record(cluster.image.brokers[1]._replace(directories=()))])
    assert new_partition(cluster.image, ID, 0, [1]).directories == [DirectoryId.MIGRATING]


def test_assignment_without_an_active_broker_is_rejected(cluster: Cluster) -> None:
    with pytest.raises(KafkaError, match="for partition 5 are fenced or in controlled shutdown"):
        new_partition(cluster.image, ID, 5, [4])
