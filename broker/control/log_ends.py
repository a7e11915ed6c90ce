"""The ends of partitions' logs on any broker: of those led here at once, of others by ListOffsets to their leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.replication.partition import EARLIEST, LATEST
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer

TopicPartition: TypeAlias = tuple[str, int]

_CONSUMER = -1
_REQUEST_TIMEOUT_MS = 5_000


class LogEnds(NamedTuple):
    """The first offset of a partition, and the end of its committed records."""

    start: int
    end: int


async def log_ends(broker: BrokerServer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogEnds]:
    """Return the ends of `partitions`; those without a leader that responds are left out."""
    found: dict[TopicPartition, LogEnds] = {}
    remote: dict[int, list[TopicPartition]] = {}
    for topic, index in partitions:
        replica = broker.replicas.find_named(topic, index)
        if replica is not None and replica.is_leader:
            found[topic, index] = LogEnds(replica.log.log_start_offset, replica.high_watermark)
        elif (state := broker.image.partition(topic, index)) is not None and state.leader >= 0:
            remote.setdefault(state.leader, []).append((topic, index))
    answers = await asyncio.gather(*(_ends_at(broker, leader, some) for leader, some in remote.items()))
    for answer in answers:
        found.update(answer)
    return found


async def _ends_at(
    broker: BrokerServer, leader: int, partitions: list[TopicPartition]
) -> Mapping[TopicPartition, LogEnds]:
    client = broker.node_clients.broker(leader, may_be_idle=True)
    try:
        starts, ends = await asyncio.gather(
            *(
                client.call(_request(partitions, timestamp), timeout_ms=_REQUEST_TIMEOUT_MS)
                for timestamp in (EARLIEST, LATEST)
            )
        )
    finally:
        client.close()
    if not (isinstance(starts, ListOffsetsResponse) and isinstance(ends, ListOffsetsResponse)):
        return {}
    first, last = _offsets(starts), _offsets(ends)
    return {one: LogEnds(first[one], last[one]) for one in partitions if one in first and one in last}


def _request(partitions: list[TopicPartition], timestamp: int) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsRequest.Topic.Partition]] = {}
    for topic, index in partitions:
        wanted = ListOffsetsRequest.Topic.Partition(partition_index=index, timestamp=timestamp)
        topics.setdefault(topic, []).append(wanted)
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        topics=[ListOffsetsRequest.Topic(name=name, partitions=some) for name, some in topics.items()],
        timeout_ms=_REQUEST_TIMEOUT_MS,
    )


def _offsets(response: ListOffsetsResponse) -> dict[TopicPartition, int]:
    return {
        (topic.name, one.partition_index): one.offset
        for topic in response.topics
        for one in topic.partitions
        if one.error_code == ErrorCode.NONE
    }
