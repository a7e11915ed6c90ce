"""The content of files as rows: what `barnabas log dump` prints (Kafka: `DumpLogSegments`).

A row is a dict of JSON types. Damage does not end the dump: it becomes a row with a `problem`.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from protocol.compression import Compression
from protocol.errors import DecodeError, KafkaError
from protocol.plural import count_of
from protocol.primitives import uuid_text
from protocol.record import Record
from protocol.record_batch import NO_SEQUENCE, BatchHeader, iter_records
from storage.checkpoint import CheckpointError, parse_leader_epochs, parse_offsets, parse_partition_metadata
from storage.disk import Disk, File
from storage.inspection import kinds
from storage.inspection.decoders import decode, raw, text_of
from storage.inspection.kinds import Kind
from storage.inspection.layouts import OFFSET_ENTRY, PRODUCER, SNAPSHOT, TIME_ENTRY, TXN_ENTRY, Layout, unpack
from storage.inspection.pieces import Piece, pieces, read_piece
from storage.log.producer_snapshot import SnapshotError, decode_snapshot
from storage.properties import PropertiesError, parse_properties

Row = dict[str, Any]

_FOREVER = 2**63 - 1
_LAST_CODEC = int(max(Compression))


class DumpFilter(NamedTuple):
    """What to dump: offsets from `start` to below `end`; records by the decoder of that name, or not at all."""

    decoder: str = "raw"
    records: bool = True
    start: int = 0
    end: int = _FOREVER

    def overlaps(self, first: int, last: int) -> bool:
        """Return whether any offset from `first` to `last` is included."""
        return first < self.end and last >= self.start


def rows(disk: Disk, path: str, wanted: DumpFilter) -> Iterator[Row]:
    """Yield the rows of the file at `path`; its name determines its kind. OSError if it cannot be read."""
    kind = kinds.readable_as(path.rpartition("/")[2])
    if kind in (Kind.LOG, Kind.SNAPSHOT):
        file = disk.open_file(path)
        if kind is Kind.SNAPSHOT:
            wanted = wanted._replace(decoder="metadata")
        for piece in pieces(file, disk.file_size(path)):
            yield from _batch(file, piece, wanted)
        return
    reader = _READERS.get(kind) if kind else None
    if reader is None:
        yield {"problem": "not a Kafka file"}
        return
    try:
        for row in reader(disk.read_file(path), path):
            last = row.get("offset", row.get("last_offset"))
            if kind not in _BY_OFFSET or last is None or wanted.overlaps(row.get("first_offset") or last, last):
                yield row
    except (CheckpointError, SnapshotError, PropertiesError, ValueError) as error:
        yield {"problem": str(error)}


def _batch(file: File, piece: Piece, wanted: DumpFilter) -> Iterator[Row]:
    header = piece.header
    if header is None:
        name, problem = piece.damage or ("", "")
        yield {"position": piece.position, "size": piece.size_bytes, "problem": f"{name}: {problem}"}
        return
    if not wanted.overlaps(header.base_offset, header.last_offset):
        return
    row = {"position": piece.position, "size": piece.size_bytes, **describe(header)}
    if wanted.records:
        row["records"] = found = []
        try:
            for number, record in enumerate(iter_records(read_piece(file, piece))):
                if wanted.start <= record.offset < wanted.end:
                    found.append(_record(header, number, record, wanted.decoder))
        except (DecodeError, KafkaError) as error:
            row["problem"] = f"records: {error}"
    yield row


def describe(header: BatchHeader) -> Row:
    """Return the fields of a batch's header, its attributes separately."""
    codec = header.attributes & 7
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "leader_epoch": header.partition_leader_epoch,
        "crc": header.crc,
        "codec": Compression(codec).name.lower() if codec <= _LAST_CODEC else f"unknown {codec}",
        "timestamp_type": "append" if header.log_append_time else "create",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon": header.delete_horizon_ms,
    }


def _record(header: BatchHeader, number: int, record: Record, decoder: str) -> Row:
    try:
        content = decode(decoder, record, is_control=header.is_control)
    except (DecodeError, KafkaError) as error:
        content = {**raw(record), "problem": str(error)}
    sequence = NO_SEQUENCE if header.base_sequence == NO_SEQUENCE else (header.base_sequence + number) & 0x7FFFFFFF
    headers = [{"key": text_of(key), "value": text_of(value)} for key, value in record.headers]
    return {"offset": record.offset, "timestamp": record.timestamp, "sequence": sequence, **content, "headers": headers}


def _entries(layout: Layout, data: bytes, path: str) -> Iterator[Row]:
    """Yield the entries of an index; with offsets in place of relative ones."""
    for at in range(0, len(data) - layout.size + 1, layout.size):
        row: Row = unpack(layout, data, at)
        if "relative_offset" in row:
            row = {"offset": _base_offset(path) + row.pop("relative_offset"), **row}
        yield row
    if len(data) % layout.size:
        yield {"problem": f"{count_of(len(data) % layout.size, 'byte')} of an incomplete entry at the end"}


def _base_offset(path: str) -> int:
    return kinds.base_offset(path.rpartition("/")[2])


def _producers(data: bytes, path: str) -> Iterator[Row]:
    decode_snapshot(data, _base_offset(path))
    return _entries(PRODUCER, data[SNAPSHOT.size :], path)


def _json(data: bytes, _path: str) -> Iterator[Row]:
    content = json.loads(data)
    for name, value in content.items() if isinstance(content, dict) else [("content", content)]:
        yield {"name": name, "value": value}


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


_BY_OFFSET = (Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TXN_INDEX)
_READERS: dict[Kind, Callable[[bytes, str], Iterable[Row]]] = {
    Kind.OFFSET_INDEX: partial(_entries, OFFSET_ENTRY),
    Kind.TIME_INDEX: partial(_entries, TIME_ENTRY),
    Kind.TXN_INDEX: partial(_entries, TXN_ENTRY),
    Kind.PRODUCERS: _producers,
    Kind.OFFSETS: lambda data, path: (
        {"topic": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in parse_offsets(_text(data), path).items()
    ),
    Kind.EPOCHS: lambda data, path: (entry._asdict() for entry in parse_leader_epochs(_text(data), path)),
    Kind.PARTITION: lambda data, path: [
        {"name": "topic_id", "value": uuid_text(parse_partition_metadata(_text(data), path))}
    ],
    Kind.META: lambda data, _: (
        {"name": name, "value": value} for name, (value, _) in parse_properties(_text(data)).items()
    ),
    Kind.QUORUM: _json,
    Kind.CLEAN_STOP: _json,
    Kind.MOVES: lambda data, _: [{"name": "moves", "value": _text(data).strip()}],
}
