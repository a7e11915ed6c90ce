"""Creation and deletion of topics (KIP-4, KIP-464, KIP-516, KIP-525; Kafka: `ReplicationControlManager`).

Each topic of a request is decided on its own, with its own error; those before it count as created. A request for more
partitions than MAX_PARTITIONS_PER_REQUEST is refused as a whole. When DeleteTopics is answered, the
topics are gone from the metadata and can be created again; their files are deleted after `file.delete.delay.ms`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from controller.commands.assignment import check_assignment, new_partition
from controller.commands.controller_result import ControllerResult
from controller.commands.random_uuid import random_uuid
from controller.commands.topic_configs import check_topic_configs
from controller.configs.effective import StaticSettings, effective_text, topic_config_values
from controller.configs.topic import TOPIC_CONFIGS
from controller.image import MetadataImage, ResourceType, TopicImage
from controller.replica_placer import place_replicas, usable_brokers
from controller.topic_names import CLUSTER_METADATA, check_topic_name, colliding_topic, unify_collision_chars
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.primitives import ZERO_UUID
from protocol.records.metadata import ConfigRecord, RemoveTopicRecord, TopicRecord
from protocol.schema import Message

if TYPE_CHECKING:
    from random import Random

MAX_PARTITIONS_PER_REQUEST = 10_000
EXCESSIVE_PARTITIONS = (
    f"Excessively large number of partitions per request: the most is {MAX_PARTITIONS_PER_REQUEST:,}."
)

RecordMutations: TypeAlias = Callable[[int], None]
"""Records that partitions are created or deleted; KafkaError THROTTLING_QUOTA_EXCEEDED refuses that (KIP-599)."""

_DEFAULT = -1


def unlimited(_partitions: int) -> None:
    """Record nothing: no quota limits the client."""


def create_topics(
    image: MetadataImage,
    request: CreateTopicsRequest,
    settings: StaticSettings,
    random: Random,
    record_mutations: RecordMutations = unlimited,
) -> ControllerResult[CreateTopicsResponse]:
    """Create topics with their partitions, leaders and configs; no records if the request only validates.

    As in Kafka, partitions that are only validated count as mutations too.
    """
    times = Counter(topic.name for topic in request.topics)
    records: list[Message] = []
    results: dict[str, CreateTopicsResponse.Topic] = {}
    created: dict[str, str] = {}
    excessive = _count_partitions(request.topics, settings) > MAX_PARTITIONS_PER_REQUEST
    for topic in request.topics:
        try:
            if excessive:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, EXCESSIVE_PARTITIONS)
            if times[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _check_new_name(topic.name, image, created)
            topic_records, results[topic.name] = _create_topic(image, topic, settings, random)
            record_mutations(results[topic.name].num_partitions)
        except KafkaError as error:
            results[topic.name] = CreateTopicsResponse.Topic(
                name=topic.name, error_code=error.code, error_message=error.message or None
            )
        else:
            created[unify_collision_chars(topic.name)] = topic.name
            records += topic_records
    if request.validate_only:
        records = []
    return ControllerResult(tuple(records), CreateTopicsResponse(topics=list(results.values())))


def _count_partitions(topics: Sequence[CreateTopicsRequest.Topic], settings: StaticSettings) -> int:
    # Numbers below -1 are refused later; they must not reduce the sum.
    return sum(
        len(topic.assignments)
        or (settings["num.partitions"] if topic.num_partitions == _DEFAULT else max(topic.num_partitions, 0))
        for topic in topics
    )


def _check_new_name(name: str, image: MetadataImage, created: Mapping[str, str]) -> None:
    """Raise KafkaError if the name is invalid, exists, or collides with a topic or one of `created`, by plain form."""
    if name == CLUSTER_METADATA:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    check_topic_name(name)
    if image.topic(name) is not None:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = colliding_topic(name, image) or created.get(unify_collision_chars(name))
    if other is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _create_topic(
    image: MetadataImage, topic: CreateTopicsRequest.Topic, settings: StaticSettings, random: Random
) -> tuple[list[Message], CreateTopicsResponse.Topic]:
    configs = check_topic_configs(image, settings, {config.name: config.value for config in topic.configs})
    assignments = _assignments(image, topic, settings, random)
    topic_id = new_topic_id(image, random)
    records: list[Message] = [
        TopicRecord(name=topic.name, topic_id=topic_id),
        # Configs come before the partitions that they apply to.
        *(
            ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
            for name, value in configs.items()
        ),
        *(new_partition(image, topic_id, partition, replicas) for partition, replicas in enumerate(assignments)),
    ]
    result = CreateTopicsResponse.Topic(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(assignments),
        replication_factor=len(assignments[0]),
        configs=_describe(image, settings, configs),
    )
    return records, result


def new_topic_id(image: MetadataImage, random: Random) -> bytes:
    """Return an unused topic id."""
    while True:
        topic_id = random_uuid(random)
        if image.topic_by_id(topic_id) is None:
            return topic_id


def _assignments(
    image: MetadataImage, topic: CreateTopicsRequest.Topic, settings: StaticSettings, random: Random
) -> Sequence[Sequence[int]]:
    """Return the replicas of each partition, assigned manually or placed."""
    if topic.assignments:
        return _manual_assignments(image, topic)
    partitions, factor = topic.num_partitions, topic.replication_factor
    if factor == 0 or factor < _DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if partitions == 0 or partitions < _DEFAULT:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    if partitions == _DEFAULT:
        partitions = settings["num.partitions"]
    if factor == _DEFAULT:
        factor = settings["default.replication.factor"]
    try:
        return place_replicas(usable_brokers(image.brokers.values()), partitions, factor, random)
    except KafkaError as error:
        raise KafkaError(error.code, f"Unable to replicate the partition {factor} time(s): {error.message}") from None


def _manual_assignments(image: MetadataImage, topic: CreateTopicsRequest.Topic) -> Sequence[Sequence[int]]:
    for given, name in ((topic.replication_factor, "replication factor"), (topic.num_partitions, "numPartitions")):
        if given != _DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {name} was not set to -1.",
            )
    by_partition: dict[int, list[int]] = {}
    for assignment in topic.assignments:
        partition = assignment.partition_index
        if partition in by_partition:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {partition}",
            )
        factor = len(next(iter(by_partition.values()), assignment.broker_ids))
        check_assignment(image, assignment.broker_ids, factor)
        by_partition[partition] = assignment.broker_ids
    if by_partition.keys() != set(range(len(by_partition))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [by_partition[partition] for partition in range(len(by_partition))]


def _describe(
    image: MetadataImage, settings: StaticSettings, overrides: dict[str, str]
) -> list[CreateTopicsResponse.Topic.Config]:
    """Return the effective configs of the new topic with their sources (KIP-525); no topic config is sensitive."""
    described = []
    for name, definition in sorted(TOPIC_CONFIGS.items()):
        if definition.internal:
            continue
        first = next(topic_config_values(image, settings, overrides, name))
        described.append(
            CreateTopicsResponse.Topic.Config(
                name=name,
                value=effective_text(first),
                read_only=False,
                config_source=first.source,
                is_sensitive=definition.sensitive,
            )
        )
    return described


def delete_topics(
    image: MetadataImage,
    request: DeleteTopicsRequest,
    settings: StaticSettings,
    record_mutations: RecordMutations = unlimited,
) -> ControllerResult[DeleteTopicsResponse]:
    """Delete topics by name or, from version 6 on, by id (KIP-516); none with `delete.topic.enable=false`."""
    requested = [(topic.name, topic.topic_id) for topic in request.topics]
    requested += [(name, ZERO_UUID) for name in request.topic_names]
    times = Counter(requested)
    records: list[Message] = []
    results: dict[tuple[str | None, bytes], DeleteTopicsResponse.Topic] = {}
    for key in times:
        name, topic_id = key
        result = results[key] = DeleteTopicsResponse.Topic(name=name, topic_id=topic_id)
        try:
            if not settings["delete.topic.enable"]:
                raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            if times[key] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name." if name else "Duplicate topic id.")
            topic = _topic_to_delete(image, name, topic_id)
            result.name, result.topic_id = topic.name, topic.topic_id
            if name is None and (topic.name, ZERO_UUID) in times:
                # The result under its name has the error.
                del results[key]
                continue
            if name is not None and (None, topic.topic_id) in times:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
                )
            record_mutations(len(topic.partitions))
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message or None
        else:
            records.append(RemoveTopicRecord(topic_id=topic.topic_id))
    return ControllerResult(tuple(records), DeleteTopicsResponse(responses=list(results.values())))


def _topic_to_delete(image: MetadataImage, name: str | None, topic_id: bytes) -> TopicImage:
    if name is not None and topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if name is None and topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    topic = image.topic_by_id(topic_id) if name is None else image.topic(name)
    if topic is None:
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return topic
