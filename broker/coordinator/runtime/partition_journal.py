"""The log of a shard: its partition of the coordinator's topic (Kafka: `PartitionWriter`, `CoordinatorLoader`).

`Journal` is the interface that the coordinator needs; `PartitionJournal` implements it over `ReplicaManager`. An append
completes in one step without awaiting, so the log has a shard's records in the order of its decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from broker.coordinator.runtime.context import ProducerIdAndEpoch
from protocol.compression import Compression
from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import (
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    build_batch,
    crc_matches,
    end_txn_marker,
    iter_batches,
    iter_records,
)
from storage.log.producer_state import COORDINATOR

if TYPE_CHECKING:
    import asyncio

    from broker.coordinator.runtime.context import Record
    from broker.replication.partition import Partition
    from broker.replication.replica_manager import ReplicaManager
    from protocol.record_batch import EndTxnMarker
    from storage.log.producer_state import AppendOrigin

ACKS_ALL = -1


class Stored(NamedTuple):
    """A record read from the log; `producer` is that of its transaction, None outside one."""

    offset: int
    key: bytes
    value: bytes | None
    producer: ProducerIdAndEpoch | None


class Marker(NamedTuple):
    """The marker that ends a producer's transaction."""

    producer: ProducerIdAndEpoch
    committed: bool


Reading: TypeAlias = Generator[Stored | Marker | Callable[[], Any], Any, None]


class Journal(Protocol):
    """The log of one partition, in one leader epoch."""

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""

    def append(
        self, records: list[Record], producer: ProducerIdAndEpoch | None = None, origin: AppendOrigin = COORDINATOR
    ) -> int:
        """Append `records` as one batch and return its base offset; KafkaError if nothing was written.

        With a `producer` the batch belongs to its transaction, which `origin` shows to be verified.
        """

    def append_marker(self, producer: ProducerIdAndEpoch, marker: EndTxnMarker, transaction_version: int) -> int:
        """Append the marker that ends a producer's transaction; return its offset. KafkaError if it was not written."""

    def outcome(self, end_offset: int) -> ErrorCode | None:
        """Return the result for the records below `end_offset`: NONE once committed, None while it is unknown."""

    def await_outcome(self, end_offset: int) -> asyncio.Future[list[ErrorCode]]:
        """Return a future of a list with that one result; REQUEST_TIMED_OUT if it takes too long."""

    def read(self) -> Reading:
        """Yield the partition's records and markers from its start to its end, reading and decompressing little ahead.

        Where a read would wait for the disk it yields a function instead: call it and send its result.
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
        """The offset of the next record."""
        return self._partition.log.log_end_offset

    def append(
        self, records: list[Record], producer: ProducerIdAndEpoch | None = None, origin: AppendOrigin = COORDINATOR
    ) -> int:
        """Append `records` as one batch and return its base offset; KafkaError if nothing was written."""
        producer_id, epoch = producer or (NO_PRODUCER_ID, -1)
        batch = build_batch(
            records,
            timestamp_ms=self._now_ms(),
            compression=self._compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            # As in Kafka, 0 for each batch of a transaction: nothing checks it.
            base_sequence=NO_SEQUENCE if producer is None else 0,
            is_transactional=producer is not None,
        )
        return self._replicas.append(self._partition, memoryview(batch), ACKS_ALL, origin=origin).base_offset

    def append_marker(self, producer: ProducerIdAndEpoch, marker: EndTxnMarker, transaction_version: int) -> int:
        """Append the marker that ends a producer's transaction; return its offset. KafkaError if it was not written."""
        return self._replicas.append_marker(self._partition, *producer, marker, transaction_version).base_offset

    def outcome(self, end_offset: int) -> ErrorCode | None:
        """Return the result for the records below `end_offset`, None while it is unknown."""
        return self._partition.committed(end_offset)

    def await_outcome(self, end_offset: int) -> asyncio.Future[list[ErrorCode]]:
        """Return a future of a list with that one result."""
        return self._replicas.await_commit([(self._partition, end_offset)], self._timeout_ms).as_future()

    def read(self) -> Reading:
        """Yield the partition from its start to its end, `load_bytes` a read, decompressed batch by batch.

        KafkaError CORRUPT_MESSAGE for a damaged batch: serving only part of the committed offsets would be wrong.
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
                        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{log}: the batch at offset {offset} is damaged")
                    yield from _read_batch(batch, header)
                    offset = header.next_offset


def _read_batch(batch: memoryview, header: BatchHeader) -> Iterator[Stored | Marker]:
    producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch) if header.is_transactional else None
    if header.is_control:
        marker = end_txn_marker(batch)
        if marker is not None and producer is not None:
            yield Marker(producer, marker.committed)
        return
    for record in iter_records(batch):
        if record.key is not None:
            yield Stored(record.offset, record.key, record.value, producer)
