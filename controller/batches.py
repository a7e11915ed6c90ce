"""Entries of the metadata log, and the contents of its snapshots, as record batches.

A batch holds either control records, Raft's own, or metadata records in their frames; the former have their kind in the
key, the latter no key at all. An entry is one batch, so that it is written whole or, after a crash, cut off whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.raft.log import Entry
from protocol.errors import DecodeError
from protocol.primitives import Buffer
from protocol.record_batch import (
    BatchHeader,
    ControlType,
    build_batch,
    control_record_key,
    control_type,
    crc_matches,
    iter_batches,
    iter_records,
)
from protocol.records.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from protocol.records.metadata import decode_metadata_record, encode_metadata_record
from protocol.schema import Message

# What one batch of the metadata log holds at most; of one request, what one decision may.
MAX_RECORDS_PER_BATCH = 10_000

_CONTROL_RECORDS: dict[ControlType, type[Message]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}
_CONTROL_TYPES = {record: kind for kind, record in _CONTROL_RECORDS.items()}


def is_control(record: Message) -> bool:
    """Say whether a record is Raft's own."""
    return type(record) in _CONTROL_TYPES


def encode_entry(entry: Entry, now_ms: int) -> bytearray:
    """Return an entry's batch; its records are all control records or none."""
    if is_control(entry.records[0]):
        return build_batch(
            [(control_record_key(_CONTROL_TYPES[type(record)]), record.encode(0)) for record in entry.records],
            base_offset=entry.base_offset,
            leader_epoch=entry.epoch,
            timestamp_ms=now_ms,
            is_control=True,
        )
    return build_batch(
        [(None, encode_metadata_record(record)) for record in entry.records],
        base_offset=entry.base_offset,
        leader_epoch=entry.epoch,
        timestamp_ms=now_ms,
    )


def decode_entries(data: Buffer) -> Iterator[Entry]:
    """Yield the entries in whole batches; DecodeError or KafkaError if a record cannot be understood.

    DecodeError too if a batch is damaged, or not where the one before ends: nobody else has read it yet.
    """
    for header, records in _decode_batches(data):
        yield Entry(header.base_offset, header.partition_leader_epoch, tuple(records))


def decode_records(data: Buffer) -> Iterator[Message]:
    """Yield the records in whole batches, each decoded when it is asked for; errors as `decode_entries`."""
    for _, records in _decode_batches(data):
        yield from records


def _decode_batches(data: Buffer) -> Iterator[tuple[BatchHeader, Iterator[Message]]]:
    view = memoryview(data)
    next_offset: int | None = None
    for at, header in iter_batches(data):
        batch = view[at : at + header.size_bytes]
        if not crc_matches(batch, header):
            raise DecodeError(f"the batch at offset {header.base_offset} does not match its CRC-32C")
        if next_offset not in (None, header.base_offset):
            raise DecodeError(f"a batch with offset {header.base_offset} instead of {next_offset}")
        next_offset = header.next_offset
        yield header, _control_records(batch) if header.is_control else _metadata_records(batch)


def _metadata_records(batch: memoryview) -> Iterator[Message]:
    for record in iter_records(batch):
        if record.value is None:
            raise DecodeError(f"the metadata record at {record.offset} has no value")
        yield decode_metadata_record(record.value)


def _control_records(batch: memoryview) -> Iterator[Message]:
    for record in iter_records(batch):
        kind = control_type(record.key)
        declared = None if kind is None else _CONTROL_RECORDS.get(kind)
        if declared is None or record.value is None:
            raise DecodeError(f"the control record at {record.offset} is of an unknown kind")
        version = int.from_bytes(record.value[:2], "big")
        yield declared.decode(record.value, version)


def in_batches(records: Iterable[Message], base_offset: int, epoch: int, per_batch: int) -> Iterator[Entry]:
    """Yield metadata records as entries of at most `per_batch` records, one behind the other."""
    pending: list[Message] = []
    for record in records:
        pending.append(record)
        if len(pending) == per_batch:
            yield Entry(base_offset, epoch, tuple(pending))
            base_offset += len(pending)
            pending = []
    if pending:
        yield Entry(base_offset, epoch, tuple(pending))
