"""AlterPartition: partition leaders change their ISR."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from controller.commands.alter_partition import alter_partition
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tests.unit.controller.cluster import Cluster, directory
from tests.unit.controller.partitions import change, enable_elr, fence, registration, topic_of

Partition = AlterPartitionRequest.Topic.Partition


@pytest.fixture
def cluster() -> Cluster:
    """A topic on brokers 1, 2 and 3, led by 1."""
    cluster = Cluster(brokers=3)
    cluster.create("t", assignments={0: [1, 2, 3]})
    return cluster


def wanted(cluster: Cluster, *isr: int, index: int = 0, **fields: Any) -> Partition:
    """Return an AlterPartition entry for an ISR, with the current epochs unless `fields` override them."""
    partition = cluster.partition("t", index)
    epochs = {broker_id: broker.epoch for broker_id, broker in cluster.image.brokers.items()}
    given: dict[str, Any] = {
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "new_isr_with_epochs": [Partition.BrokerState(broker_id=b, broker_epoch=epochs.get(b, 0)) for b in isr],
        "leader_recovery_state": partition.leader_recovery_state,
    }
    return Partition(partition_index=index, **{**given, **fields})


def query(
    cluster: Cluster, *partitions: Partition, broker: int = 1, epoch: int | None = None, topic_id: bytes | None = None
) -> AlterPartitionResponse:
    request = AlterPartitionRequest(
        broker_id=broker,
        broker_epoch=cluster.image.brokers[broker].epoch if epoch is None else epoch,
        topics=[
            AlterPartitionRequest.Topic(
                topic_id=topic_of(cluster, "t").topic_id if topic_id is None else topic_id, partitions=list(partitions)
            )
        ],
    )
    response: AlterPartitionResponse = cluster.apply(
        partial(alter_partition, request=request, settings=cluster.settings)
    )
    return response


def code(cluster: Cluster, partition: Partition, **options: Any) -> int:
    [topic] = query(cluster, partition, **options).topics
    [answer] = topic.partitions
    assert answer.partition_index == partition.partition_index
    return answer.error_code


def test_rule_7_isr_change_takes_effect_when_committed_and_the_response_has_the_new_state(cluster: Cluster) -> None:
    [topic] = query(cluster, wanted(cluster, 1, 2)).topics
    [answer] = topic.partitions
    assert answer.error_code == ErrorCode.NONE
    assert (answer.isr, answer.partition_epoch) == ([1, 2], 1)
    assert (answer.leader_id, answer.leader_epoch, answer.leader_recovery_state) == (1, 0, 0)
    after = cluster.partition("t")
    assert (after.isr, after.partition_epoch, after.leader_epoch) == ((1, 2), 1, 0)


def test_rule_7_isr_change_with_a_stale_partition_epoch_is_rejected(cluster: Cluster) -> None:
    late = wanted(cluster, 1, 2)
    change(cluster, isr=[1, 3])
    assert code(cluster, late) == ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.partition("t").isr == (1, 3)


def test_isr_expands_again(cluster: Cluster) -> None:
    change(cluster, isr=[1])
    assert code(cluster, wanted(cluster, 1, 3)) == ErrorCode.NONE
    assert cluster.partition("t").isr == (1, 3)


def test_unchanged_isr_writes_no_record(cluster: Cluster) -> None:
    assert code(cluster, wanted(cluster, 1, 2, 3)) == ErrorCode.NONE
    assert cluster.records == ()


def test_version_2_isr_without_broker_epochs_is_accepted(cluster: Cluster) -> None:
    assert code(cluster, wanted(cluster, new_isr=[1, 2])) == ErrorCode.NONE
    assert cluster.partition("t").isr == (1, 2)


def test_rule_8_isr_change_with_a_stale_broker_epoch_is_rejected(cluster: Cluster) -> None:
    old = cluster.image.brokers[1].epoch
    response = query(cluster, wanted(cluster, 1), epoch=old - 1)
    assert (response.error_code, response.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])
    assert cluster.records == ()


def test_isr_change_from_an_unknown_broker_is_rejected(cluster: Cluster) -> None:
    assert query(cluster, wanted(cluster, 1), broker=9, epoch=0).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_rule_8_replica_with_a_stale_broker_epoch_is_not_eligible_for_the_isr(cluster: Cluster) -> None:
    change(cluster, isr=[1, 3])
    seen = wanted(cluster, 1, 2, 3)
    cluster.add_broker(2)
    assert code(cluster, seen) == ErrorCode.INELIGIBLE_REPLICA
    assert code(cluster, wanted(cluster, 1, 2, 3)) == ErrorCode.NONE


@pytest.mark.parametrize("fields", [{"fenced": 1}, {"in_controlled_shutdown": 1}])
def test_replica_on_an_inactive_broker_is_not_eligible_for_the_isr(cluster: Cluster, fields: dict[str, int]) -> None:
    cluster.replay([registration(cluster, 2, **fields)])
    assert code(cluster, wanted(cluster, 1, 2)) == ErrorCode.INELIGIBLE_REPLICA


def test_replica_on_an_unknown_broker_is_not_eligible_for_the_isr(cluster: Cluster) -> None:
    change(cluster, replicas=[1, 2, 9], directories=[directory(1), directory(2), directory(9)])
    assert code(cluster, wanted(cluster, 1, 9)) == ErrorCode.INELIGIBLE_REPLICA


def test_unknown_topic_or_partition_is_refused(cluster: Cluster) -> None:
    assert code(cluster, wanted(cluster, 1), topic_id=bytes(16)) == ErrorCode.UNKNOWN_TOPIC_ID
    missing = wanted(cluster, 1)
    missing.partition_index = 7
    assert code(cluster, missing) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_earlier_leader_is_fenced(cluster: Cluster) -> None:
    fence(cluster, 1)
    assert code(cluster, wanted(cluster, 1, leader_epoch=0)) == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("newer", [{"leader_epoch": 1}, {"partition_epoch": 1}])
def test_request_with_a_newer_epoch_returns_not_controller(cluster: Cluster, newer: dict[str, int]) -> None:
    assert code(cluster, wanted(cluster, 1, **newer)) == ErrorCode.NOT_CONTROLLER


def test_only_the_leader_can_change_the_isr(cluster: Cluster) -> None:
    assert code(cluster, wanted(cluster, 1, 2), broker=2) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("isr", [(), (2, 3), (1, 1), (1, 7)])
def test_isr_without_the_leader_or_with_duplicates_is_rejected(cluster: Cluster, isr: tuple[int, ...]) -> None:
    assert code(cluster, wanted(cluster, *isr)) == ErrorCode.INVALID_REQUEST


def test_leader_finishes_recovery_once_with_only_itself_in_the_isr(cluster: Cluster) -> None:
    recovering = {"leader_recovery_state": 1}
    assert code(cluster, wanted(cluster, 1, **recovering)) == ErrorCode.INVALID_REQUEST
    change(cluster, isr=[1], leader_recovery_state=1)
    assert code(cluster, wanted(cluster, 1, 2, **recovering)) == ErrorCode.INVALID_REQUEST
    assert code(cluster, wanted(cluster, 1, leader_recovery_state=2)) == ErrorCode.INVALID_REQUEST
    assert code(cluster, wanted(cluster, 1, leader_recovery_state=0)) == ErrorCode.NONE
    assert cluster.partition("t").leader_recovery_state == 0


def test_first_change_of_a_duplicated_partition_applies(cluster: Cluster) -> None:
    [topic] = query(cluster, wanted(cluster, 1, 2), wanted(cluster, 1, 3)).topics
    assert [one.error_code for one in topic.partitions] == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]
    assert cluster.partition("t").isr == (1, 2)


def test_each_partition_is_altered_independently(cluster: Cluster) -> None:
    cluster.grow("t", 2, [[1, 2, 3]])
    bad = wanted(cluster, 1, 9)
    [topic] = query(cluster, bad, wanted(cluster, 1, index=1)).topics
    assert [one.error_code for one in topic.partitions] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert cluster.partition("t", 1).isr == (1,)


def test_replica_that_leaves_an_isr_below_min_isr_stays_in_the_elr_until_min_isr_is_reached(cluster: Cluster) -> None:
    enable_elr(cluster)
    cluster.settings.explicit["min.insync.replicas"] = "2"
    assert code(cluster, wanted(cluster, 1)) == ErrorCode.NONE
    assert cluster.partition("t").eligible_leader_replicas == (2, 3)
    assert code(cluster, wanted(cluster, 1, 3)) == ErrorCode.NONE
    assert cluster.partition("t").eligible_leader_replicas == ()


def test_an_isr_with_all_new_replicas_completes_a_reassignment(cluster: Cluster) -> None:
    change(cluster, isr=[1, 2], adding_replicas=[3], removing_replicas=[2])
    assert code(cluster, wanted(cluster, 1, 2, 3)) == ErrorCode.NONE
    after = cluster.partition("t")
    assert (after.replicas, after.isr, after.adding_replicas, after.removing_replicas) == ((1, 3), (1, 3), (), ())
    assert (after.leader, after.leader_epoch, after.directories) == (1, 1, (directory(1), directory(3)))


def test_leader_removed_by_a_completed_reassignment_gets_new_leader_elected(cluster: Cluster) -> None:
    change(cluster, isr=[1, 2], adding_replicas=[3], removing_replicas=[1])
    assert code(cluster, wanted(cluster, 1, 2, 3)) == ErrorCode.NEW_LEADER_ELECTED
    after = cluster.partition("t")
    assert (after.leader, after.leader_epoch, after.replicas) == (2, 1, (2, 3))
