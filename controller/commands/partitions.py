"""More partitions for topics (KIP-195), with replicas placed like those of a new topic or assigned manually."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from controller.commands.assignment import check_assignment, new_partition
from controller.commands.controller_result import ControllerResult
from controller.commands.topics import EXCESSIVE_PARTITIONS, MAX_PARTITIONS_PER_REQUEST, RecordMutations, unlimited
from controller.image import MetadataImage
from controller.replica_placer import place_replicas, usable_brokers
from controller.topic_names import TRANSACTION_STATE
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from protocol.records.metadata import PartitionRecord

if TYPE_CHECKING:
    from random import Random


def create_partitions(
    image: MetadataImage,
    request: CreatePartitionsRequest,
    random: Random,
    record_mutations: RecordMutations = unlimited,
) -> ControllerResult[CreatePartitionsResponse]:
    """Increase topics to the requested numbers of partitions; no records if the request only validates."""
    times = Counter(topic.name for topic in request.topics)
    records: list[PartitionRecord] = []
    results: dict[str, CreatePartitionsResponse.Result] = {}
    for topic in request.topics:
        result = results[topic.name] = CreatePartitionsResponse.Result(name=topic.name)
        try:
            if times[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            room = MAX_PARTITIONS_PER_REQUEST - len(records)
            added = _add_partitions(image, topic, random, room)
            record_mutations(len(added))
            records += added
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message or None
    if request.validate_only:
        records = []
    return ControllerResult(tuple(records), CreatePartitionsResponse(results=list(results.values())))


def _add_partitions(
    image: MetadataImage, topic: CreatePartitionsRequest.Topic, random: Random, room: int
) -> list[PartitionRecord]:
    existing = image.topic(topic.name)
    if existing is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    count = len(existing.partitions)
    if topic.count == count:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if topic.count < count:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {count} partition(s); {topic.count} would not be an increase.",
        )
    if topic.name == TRANSACTION_STATE:
        # The number decides which partition, and so which coordinator, a transactional id belongs to.
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"The number of partitions of {topic.name} cannot be changed: it has {count}."
        )
    if topic.count - count > room:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, EXCESSIVE_PARTITIONS)
    factor = len(existing.partitions[0].replicas)
    assignments: Sequence[Sequence[int]]
    if topic.assignments is None:
        assignments = place_replicas(
            usable_brokers(image.brokers.values()), topic.count - count, factor, random, first_partition=count
        )
    else:
        assignments = [assignment.broker_ids for assignment in topic.assignments]
        if len(assignments) != topic.count - count:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {topic.count - count} additional partition(s), but only {len(assignments)} "
                "assignment(s) were specified.",
            )
        for replicas in assignments:
            check_assignment(image, replicas, factor)
    return [
        new_partition(image, existing.topic_id, partition, replicas)
        for partition, replicas in enumerate(assignments, count)
    ]
