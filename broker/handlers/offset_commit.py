"""OffsetCommit: store the committed offsets of a group.

Behaviour
- The response is sent once the offsets are committed to `__consumer_offsets`. All valid offsets are written, or none.
- A client that is not a member may commit only to a group without members, with generation -1; that creates a simple
  group.
- A partition that does not exist, or metadata longer than `offset.metadata.max.bytes`, fails alone. If the group
  refuses the commit, its error is that of the other partitions.
- Offsets are stored with their topic's id: they never apply to a topic that is created later with the same name.

Version notes
- Up to 4 a commit may have its own retention time.
- 7 and later have the member's instance id (KIP-345).
- Below 9 an unknown group is ILLEGAL_GENERATION, from 9 on GROUP_ID_NOT_FOUND.
- 10 and later name topics by id: UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from broker.broker_server import BrokerServer
from broker.coordinator.group.shard import Commit, Offset
from broker.network.connection import RequestContext
from controller.image import MetadataImage
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

_GROUP_NOT_FOUND_FROM_VERSION = 9
_TOPIC_IDS_FROM_VERSION = 10

_Result = OffsetCommitResponse.Topic.Partition


def handle(
    broker: BrokerServer, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Commit the offsets of existing partitions."""
    by_id = context.api_version >= _TOPIC_IDS_FROM_VERSION
    offsets: list[Offset] = []
    accepted: list[_Result] = []
    response = OffsetCommitResponse(
        topics=[_accept(broker.image, topic, by_id, offsets, accepted) for topic in request.topics]
    )
    if not offsets:
        return response

    def respond(errors: list[ErrorCode]) -> OffsetCommitResponse:
        for partition, error in zip(accepted, errors, strict=True):
            partition.error_code = error
        return response

    committer = Commit(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id_or_member_epoch
    )
    try:
        outcome = broker.groups.commit(
            committer,
            offsets,
            retention_ms=request.retention_time_ms,
            reports_unknown_group=context.api_version >= _GROUP_NOT_FOUND_FROM_VERSION,
        )
    except KafkaError as error:
        return respond([error.code] * len(offsets))
    return _respond_later(outcome, respond, len(offsets)) if isinstance(outcome, asyncio.Future) else respond(outcome)


async def _respond_later(
    outcome: asyncio.Future[list[ErrorCode]], respond: Callable[[list[ErrorCode]], OffsetCommitResponse], count: int
) -> OffsetCommitResponse:
    try:
        errors = await outcome
    except KafkaError as error:
        errors = [error.code] * count
    return respond(errors)


def _accept(
    image: MetadataImage,
    requested: OffsetCommitRequest.Topic,
    by_id: bool,
    offsets: list[Offset],
    accepted: list[_Result],
) -> OffsetCommitResponse.Topic:
    """Return a topic's part of the response; append its valid offsets to `offsets`, their results to `accepted`."""
    topic = image.topic_by_id(requested.topic_id) if by_id else image.topic(requested.name)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id and topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answers = []
    for partition in requested.partitions:
        index = partition.partition_index
        answer = _Result(partition_index=index, error_code=unknown)
        answers.append(answer)
        if topic is not None and index in topic.partitions:
            accepted.append(answer)
            offsets.append(
                Offset(
                    topic.name,
                    topic.topic_id,
                    index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata or "",
                )
            )
    return OffsetCommitResponse.Topic(name=requested.name, topic_id=requested.topic_id, partitions=answers)
