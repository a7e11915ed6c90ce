"""OffsetFetch: the committed offsets of groups.

Behaviour
- The response is sent once every write of the group's coordinator so far is committed: no offset is returned that a new
  coordinator might not have. Kafka does that if stable offsets are required; it does no harm otherwise.
- A partition without an offset is -1 with NONE; so is one whose offset was committed to an earlier topic of that name.
- If stable offsets are required, an offset with a pending transactional commit is UNSTABLE_OFFSET_COMMIT (KIP-447).
- NOT_COORDINATOR if the coordinator cannot commit: consumers before 3.9 do not retry other errors here.

Version notes
- 1 has errors in the partitions only; 2 to 7 have one for the response.
- 2 and later: null topics request all of the group's offsets.
- 8 and later take several groups, each with its own result (KIP-709).
- 10 and later name topics by id: UNKNOWN_TOPIC_ID; unknown topics come last, as in Kafka.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeAlias

from broker.broker_server import BrokerServer
from broker.coordinator.group.offsets import Committed
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.runtime.shard_host import Outcome
from broker.network.connection import RequestContext
from controller.image import MetadataImage
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from protocol.primitives import ZERO_UUID

_TOP_LEVEL_ERROR_FROM_VERSION = 2
_GROUPS_FROM_VERSION = 8
_TOPIC_IDS_FROM_VERSION = 10

_RequestedGroup: TypeAlias = OffsetFetchRequest.Group
_GroupResult: TypeAlias = OffsetFetchResponse.Group
_Topic: TypeAlias = OffsetFetchResponse.Group.Topic
_Partition: TypeAlias = OffsetFetchResponse.Group.Topic.Partition


def handle(
    broker: BrokerServer, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """Return the offsets of each group; wait only for uncommitted writes."""
    version = context.api_version
    requested = request.groups if version >= _GROUPS_FROM_VERSION else [_only_group(request)]
    shards = [_committed_shard(broker, group.group_id) for group in requested]
    if any(isinstance(shard, asyncio.Future) for shard in shards):
        return _respond_later(broker, version, request, requested, shards)
    return _respond(broker, version, request, requested, shards)


def _only_group(request: OffsetFetchRequest) -> _RequestedGroup:
    topics = None
    if request.topics is not None:
        topics = [
            _RequestedGroup.Topic(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return _RequestedGroup(group_id=request.group_id, topics=topics)


def _committed_shard(broker: BrokerServer, group_id: str) -> Outcome[GroupCoordinatorShard] | ErrorCode:
    try:
        return broker.groups.committed_shard(group_id)
    except KafkaError as error:
        return error.code


async def _respond_later(
    broker: BrokerServer,
    version: int,
    request: OffsetFetchRequest,
    requested: list[_RequestedGroup],
    shards: list[Outcome[GroupCoordinatorShard] | ErrorCode],
) -> OffsetFetchResponse:
    known: list[Outcome[GroupCoordinatorShard] | ErrorCode] = []
    for shard in shards:
        try:
            known.append(await shard if isinstance(shard, asyncio.Future) else shard)
        except KafkaError as error:
            known.append(error.code)
    return _respond(broker, version, request, requested, known)


def _respond(
    broker: BrokerServer,
    version: int,
    request: OffsetFetchRequest,
    requested: list[_RequestedGroup],
    shards: list[Outcome[GroupCoordinatorShard] | ErrorCode],
) -> OffsetFetchResponse:
    by_id = version >= _TOPIC_IDS_FROM_VERSION
    answers = []
    for group, shard in zip(requested, shards, strict=True):
        if isinstance(shard, GroupCoordinatorShard):
            lookup = _Lookup(broker.image, shard, group.group_id, by_id, request.require_stable)
            answers.append(lookup.answer(group.topics))
        else:
            error = shard if isinstance(shard, ErrorCode) else ErrorCode.UNKNOWN_SERVER_ERROR
            if error == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                error = ErrorCode.NOT_COORDINATOR
            answers.append(_GroupResult(group_id=group.group_id, topics=[], error_code=error))
    if version >= _GROUPS_FROM_VERSION:
        return OffsetFetchResponse(groups=answers)
    return _flat(requested[0], answers[0], version)


class _Lookup:
    """The committed offsets of one group."""

    __slots__ = ("by_id", "group_id", "image", "require_stable", "shard")

    def __init__(
        self, image: MetadataImage, shard: GroupCoordinatorShard, group_id: str, by_id: bool, require_stable: bool
    ) -> None:
        self.image = image
        self.shard = shard
        self.group_id = group_id
        self.by_id = by_id
        self.require_stable = require_stable

    def answer(self, topics: list[_RequestedGroup.Topic] | None) -> _GroupResult:
        found = self._everything() if topics is None else [self._topic(topic) for topic in topics]
        if self.by_id:
            found.sort(key=lambda topic: self.image.topic_by_id(topic.topic_id) is None)
        return _GroupResult(group_id=self.group_id, topics=found)

    def _topic(self, requested: _RequestedGroup.Topic) -> _Topic:
        topic = self.image.topic_by_id(requested.topic_id) if self.by_id else self.image.topic(requested.name)
        indexes = requested.partition_indexes
        if topic is None and self.by_id:
            partitions = [_none(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in indexes]
        else:
            name, topic_id = (requested.name, ZERO_UUID) if topic is None else (topic.name, topic.topic_id)
            partitions = [self._partition(name, topic_id, index) for index in indexes]
        return _Topic(name=requested.name, topic_id=requested.topic_id, partitions=partitions)

    def _everything(self) -> list[_Topic]:
        topics = []
        for name, committed in self.shard.offsets.of_group(self.group_id).items():
            topic = self.image.topic(name)
            topic_id = ZERO_UUID if topic is None else topic.topic_id
            indexes = [index for index, offset in committed.items() if offset.is_of(topic_id)]
            if indexes and not (self.by_id and topic is None):
                partitions = [self._partition(name, topic_id, index) for index in indexes]
                topics.append(_Topic(name=name, topic_id=topic_id, partitions=partitions))
        return topics

    def _partition(self, topic: str, topic_id: bytes, index: int) -> _Partition:
        if self.require_stable and self.shard.offsets.is_pending((self.group_id, topic, index)):
            return _none(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self.shard.fetch(self.group_id, topic, topic_id, index)
        return _none(index, ErrorCode.NONE) if committed is None else _some(index, committed)


def _some(index: int, committed: Committed) -> _Partition:
    return _Partition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _none(index: int, error: ErrorCode) -> _Partition:
    return _Partition(partition_index=index, committed_offset=-1, metadata="", error_code=error)


def _flat(requested: _RequestedGroup, answer: _GroupResult, version: int) -> OffsetFetchResponse:
    """Return the response for one group in the layout of versions below 8."""
    topics = answer.topics
    if answer.error_code != ErrorCode.NONE and version < _TOP_LEVEL_ERROR_FROM_VERSION:
        error = ErrorCode(answer.error_code)
        topics = [
            _Topic(name=topic.name, partitions=[_none(index, error) for index in topic.partition_indexes])
            for topic in requested.topics or []
        ]
    flat = OffsetFetchResponse.Topic
    return OffsetFetchResponse(
        error_code=answer.error_code,
        topics=[
            flat(
                name=topic.name,
                partitions=[
                    flat.Partition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in topics
        ],
    )
