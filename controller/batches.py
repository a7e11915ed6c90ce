"""Entries of the metadata log and contents of snapshots, encoded as record batches.

A batch holds either Raft's control records, whose key has their type, or metadata records in their frames, without
keys. An entry is one batch, so it is either written completely or, after a crash, truncated completely.
"""

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

# Maximum records in one batch of the metadata log, and thus in the result of one command.
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
    """Return whether a record is a control record."""
    return type(record) in _CONTROL_TYPES


def encode_entry(entry: Entry, now_ms: int) -> bytearray:
    """Return the batch of an entry; its records must be all control records or all metadata records."""
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
    """Yield the entries in whole batches; DecodeError or KafkaError if a record cannot be decoded.

    DecodeError also if a batch is damaged or does not start where the previous one ends: the data is unchecked input.
    """
    for header, records in _decode_batches(data):
        yield Entry(header.base_offset, header.partition_leader_epoch, tuple(records))


def decode_batch(batch: memoryview, header: BatchHeader) -> Entry:
    """Return the entry in a batch whose CRC-32C is checked; DecodeError or KafkaError if a record cannot be decoded."""
    return Entry(header.base_offset, header.partition_leader_epoch, tuple(_records(batch, header)))


def decode_records(data: Buffer) -> Iterator[Message]:
    """Yield the records in whole batches, each decoded on demand; errors as `decode_entries`."""
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
        yield header, _records(batch, header)


def _records(batch: memoryview, header: BatchHeader) -> Iterator[Message]:
    return _control_records(batch) if header.is_control else _metadata_records(batch)


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
            raise DecodeError(f"the control record at {record.offset} has an unknown type")
        version = int.from_bytes(record.value[:2], "big")
        yield declared.decode(record.value, version)


def in_batches(records: Iterable[Message], base_offset: int, epoch: int, per_batch: int) -> Iterator[Entry]:
    """Yield metadata records as consecutive entries of at most `per_batch` records."""
    pending: list[Message] = []
    for record in records:
        pending.append(record)
        if len(pending) == per_batch:
            yield Entry(base_offset, epoch, tuple(pending))
            base_offset += len(pending)
            pending = []
    if pending:
        yield Entry(base_offset, epoch, tuple(pending))
