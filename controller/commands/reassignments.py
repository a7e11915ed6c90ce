"""Partition reassignments (KIP-455; Kafka: `ReplicationControlManager.alterPartitionReassignments`).

A reassignment starts with the union of new and old replicas, the new ones first, and with lists of those to add and
those to remove. It completes once every added replica is in sync (every target replica, if it removes more than it
adds); the replicas to remove then leave, and lose leadership. One that waits for none completes at once. Cancelling
returns to the previous replicas; if none of them is in the ISR, the topic has to allow unclean elections. Version 1 and
later of the request can forbid a change of the replication factor (KIP-860).

`PartitionChangeBuilder` decides on completion, ISR, ELR and leader.
"""

from collections.abc import Sequence

from controller.commands.assignment import check_assignment, choose_directory
from controller.commands.controller_result import ControllerResult
from controller.configs.effective import StaticSettings
from controller.image import MetadataImage, PartitionImage, TopicImage
from controller.partition_change import DEFAULT_SETTINGS, Election, PartitionChangeBuilder, Replicas
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

_Result = AlterPartitionReassignmentsResponse.Topic.Partition


def alter_partition_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest, settings: StaticSettings
) -> ControllerResult[AlterPartitionReassignmentsResponse]:
    """Start, complete or cancel the reassignments of a request, each partition on its own."""
    builder = PartitionChangeBuilder(image, settings)
    # The last target of a duplicated partition applies.
    changes: dict[tuple[bytes, int], PartitionChangeRecord | None] = {}
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None, responses=[]
    )
    for requested in request.topics:
        results = []
        for wanted in requested.partitions:
            result = _Result(partition_index=wanted.partition_index, error_message=None)
            try:
                topic, partition = _partition(image, requested.name, wanted.partition_index)
                if wanted.replicas is None:
                    change = _cancel(builder, topic, partition)
                else:
                    check_assignment(image, wanted.replicas, len(wanted.replicas))
                    if not request.allow_replication_factor_change:
                        _check_factor(partition, wanted.replicas)
                    change = _reassign(builder, topic, partition, wanted.replicas)
                changes[topic.topic_id, partition.partition] = change
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message or None
            results.append(result)
        response.responses.append(AlterPartitionReassignmentsResponse.Topic(name=requested.name, partitions=results))
    return ControllerResult(tuple(filter(None, changes.values())), response)


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest, _settings: StaticSettings = DEFAULT_SETTINGS
) -> ControllerResult[ListPartitionReassignmentsResponse]:
    """Return the ongoing reassignments, of the requested partitions or of all; others are omitted."""
    requested = {topic.name: topic.partition_indexes for topic in request.topics or ()}
    topics = []
    for topic in image.topics():
        wanted = topic.partitions if request.topics is None else dict.fromkeys(requested.get(topic.name, ()))
        ongoing = [
            ListPartitionReassignmentsResponse.Topic.Partition(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for index in wanted
            if (partition := topic.partitions.get(index)) is not None and _is_reassigning(partition)
        ]
        if ongoing:
            topics.append(ListPartitionReassignmentsResponse.Topic(name=topic.name, partitions=ongoing))
    return ControllerResult((), ListPartitionReassignmentsResponse(error_message=None, topics=topics))


def _partition(image: MetadataImage, name: str, index: int) -> tuple[TopicImage, PartitionImage]:
    topic = image.topic(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    return topic, partition


def _is_reassigning(partition: PartitionImage) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def _check_factor(partition: PartitionImage, target: Sequence[int]) -> None:
    factor = len(set(partition.replicas) - set(partition.removing_replicas))
    if len(target) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor would change from {factor} to {len(target)}",
        )


def _reassign(
    builder: PartitionChangeBuilder, topic: TopicImage, partition: PartitionImage, target: Sequence[int]
) -> PartitionChangeRecord | None:
    """Return the change towards `target`; None if there is none."""
    brokers = builder.image.brokers
    new = set(target) - set(partition.replicas)
    # What an earlier reassignment adds is still being added: cancelling returns to the replicas before both.
    adding = sorted(new.union(partition.adding_replicas).intersection(target))
    removing = sorted(set(partition.replicas) - set(target))
    return builder.change(
        topic,
        partition,
        election=Election.ONLINE,
        replicas=Replicas([*target, *removing], adding, removing),
        directories={
            replica: choose_directory(brokers[replica], topic.topic_id, partition.partition) for replica in new
        },
    )


def _cancel(
    builder: PartitionChangeBuilder, topic: TopicImage, partition: PartitionImage
) -> PartitionChangeRecord | None:
    """Return the change back to the replicas before the reassignment (Kafka: `PartitionReassignmentRevert`)."""
    if not _is_reassigning(partition):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    added = partition.adding_replicas
    isr = [replica for replica in partition.isr if replica not in added]
    if not (isr or builder.unclean_enabled(topic)):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}:{partition.partition} because it would require an "
            "unclean leader election.",
        )
    return builder.change(
        topic, partition, replicas=Replicas([one for one in partition.replicas if one not in added]), isr=isr
    )
