"""Everything a broker returns about a topic's only partition; equal for all brokers with the same files."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from protocol.api import ApiKey
from protocol.messages.describe_producers import DescribeProducersRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from protocol.record_batch import iter_batches
from tests.raw_client import RawClient

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


class Aborted(NamedTuple):
    """An aborted transaction in a read_committed Fetch response."""

    producer_id: int
    first_offset: int


class Reported(NamedTuple):
    """All that requests return about the content of a partition."""

    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    batches: bytes
    aborted: dict[int, tuple[int, set[Aborted]]]
    """By fetch offset: the end of the read, and the aborted transactions in it."""
    offsets: dict[int, tuple[int, int]]
    """By requested timestamp: timestamp and offset of the record."""
    epochs: dict[int, tuple[int, int]]
    """By requested leader epoch: the largest epoch not after it, and its end offset."""
    producers: dict[int, tuple[int, ...]]
    """By producer id: epoch, last sequence and timestamp, coordinator epoch, start offset of its transaction."""


def wait_for_leaders(bootstrap: str, topics: Iterable[str], timeout_s: float = 60) -> None:
    """Return once a newly started broker leads all partitions."""
    client, deadline, wanted = RawClient(bootstrap), time.monotonic() + timeout_s, list(topics)
    while wanted:
        try:
            _offset(client, wanted[-1], LATEST)
            wanted.pop()
        except LookupError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    client.close()


def query(bootstrap: str, topic: str) -> Reported:
    """Send a broker every request about a topic."""
    client = RawClient(bootstrap)
    offset, batches = _offset(client, topic, EARLIEST)[1], b""
    while (found := _fetch(client, topic, offset)).records:
        batches += bytes(found.records)
        [*_, (_, last)] = iter_batches(batches)
        offset = last.next_offset
    headers = [header for _, header in iter_batches(batches)]
    times = {time for header in headers for time in (header.base_timestamp, header.max_timestamp + 1)}
    stable = found.last_stable_offset
    starts = [max(header.base_offset, found.log_start_offset) for header in headers]
    reported = Reported(
        found.log_start_offset,
        found.high_watermark,
        stable,
        batches,
        {offset: _aborted_from(client, topic, offset) for offset in starts if offset < stable},
        {time: _offset(client, topic, time) for time in (LATEST, EARLIEST, MAX_TIMESTAMP, *times)},
        {epoch: _epoch_end(client, topic, epoch) for epoch in {header.partition_leader_epoch for header in headers}},
        _producers(client, topic),
    )
    client.close()
    return reported


def _fetch(client: RawClient, topic: str, offset: int, *, max_bytes: int = 1 << 26, committed: bool = False) -> Any:
    wanted = FetchRequest.Topic
    part = wanted.Partition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    answer = client.call(
        ApiKey.FETCH,
        12,
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=int(committed),
        topics=[wanted(topic=topic, partitions=[part])],
    )
    return _of_the_partition(answer.responses[0].partitions)


def _aborted_from(client: RawClient, topic: str, offset: int) -> tuple[int, set[Aborted]]:
    """Read at least one batch with read_committed, up to about a kilobyte; drop transactions that start after it."""
    found = _fetch(client, topic, offset, max_bytes=1024, committed=True)
    [first, *_] = iter_batches(found.records)
    end = first[1].next_offset
    reported = {Aborted(one.producer_id, one.first_offset) for one in found.aborted_transactions}
    return end, {one for one in reported if one.first_offset < end}


def _offset(client: RawClient, topic: str, timestamp: int) -> tuple[int, int]:
    wanted = ListOffsetsRequest.Topic
    part = wanted.Partition(partition_index=0, timestamp=timestamp)
    answer = client.call(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=[wanted(name=topic, partitions=[part])])
    found = _of_the_partition(answer.topics[0].partitions)
    return found.timestamp, found.offset


def _epoch_end(client: RawClient, topic: str, epoch: int) -> tuple[int, int]:
    wanted = OffsetForLeaderEpochRequest.Topic
    part = wanted.Partition(partition=0, leader_epoch=epoch)
    answer = client.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, topics=[wanted(topic=topic, partitions=[part])])
    found = _of_the_partition(answer.topics[0].partitions)
    return found.leader_epoch, found.end_offset


def _producers(client: RawClient, topic: str) -> dict[int, tuple[int, ...]]:
    wanted = DescribeProducersRequest.Topic
    answer = client.call(ApiKey.DESCRIBE_PRODUCERS, 0, topics=[wanted(name=topic, partition_indexes=[0])])
    return {
        one.producer_id: (
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.coordinator_epoch,
            one.current_txn_start_offset,
        )
        for one in _of_the_partition(answer.topics[0].partitions).active_producers
    }


def _of_the_partition(answers: list[Any]) -> Any:
    [found] = answers
    if found.error_code:
        raise LookupError(f"error {found.error_code}")
    return found
