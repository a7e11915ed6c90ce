"""ISR changes by partition leaders (KIP-497, KIP-841, KIP-903; Kafka: `ReplicationControlManager.alterPartition`).

A leader sends the new ISR with the leader epoch and partition epoch that it knows. The change is made if both are
current and every broker in the new ISR is active and, if the request has its epoch, has not registered again since.
Epochs above the controller's come from a newer controller, so this one returns NOT_CONTROLLER.

The response has the partition after the change. A change that completes a reassignment can remove the requesting
leader; it is made, and the response is NEW_LEADER_ELECTED.
"""

from collections.abc import Sequence
from typing import TypeAlias

from controller.commands.controller_result import ControllerResult
from controller.configs.effective import StaticSettings
from controller.image import MetadataImage, PartitionImage
from controller.image_builder import LEADER_UNCHANGED, apply_records
from controller.partition_change import DEFAULT_SETTINGS, RECOVERED, RECOVERING, PartitionChangeBuilder
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from protocol.records.metadata import PartitionChangeRecord

_Wanted: TypeAlias = AlterPartitionRequest.Topic.Partition
_Result: TypeAlias = AlterPartitionResponse.Topic.Partition

_ANY_EPOCH = -1


def alter_partition(
    image: MetadataImage, request: AlterPartitionRequest, settings: StaticSettings = DEFAULT_SETTINGS
) -> ControllerResult[AlterPartitionResponse]:
    """Change the ISRs of a leader's partitions, each on its own.

    STALE_BROKER_EPOCH for the whole request if the broker is not registered in that epoch.
    """
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return ControllerResult((), AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, topics=[]))
    builder = PartitionChangeBuilder(image, settings)
    changes: dict[tuple[bytes, int], PartitionChangeRecord] = {}
    outcomes = [
        (
            requested.topic_id,
            [
                (wanted.partition_index, _alter(builder, request.broker_id, requested.topic_id, wanted, changes))
                for wanted in requested.partitions
            ],
        )
        for requested in request.topics
    ]
    records = tuple(changes.values())
    after = apply_records(image, records, offset=image.offset + len(records), epoch=image.epoch)
    topics = [
        AlterPartitionResponse.Topic(
            topic_id=topic_id, partitions=[_result(after, topic_id, index, code) for index, code in partitions]
        )
        for topic_id, partitions in outcomes
    ]
    return ControllerResult(records, AlterPartitionResponse(topics=topics))


def _alter(
    builder: PartitionChangeBuilder,
    broker_id: int,
    topic_id: bytes,
    wanted: _Wanted,
    changes: dict[tuple[bytes, int], PartitionChangeRecord],
) -> ErrorCode:
    """Add the change of one partition to `changes`, if there is one; return the partition's error code."""
    topic = builder.image.topic_by_id(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(wanted.partition_index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if (topic_id, wanted.partition_index) in changes:
        # Named twice: the first change has bumped the partition epoch.
        return ErrorCode.INVALID_UPDATE_VERSION
    code = _check(builder.image, broker_id, partition, wanted)
    if code is not ErrorCode.NONE:
        return code
    isr = [replica for replica, _ in _new_isr(wanted)]
    change = builder.change(topic, partition, isr=isr, recovery_state=wanted.leader_recovery_state)
    if change is not None:
        changes[topic_id, wanted.partition_index] = change
        if change.leader not in (LEADER_UNCHANGED, broker_id):
            return ErrorCode.NEW_LEADER_ELECTED
    return ErrorCode.NONE


def _check(image: MetadataImage, broker_id: int, partition: PartitionImage, wanted: _Wanted) -> ErrorCode:
    """Return the error of a requested change; NONE if it is valid."""
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    isr = _new_isr(wanted)
    replicas = [replica for replica, _ in isr]
    distinct = set(replicas)
    if len(distinct) < len(replicas) or not distinct <= set(partition.replicas) or broker_id not in distinct:
        return ErrorCode.INVALID_REQUEST
    if not _can_recover(partition.leader_recovery_state, wanted.leader_recovery_state, len(replicas)):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(image, replica, epoch) for replica, epoch in isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _new_isr(wanted: _Wanted) -> Sequence[tuple[int, int]]:
    """Return the new ISR with the brokers' epochs, which version 2 does not have."""
    if wanted.new_isr_with_epochs:
        return [(state.broker_id, state.broker_epoch) for state in wanted.new_isr_with_epochs]
    return [(replica, _ANY_EPOCH) for replica in wanted.new_isr]


def _can_recover(before: int, after: int, in_sync: int) -> bool:
    """Return whether the recovery state can change so: RECOVERING stays only with the leader alone in the ISR.

    A RECOVERED leader never returns to RECOVERING.
    """
    if after == RECOVERING:
        return before == RECOVERING and in_sync == 1
    return after == RECOVERED


def _is_eligible(image: MetadataImage, replica: int, epoch: int) -> bool:
    """Return whether a broker is active, in the registration that the leader knows."""
    broker = image.brokers.get(replica)
    return broker is not None and broker.active and epoch in (_ANY_EPOCH, broker.epoch)


def _result(after: MetadataImage, topic_id: bytes, index: int, code: ErrorCode) -> _Result:
    """Return the response for one partition: its state after the changes, or an error."""
    if code is not ErrorCode.NONE:
        return _Result(partition_index=index, error_code=code, leader_id=0, leader_epoch=0, isr=[], partition_epoch=0)
    partition = after.topics_by_id()[topic_id].partitions[index]
    return _Result(
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )
