"""ListOffsets: where a partition's records of a time begin, or its ends are.

Behaviour
- A timestamp from 0 on asks for the first record that is not older; offset -1 if there is none below what
  the asker may see: the high watermark, or the last stable offset for readers of committed records only.
- Negative ones stand for: -1 that limit itself, -2 the log's start, -3 the record with the largest
  timestamp, -4 the start of what lies on this broker's own disk, -5 and -6 what is in tiered storage, and
  not yet. Without tiers -4 is -2, and -5 and -6 find nothing. Any other is UNSUPPORTED_VERSION, and so is
  one that the request's version is too old for.
- A partition named twice is INVALID_REQUEST, and answered once.

Version notes
- 2 brought the isolation level, 4 leader epochs (KIP-320), 7 the timestamp -3, 8 -4, 9 -5, 11 -6.
- 5 brought OFFSET_NOT_AVAILABLE, for a leader that does not yet know what its predecessor committed
  (KIP-207); LEADER_NOT_AVAILABLE before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.partition import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    Isolation,
)
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.connection import RequestContext

_CONSUMER = -1
_DEBUGGER = -2
_SINCE_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_LEADER_EPOCH_FROM_VERSION = 4
_NOT_AVAILABLE_FROM_VERSION = 5

_Found = ListOffsetsResponse.Topic.Partition


def handle(broker: Broker, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Look up each partition's offset."""
    version = context.api_version
    isolation = Isolation.LOG_END
    if request.replica_id == _CONSUMER:
        committed = request.isolation_level == Isolation.READ_COMMITTED
        isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
    leader_only = request.replica_id != _DEBUGGER
    asked: dict[str, dict[int, ListOffsetsRequest.Topic.Partition]] = {}
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        partitions = asked.setdefault(topic.name, {})
        for wanted in topic.partitions:
            if wanted.partition_index in partitions:
                twice.add((topic.name, wanted.partition_index))
            partitions[wanted.partition_index] = wanted

    def find(topic: str, wanted: ListOffsetsRequest.Topic.Partition) -> _Found:
        try:
            if (topic, wanted.partition_index) in twice:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            if wanted.timestamp < 0 and version < _SINCE_VERSION.get(wanted.timestamp, version + 1):
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            partition = broker.replicas.partition(topic, wanted.partition_index)
            found = partition.find_offset(wanted.timestamp, isolation, wanted.current_leader_epoch, leader_only)
        except KafkaError as error:
            code = error.code
            if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < _NOT_AVAILABLE_FROM_VERSION:
                code = ErrorCode.LEADER_NOT_AVAILABLE
            return _Found(partition_index=wanted.partition_index, error_code=code)
        answer = _Found(partition_index=wanted.partition_index, timestamp=found.timestamp, offset=found.offset)
        if version >= _LEADER_EPOCH_FROM_VERSION:
            answer.leader_epoch = found.leader_epoch
        return answer

    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.Topic(name=name, partitions=[find(name, wanted) for wanted in partitions.values()])
            for name, partitions in asked.items()
        ]
    )
