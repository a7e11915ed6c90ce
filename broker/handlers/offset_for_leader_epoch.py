"""OffsetForLeaderEpoch: the end offset of a leader epoch (KIP-101, KIP-320).

Behaviour
- Returns the largest epoch that is at most the requested one, and its end offset; -1 and -1 if the requested epoch is
  newer than all known ones. A consumer compares it with its position to detect a truncation.
- FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH if the request has another current leader epoch.
"""

from __future__ import annotations

from broker.broker_server import BrokerServer
from broker.network.connection import RequestContext
from protocol.errors import KafkaError
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

_End = OffsetForLeaderEpochResponse.Topic.Partition


def handle(
    broker: BrokerServer, _context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Return the end offset of each partition's epoch."""

    def find(topic: str, wanted: OffsetForLeaderEpochRequest.Topic.Partition) -> _End:
        try:
            partition = broker.replicas.partition(topic, wanted.partition)
            epoch, end = partition.end_offset_for_epoch(wanted.leader_epoch, wanted.current_leader_epoch)
        except KafkaError as error:
            return _End(partition=wanted.partition, error_code=error.code)
        return _End(partition=wanted.partition, leader_epoch=epoch, end_offset=end)

    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.Topic(
                topic=topic.topic, partitions=[find(topic.topic, wanted) for wanted in topic.partitions]
            )
            for topic in request.topics
        ]
    )
