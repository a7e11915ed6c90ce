"""CreatePartitions."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from tests.typed import present
from tests.unit.controller.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(brokers=3)
    cluster.create("t", 2, 2)
    return cluster


def test_new_partitions_have_as_many_replicas_as_the_old(cluster: Cluster) -> None:
    before = dict(present(cluster.image.topic("t")).partitions)
    assert cluster.grow("t", 5).error_code == ErrorCode.NONE
    partitions = present(cluster.image.topic("t")).partitions
    assert list(partitions) == [0, 1, 2, 3, 4]
    assert {index: partitions[index] for index in before} == before
    assert {len(set(partition.replicas)) for partition in partitions.values()} == {2}
    assert {partition.leader_epoch for partition in partitions.values()} == {0}


def test_manual_assignments_are_kept(cluster: Cluster) -> None:
    assert cluster.grow("t", 3, [[3, 1]]).error_code == ErrorCode.NONE
    assert cluster.partition("t", 2).replicas == (3, 1)


def test_partitions_of_transaction_state_cannot_be_increased(cluster: Cluster) -> None:
    """Prepared transactions would belong to another coordinator."""
    cluster.create("__transaction_state", 2, 2)
    answer = cluster.grow("__transaction_state", 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "cannot be changed: it has 2" in (answer.error_message or "")
    assert len(present(cluster.image.topic("__transaction_state")).partitions) == 2


def test_validation_alone_writes_nothing(cluster: Cluster) -> None:
    assert cluster.grow("t", 5, validate_only=True).error_code == ErrorCode.NONE
    assert len(present(cluster.image.topic("t")).partitions) == 2


@pytest.mark.parametrize(
    ("name", "count", "assignments", "error", "message"),
    [
        ("t", 2, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        ("t", 1, None, ErrorCode.INVALID_PARTITIONS, "1 would not be an increase"),
        ("t", -1, None, ErrorCode.INVALID_PARTITIONS, "-1 would not be an increase"),
        ("t", 20_000, None, ErrorCode.POLICY_VIOLATION, "Excessively large"),
        ("nope", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        ("t", 3, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "but only 0 assignment(s) were specified"),
        ("t", 3, [[1, 2], [2, 3]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "but only 2 assignment(s) were specified"),
        ("t", 3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
        ("t", 3, [[1, 7]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes broker 7"),
        ("t", 3, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "1 replica(s)"),
    ],
)
def test_invalid_partition_counts_are_rejected_with_a_reason(
    cluster: Cluster, name: str, count: int, assignments: list[list[int]] | None, error: ErrorCode, message: str
) -> None:
    answer = cluster.grow(name, count, assignments)
    assert answer.error_code == error
    assert message in (answer.error_message or "")
    assert cluster.records == ()
