"""Partition reassignments (KIP-455; Kafka: `ReplicationControlManager.alterPartitionReassignments`).

A reassignment starts with the union of new and old replicas, the new ones first, and with lists of those to add and
those to remove. It completes once every target replica is in sync; the replicas to remove then leave, and lose
leadership. A target whose replicas are all in sync, such as a change of order, completes at once. Cancelling returns to
the previous replicas.

`partition_change` completes a reassignment when the ISR grows.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.commands.assignment import check_assignment, choose_directory
from controller.commands.controller_result import ControllerResult
from controller.configs.effective import StaticSettings, effective_topic_value
from controller.image import MetadataImage, PartitionImage, ResourceType
from controller.image_builder import LEADER_UNCHANGED
from controller.replica_placer import choose_leader
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from protocol.records.metadata import PartitionChangeRecord

_Answer = AlterPartitionReassignmentsResponse.Topic.Partition


def alter_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest, settings: StaticSettings
) -> ControllerResult[AlterPartitionReassignmentsResponse]:
    """Start, complete or cancel the reassignments of a request, each partition on its own."""
    # Of a partition that is named twice, the last target counts.
    changes: dict[tuple[bytes, int], PartitionChangeRecord | None] = {}
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None, responses=[]
    )
    for asked in request.topics:
        answers = []
        for wanted in asked.partitions:
            answer = _Answer(partition_index=wanted.partition_index, error_message=None)
            try:
                topic_id, partition = _partition(image, asked.name, wanted.partition_index)
                if wanted.replicas is None:
                    change = _cancel(image, settings, asked.name, topic_id, partition)
                else:
                    check_assignment(image, wanted.replicas, len(wanted.replicas))
                    if not request.allow_replication_factor_change:
                        _check_factor(partition, wanted.replicas)
                    change = _reassign(image, topic_id, partition, wanted.replicas)
                changes[topic_id, partition.partition] = change
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.message or None
            answers.append(answer)
        response.responses.append(AlterPartitionReassignmentsResponse.Topic(name=asked.name, partitions=answers))
    return ControllerResult(tuple(filter(None, changes.values())), response)


def list_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the ongoing reassignments, of the requested partitions or of all."""
    asked = {topic.name: topic.partition_indexes for topic in request.topics or ()}
    topics = []
    for topic in image.topics():
        wanted = topic.partitions if request.topics is None else dict.fromkeys(asked.get(topic.name, ()))
        moving = [
            ListPartitionReassignmentsResponse.Topic.Partition(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for index in wanted
            if (partition := topic.partitions.get(index)) is not None and _is_moving(partition)
        ]
        if moving:
            topics.append(ListPartitionReassignmentsResponse.Topic(name=topic.name, partitions=moving))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _partition(image: MetadataImage, name: str, index: int) -> tuple[bytes, PartitionImage]:
    topic = image.topic(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    return topic.topic_id, partition


def _is_moving(partition: PartitionImage) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def _check_factor(partition: PartitionImage, target: Sequence[int]) -> None:
    factor = len(set(partition.replicas) - set(partition.removing_replicas))
    if len(target) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor would change from {factor} to {len(target)}",
        )


def _reassign(
    image: MetadataImage, topic_id: bytes, partition: PartitionImage, target: Sequence[int]
) -> PartitionChangeRecord | None:
    """Return the change towards `target`; None if there is none."""
    adding = sorted(set(target) - set(partition.replicas))
    removing = sorted(set(partition.replicas) - set(target))
    remaining = [replica for replica in partition.isr if replica not in removing]
    if not (adding or removing) or set(target) <= set(remaining):
        return _changed(image, topic_id, partition, target, remaining, (), ())
    return _changed(image, topic_id, partition, [*target, *removing], partition.isr, adding, removing)


def _cancel(
    image: MetadataImage, settings: StaticSettings, name: str, topic_id: bytes, partition: PartitionImage
) -> PartitionChangeRecord | None:
    """Return the change back to the replicas before the reassignment."""
    if not _is_moving(partition):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = [replica for replica in partition.replicas if replica not in partition.adding_replicas]
    isr = [replica for replica in partition.isr if replica not in partition.adding_replicas]
    if not isr:
        overrides = image.configs(ResourceType.TOPIC, name)
        if not effective_topic_value(image, settings, overrides, "unclean.leader.election.enable"):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {name}:{partition.partition} because it would require an "
                "unclean leader election.",
            )
        isr = replicas[:1]
    return _changed(image, topic_id, partition, replicas, isr, (), ())


def _changed(
    image: MetadataImage,
    topic_id: bytes,
    partition: PartitionImage,
    replicas: Sequence[int],
    isr: Sequence[int],
    adding: Sequence[int],
    removing: Sequence[int],
) -> PartitionChangeRecord | None:
    """Return the change from `partition` to these replicas, with a leader among them; None if there is none."""
    known = dict(zip(partition.replicas, partition.directories, strict=True))
    directories = [
        known.get(replica) or choose_directory(image.brokers[replica], topic_id, partition.partition)
        for replica in replicas
    ]
    keeps_leader = partition.leader in isr and image.is_active(partition.leader)
    leader = partition.leader if keeps_leader else choose_leader(replicas, isr, image.is_active)
    # Removing a replica bumps the leader epoch, to fence its fetches.
    new_epoch = leader != partition.leader or not set(partition.replicas) <= set(replicas)

    def differing(value: Sequence[int], before: Sequence[int]) -> list[int] | None:
        return None if tuple(value) == tuple(before) else list(value)

    change = PartitionChangeRecord(
        partition_id=partition.partition,
        topic_id=topic_id,
        isr=differing(isr, partition.isr),
        leader=leader if new_epoch else LEADER_UNCHANGED,
        replicas=differing(replicas, partition.replicas),
        adding_replicas=differing(adding, partition.adding_replicas),
        removing_replicas=differing(removing, partition.removing_replicas),
        directories=None if tuple(directories) == partition.directories else directories,
    )
    unchanged = PartitionChangeRecord(partition_id=partition.partition, topic_id=topic_id)
    return None if change == unchanged else change
