"""AlterPartitionReassignments and ListPartitionReassignments."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from controller.commands.reassignments import alter_partition_reassignments, list_partition_reassignments
from controller.image import NO_LEADER, DirectoryId, PartitionImage
from controller.partition_change import RECOVERED, RECOVERING
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.records.metadata import BrokerRegistrationChangeRecord
from tests.unit.controller.cluster import Cluster, directory
from tests.unit.controller.partitions import change, enable_elr, fence


@pytest.fixture
def cluster() -> Cluster:
    """A topic on brokers 1 and 2 of four, led by 1."""
    cluster = Cluster(brokers=4)
    cluster.create("t", assignments={0: [1, 2]})
    return cluster


def alter(cluster: Cluster, replicas: list[int] | None, name: str = "t", index: int = 0, **options: Any) -> Any:
    """Reassign one partition and return its response."""
    requested = AlterPartitionReassignmentsRequest.Topic
    topics = [requested(name=name, partitions=[requested.Partition(partition_index=index, replicas=replicas)])]
    request = AlterPartitionReassignmentsRequest(topics=topics, **options)
    response = cluster.apply(partial(alter_partition_reassignments, request=request, settings=cluster.settings))
    assert response.error_code == ErrorCode.NONE
    return response.responses[0].partitions[0]


def moved(cluster: Cluster, replicas: list[int] | None) -> PartitionImage:
    """Reassign the partition without an error and return its new state."""
    assert alter(cluster, replicas).error_code == ErrorCode.NONE
    return cluster.partition("t")


def listed(cluster: Cluster, **requested: list[int]) -> list[tuple[str, int, list[int], list[int], list[int]]]:
    topics = [
        ListPartitionReassignmentsRequest.Topic(name=name, partition_indexes=at) for name, at in requested.items()
    ]
    request = ListPartitionReassignmentsRequest(topics=topics or None)
    response = list_partition_reassignments(cluster.image, request).response
    return [
        (topic.name, one.partition_index, one.replicas, one.adding_replicas, one.removing_replicas)
        for topic in response.topics
        for one in topic.partitions
    ]


def test_reassignment_to_the_current_replicas_writes_no_record(cluster: Cluster) -> None:
    assert alter(cluster, [1, 2]).error_code == ErrorCode.NONE
    assert cluster.records == ()


def test_new_replica_order_applies_immediately_and_keeps_the_leader(cluster: Cluster) -> None:
    before = cluster.partition("t")
    after = moved(cluster, [2, 1])
    assert (after.replicas, after.isr, after.leader) == ((2, 1), before.isr, 1)
    assert after.leader_epoch == before.leader_epoch
    assert after.directories == before.directories[::-1]


def test_new_replicas_are_added_before_the_old_are_removed(cluster: Cluster) -> None:
    after = moved(cluster, [3, 4])
    assert after.replicas == (3, 4, 1, 2)
    assert (after.adding_replicas, after.removing_replicas) == ((3, 4), (1, 2))
    assert (after.isr, after.leader) == ((1, 2), 1)
    assert after.directories[:2] == (directory(3), directory(4))
    assert listed(cluster) == [("t", 0, [3, 4, 1, 2], [3, 4], [1, 2])]


def test_removing_replicas_completes_immediately(cluster: Cluster) -> None:
    before = cluster.partition("t")
    after = moved(cluster, [2])
    assert (after.replicas, after.isr, after.leader) == ((2,), (2,), 2)
    assert after.leader_epoch == before.leader_epoch + 1
    assert (after.adding_replicas, after.removing_replicas) == ((), ())


def test_remaining_leader_starts_a_new_leader_epoch_after_replicas_are_removed(cluster: Cluster) -> None:
    before = cluster.partition("t")
    after = moved(cluster, [1])
    assert (after.replicas, after.leader, after.leader_epoch) == ((1,), 1, before.leader_epoch + 1)


def test_partition_has_no_leader_if_its_only_remaining_replica_is_fenced(cluster: Cluster) -> None:
    epoch = cluster.image.brokers[2].epoch
    cluster.replay([BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=epoch, fenced=1)])
    assert moved(cluster, [2]).leader == -1


def test_reassignment_completes_when_the_new_replicas_are_in_sync(cluster: Cluster) -> None:
    moved(cluster, [2, 3])
    change(cluster, isr=[1, 2, 3])
    after = moved(cluster, [2, 3])
    assert (after.replicas, after.isr, after.leader) == ((2, 3), (2, 3), 2)
    assert listed(cluster) == []


def test_reassignment_can_be_cancelled(cluster: Cluster) -> None:
    before = cluster.partition("t")
    moved(cluster, [3, 4])
    after = moved(cluster, None)
    assert (after.replicas, after.isr, after.directories) == ((1, 2), before.isr, before.directories)
    assert (after.adding_replicas, after.removing_replicas) == ((), ())
    assert after.leader_epoch == before.leader_epoch + 1


def test_reassignment_waits_for_the_added_replicas_alone_unless_it_removes_more(cluster: Cluster) -> None:
    moved(cluster, [2, 3])
    change(cluster, isr=[1, 3])
    after = moved(cluster, [2, 3])
    assert (after.replicas, after.isr, after.leader) == ((2, 3), (3,), 3)
    cluster.create("u", assignments={0: [1, 2, 3]})
    change(cluster, "u", isr=[1, 4])
    assert alter(cluster, [2, 4], "u").error_code == ErrorCode.NONE
    assert cluster.partition("u").removing_replicas == (1, 3)


def test_cancelling_an_extended_reassignment_returns_to_the_replicas_before_both(cluster: Cluster) -> None:
    moved(cluster, [1, 2, 3])
    assert moved(cluster, [1, 2, 3, 4]).adding_replicas == (3, 4)
    assert moved(cluster, None).replicas == (1, 2)


class TestEligible:
    """With eligible leader replicas, and min.insync.replicas=2."""

    @pytest.fixture(autouse=True)
    def eligible(self, cluster: Cluster) -> None:
        enable_elr(cluster)
        cluster.create("u", assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": "2"})

    def test_running_reassignment_keeps_the_elr(self, cluster: Cluster) -> None:
        change(cluster, "u", isr=[1], eligible_leader_replicas=[2, 3])
        alter(cluster, [1, 4], "u")
        assert cluster.partition("u").eligible_leader_replicas == (2, 3)

    def test_completed_reassignment_clears_the_elr_if_min_isr_is_met(self, cluster: Cluster) -> None:
        change(cluster, "u", isr=[1, 2], eligible_leader_replicas=[3])
        alter(cluster, [1, 2], "u")
        assert cluster.partition("u").eligible_leader_replicas == ()

    def test_completed_reassignment_removes_its_replicas_from_the_elr(self, cluster: Cluster) -> None:
        change(cluster, "u", isr=[1], eligible_leader_replicas=[2, 3])
        alter(cluster, [1], "u")
        after = cluster.partition("u")
        assert (after.replicas, after.isr, after.eligible_leader_replicas) == ((1,), (1,), ())

    def test_cancelling_elects_an_eligible_replica_before_others(self, cluster: Cluster) -> None:
        cluster.create("v", assignments={0: [1, 2]}, configs={"unclean.leader.election.enable": "true"})
        alter(cluster, [3], "v")
        change(cluster, "v", isr=[3], leader=3, eligible_leader_replicas=[2])
        alter(cluster, None, "v")
        after = cluster.partition("v")
        assert (after.leader, after.isr, after.eligible_leader_replicas) == (2, (2,), ())
        assert after.leader_recovery_state == RECOVERED


def test_replica_in_a_failed_directory_does_not_lead_after_a_reassignment(cluster: Cluster) -> None:
    change(cluster, isr=[1, 2, 3], directories=[directory(1), DirectoryId.LOST], leader=1)
    moved(cluster, [2, 3])
    change(cluster, isr=[1, 2, 3])
    after = moved(cluster, [2, 3])
    assert (after.replicas, after.leader) == ((2, 3), 3)
    assert after.directories == (DirectoryId.LOST, directory(3))


def test_cancelling_leaves_no_removed_replica_in_sync_though_no_other_is_live() -> None:
    cluster = Cluster({"unclean.leader.election.enable": "true"}, brokers=4)
    cluster.create("t", assignments={0: [1, 2]})
    moved(cluster, [3, 4])
    change(cluster, isr=[3], leader=3)
    fence(cluster, 1, 2)
    after = moved(cluster, None)
    assert (after.replicas, after.isr, after.leader) == ((1, 2), (1,), NO_LEADER)


@pytest.mark.parametrize("unclean", ["false", "true"])
def test_cancelling_elects_an_unclean_leader_only_if_the_topic_allows_it(unclean: str) -> None:
    cluster = Cluster({"unclean.leader.election.enable": unclean}, brokers=4)
    cluster.create("t", assignments={0: [1, 2]})
    moved(cluster, [3, 4])
    change(cluster, isr=[3], leader=3)
    code = alter(cluster, None).error_code
    after = cluster.partition("t")
    if unclean == "true":
        assert (code, after.replicas, after.isr, after.leader) == (ErrorCode.NONE, (1, 2), (1,), 1)
        assert after.leader_recovery_state == RECOVERING
    else:
        assert (code, after.isr) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, (3,))


@pytest.mark.parametrize(
    ("replicas", "name", "index", "code"),
    [
        (None, "t", 0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ([], "t", 0, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], "t", 0, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], "t", 0, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1], "t", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1], "missing", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_invalid_requests_are_rejected_with_a_reason(
    cluster: Cluster, replicas: list[int] | None, name: str, index: int, code: ErrorCode
) -> None:
    assert alter(cluster, replicas, name, index).error_code == code
    assert cluster.records == ()


def test_replication_factor_change_can_be_disallowed(cluster: Cluster) -> None:
    refused = alter(cluster, [1, 2, 3], allow_replication_factor_change=False)
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert alter(cluster, [3, 4], allow_replication_factor_change=False).error_code == ErrorCode.NONE
    # Replicas that are being removed do not count.
    assert alter(cluster, [1, 4], allow_replication_factor_change=False).error_code == ErrorCode.NONE


def test_last_reassignment_of_a_duplicated_partition_applies(cluster: Cluster) -> None:
    requested = AlterPartitionReassignmentsRequest.Topic
    partitions = [requested.Partition(partition_index=0, replicas=replicas) for replicas in ([3], [2, 1])]
    request = AlterPartitionReassignmentsRequest(topics=[requested(name="t", partitions=partitions)])
    cluster.apply(partial(alter_partition_reassignments, request=request, settings=cluster.settings))
    assert cluster.partition("t").replicas == (2, 1)


def test_only_ongoing_reassignments_are_listed(cluster: Cluster) -> None:
    cluster.create("u", assignments={0: [1], 1: [2]})
    moved(cluster, [3])
    moving = [("t", 0, [3, 1, 2], [3], [1, 2])]
    assert listed(cluster) == moving
    assert listed(cluster, t=[0, 7], u=[0], missing=[0]) == moving
    assert listed(cluster, u=[0, 1]) == []
