"""DescribeTopicPartitions: topics in pages, with the eligible leader replicas of each partition (KIP-966).

Behaviour
- Topics are in the order of their names: the requested ones, or all if none is named.
- A page ends after as many partitions as the request or `max.request.partition.size.limit` allows; its cursor is the
  first topic and partition of the next page. If the cursor's topic is gone, the page starts at the next topic.
- Authorized operations are always returned, also those of a named topic that does not exist.
- Topics are never created.
"""

from collections.abc import Iterable
from itertools import islice

from broker.broker_server import BrokerServer
from broker.handlers.authorized_operations import TOPIC_OPERATIONS
from broker.metadata.metadata_view import reachable_brokers, view_partition
from broker.network.connection import RequestContext
from controller.image import MetadataImage, PartitionImage
from controller.topic_names import INTERNAL_TOPICS, check_topic_name
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from protocol.primitives import ZERO_UUID

_Topic = DescribeTopicPartitionsResponse.Topic
_Cursor = DescribeTopicPartitionsResponse.Cursor


def handle(
    broker: BrokerServer, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Return one page."""
    image = broker.image
    limit = broker.settings["max.request.partition.size.limit"]
    if request.response_partition_limit > 0:
        limit = min(limit, request.response_partition_limit)
    first_topic, first_partition = "", 0
    if request.cursor is not None:
        first_topic, first_partition = request.cursor.topic_name, request.cursor.partition_index
        if first_partition < 0:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"DescribeTopicPartitionsRequest cursor partition must be valid: {first_partition}",
            )
    names = {topic.name for topic in request.topics} or image.topics_by_name().keys()
    response = DescribeTopicPartitionsResponse(topics=[])
    reachable = reachable_brokers(image, context.listener)
    for name in sorted(name for name in names if name >= first_topic):
        if limit <= 0:
            response.next_cursor = _Cursor(topic_name=name, partition_index=0)
            break
        start = first_partition if name == first_topic else 0
        described, following = _describe(image, name, start, limit, reachable)
        response.topics.append(described)
        limit -= len(described.partitions)
        if following is not None:
            response.next_cursor = _Cursor(topic_name=name, partition_index=following)
            break
    return response


def _describe(
    image: MetadataImage, name: str, start: int, limit: int, reachable: frozenset[int]
) -> tuple[_Topic, int | None]:
    """Return a topic with at most `limit` partitions from `start`, and the next page's first partition or None."""
    topic = image.topic(name)
    if topic is None:
        return _unknown(name), None
    wanted = [topic.partitions[index] for index in range(start, len(topic.partitions))]
    described = _Topic(
        name=name,
        topic_id=topic.topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=list(_partitions(image, islice(wanted, limit), reachable)),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
    return described, start + limit if len(wanted) > limit else None


def _unknown(name: str) -> _Topic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except KafkaError as invalid:
        error = invalid.code
    return _Topic(
        error_code=error,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partitions(
    image: MetadataImage, partitions: Iterable[PartitionImage], reachable: frozenset[int]
) -> Iterable[_Topic.Partition]:
    for partition in partitions:
        view = view_partition(image, partition, reachable)
        yield _Topic.Partition(
            error_code=view.error,
            partition_index=partition.partition,
            leader_id=view.leader_id,
            leader_epoch=partition.leader_epoch,
            replica_nodes=view.replicas,
            isr_nodes=view.isr,
            eligible_leader_replicas=list(partition.eligible_leader_replicas),
            last_known_elr=list(partition.last_known_elr),
            offline_replicas=view.offline,
        )
