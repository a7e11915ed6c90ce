"""A shard's partition of `__consumer_offsets`, as the log that its records go to and come from.

`Journal` is what the coordinator needs of it; `PartitionJournal` is that on top of the replica manager.
Appending is one step without waiting, so that what a shard decides is in the log in the order in which it
was decided.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from protocol.compression import Compression
from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import build_batch, crc_matches, end_txn_marker, iter_batches, iter_records

if TYPE_CHECKING:
    import asyncio

    from broker.coordinator.group.context import Record
    from broker.replication.partition import Partition
    from broker.replication.replica_manager import ReplicaManager

ACKS_ALL = -1


class Stored(NamedTuple):
    """A record as the log has it."""

    offset: int
    key: bytes
    value: bytes | None
    producer_id: int


class Marker(NamedTuple):
    """The end of a producer's transaction."""

    producer_id: int
    committed: bool


Reading: TypeAlias = Generator[Stored | Marker | Callable[[], Any], Any, None]


class Journal(Protocol):
    """One partition, in one leader epoch."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record will have."""

    def append(self, records: list[Record]) -> int:
        """Write `records` as one batch and return its first offset; KafkaError if nothing was written."""

    def outcome(self, end_offset: int) -> ErrorCode | None:
        """Say what became of the records below `end_offset`: NONE if committed, None if that is not known yet."""

    def outcome_later(self, end_offset: int) -> asyncio.Future[list[ErrorCode]]:
        """Give the one outcome once it is known; REQUEST_TIMED_OUT if it takes too long."""

    def read(self) -> Reading:
        """Read the partition from its start to its end; little is read and unpacked ahead of what is asked for.

        A function that comes between the records would wait for the disk: its result is to be sent.
        """


class PartitionJournal:
    """The journal in a partition that this broker leads."""

    def __init__(
        self,
        replicas: ReplicaManager,
        partition: Partition,
        *,
        compression: Compression,
        timeout_ms: int,
        load_bytes: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._replicas = replicas
        self._partition = partition
        self._compression = compression
        self._timeout_ms = timeout_ms
        self._load_bytes = load_bytes
        self._now_ms = now_ms

    @property
    def end_offset(self) -> int:
        """The offset that the next record will have."""
        return self._partition.log.log_end_offset

    def append(self, records: list[Record]) -> int:
        """Write `records` as one batch and return its first offset; KafkaError if nothing was written."""
        batch = build_batch(records, timestamp_ms=self._now_ms(), compression=self._compression)
        return self._replicas.append(self._partition, memoryview(batch), ACKS_ALL).base_offset

    def outcome(self, end_offset: int) -> ErrorCode | None:
        """Say what became of the records below `end_offset`."""
        return self._partition.committed(end_offset)

    def outcome_later(self, end_offset: int) -> asyncio.Future[list[ErrorCode]]:
        """Give the one outcome once it is known."""
        return self._replicas.acknowledged([(self._partition, end_offset)], self._timeout_ms).as_future()

    def read(self) -> Reading:
        """Read the partition from its start to its end, `load_bytes` at a time and a batch at a time unpacked.

        KafkaError CORRUPT_MESSAGE for a damaged batch: half of what groups have committed is not to be served as all.
        """
        log = self._partition.log
        offset, end = log.log_start_offset, log.log_end_offset
        while offset < end:
            slices = log.read(offset, self._load_bytes, limit_offset=end).slices
            if not slices:
                return
            for part in slices:
                data = part.read_nowait(0, part.size_bytes)
                if data is None:
                    data = yield partial(part.read, 0, part.size_bytes)
                for at, header in iter_batches(data):
                    batch = memoryview(data)[at : at + header.size_bytes]
                    follows = header.base_offset >= offset or offset == log.log_start_offset <= header.last_offset
                    if not follows or not crc_matches(batch, header):
                        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{log}: the batch for offset {offset} is damaged")
                    yield from _read_batch(batch, header.producer_id, header.is_control, header.is_transactional)
                    offset = header.next_offset


def _read_batch(
    batch: memoryview, producer_id: int, is_control: bool, is_transactional: bool
) -> Iterator[Stored | Marker]:
    if is_control:
        marker = end_txn_marker(batch)
        if marker is not None:
            yield Marker(producer_id, marker.committed)
        return
    owner = producer_id if is_transactional else -1
    for record in iter_records(batch):
        if record.key is not None:
            yield Stored(record.offset, record.key, record.value, owner)
