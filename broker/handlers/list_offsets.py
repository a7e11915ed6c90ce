"""ListOffsets: find offsets by timestamp, or the ends of a partition.

Behaviour
- A timestamp >= 0 finds the first record with at least that timestamp; offset -1 if there is none below the limit of
  the reader: the high watermark, or the last stable offset for read_committed.
- Negative timestamps: -1 that limit itself, -2 the log start, -3 the record with the largest timestamp, -4 the local
  log start, -5 the last tiered offset, -6 the earliest offset pending upload. There is no tiered storage: -4 is -2, and
  -5 and -6 find nothing. Any other value, and one newer than the request's version, is UNSUPPORTED_VERSION.
- A partition that is named twice is INVALID_REQUEST, and has one result.
- A search through many records is a cooperative task (`broker.runtime.cooperative`).

Version notes
- 2 added the isolation level, 4 leader epochs (KIP-320), 7 the timestamp -3, 8 -4, 9 -5, 11 -6.
- 5 added OFFSET_NOT_AVAILABLE, for a new leader whose high watermark is not yet known (KIP-207); below, it is
  LEADER_NOT_AVAILABLE.
- 10 added a timeout (KIP-1075): a search that takes longer is REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeAlias

from broker.broker_server import BrokerServer
from broker.network.connection import RequestContext
from broker.replication.partition import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    Isolation,
)
from broker.runtime.cooperative import start_steps
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from storage.steps import Steps, checked

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

_ENDS_A_STEP = 16

_Found = ListOffsetsResponse.Topic.Partition
_Wanted: TypeAlias = ListOffsetsRequest.Topic.Partition


def handle(
    broker: BrokerServer, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Find each partition's offset."""
    return start_steps(_look_up(broker, context.api_version, request), broker.loop)


def _look_up(broker: BrokerServer, version: int, request: ListOffsetsRequest) -> Steps[ListOffsetsResponse]:
    deadline = broker.loop.time() + request.timeout_ms / 1000 if request.timeout_ms > 0 else float("inf")

    def check_timeout() -> None:
        if broker.loop.time() >= deadline:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    requested: dict[str, dict[int, _Wanted]] = {}
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        partitions = requested.setdefault(topic.name, {})
        for wanted in topic.partitions:
            if wanted.partition_index in partitions:
                twice.add((topic.name, wanted.partition_index))
            partitions[wanted.partition_index] = wanted
    topics = []
    looked_up = 0
    for name, partitions in requested.items():
        found = []
        for wanted in partitions.values():
            try:
                if (name, wanted.partition_index) in twice:
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                search = _find(broker, version, request, name, wanted)
                found.append((yield from checked(search, check_timeout)))
            except KafkaError as error:
                code = error.code
                if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < _NOT_AVAILABLE_FROM_VERSION:
                    code = ErrorCode.LEADER_NOT_AVAILABLE
                found.append(_Found(partition_index=wanted.partition_index, error_code=code))
            # The ends of a log are in memory; a search reads indexes and a batch.
            searched = wanted.timestamp >= 0 or wanted.timestamp == MAX_TIMESTAMP
            looked_up += _ENDS_A_STEP if searched else 1
            if looked_up >= _ENDS_A_STEP:
                looked_up = 0
                yield None
        topics.append(ListOffsetsResponse.Topic(name=name, partitions=found))
    return ListOffsetsResponse(topics=topics)


def _find(
    broker: BrokerServer, version: int, request: ListOffsetsRequest, topic: str, wanted: _Wanted
) -> Steps[_Found]:
    if wanted.timestamp < 0 and version < _SINCE_VERSION.get(wanted.timestamp, version + 1):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    isolation = Isolation.LOG_END
    if request.replica_id == _CONSUMER:
        committed = request.isolation_level == Isolation.READ_COMMITTED
        isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
    partition = broker.replicas.partition(topic, wanted.partition_index)
    found = yield from partition.find_offset(
        wanted.timestamp, isolation, wanted.current_leader_epoch, leader_only=request.replica_id != _DEBUGGER
    )
    answer = _Found(partition_index=wanted.partition_index, timestamp=found.timestamp, offset=found.offset)
    if version >= _LEADER_EPOCH_FROM_VERSION:
        answer.leader_epoch = found.leader_epoch
    return answer
