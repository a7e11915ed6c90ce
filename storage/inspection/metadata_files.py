"""Checks of the files beside the metadata log: its snapshots, `bootstrap.checkpoint`, `quorum-state`.

A snapshot has the format of a `.log` file, with offsets from 0 on: a header record first, a footer record last.
"""

from collections.abc import Iterator

from protocol.errors import DecodeError, KafkaError
from protocol.record_batch import ControlType, control_type, iter_records
from protocol.records.metadata import TopicRecord, decode_metadata_record
from protocol.records.quorum_state import QuorumStateError, parse_quorum_state
from storage.disk import Disk
from storage.inspection import kinds
from storage.inspection.decoders import decode
from storage.inspection.findings import Finding
from storage.inspection.layouts import BATCH
from storage.inspection.pieces import pieces, read_piece, wrong_records
from storage.log.segment import LOG_SUFFIX


def check_snapshot(disk: Disk, path: str) -> Iterator[Finding]:
    """Yield the findings in a snapshot or in `bootstrap.checkpoint`."""
    file = disk.open_file(path)
    expected, position = 0, 0
    first = last = None
    for piece in pieces(file, disk.file_size(path)):
        position = piece.position
        if piece.header is None:
            name, problem = piece.damage or ("", "")
            yield Finding(path, position + BATCH.field(name).offset, name, problem)
            return
        header = piece.header
        if header.base_offset != expected:
            problem = f"{header.base_offset} instead of {expected}, the end of the previous batch"
            yield Finding(path, position, "base_offset", problem)
        expected = header.next_offset
        epoch_at = BATCH.field("partition_leader_epoch").offset
        if header.partition_leader_epoch != _epoch_of(path):
            problem = f"{header.partition_leader_epoch} instead of {_epoch_of(path)}"
            yield Finding(path, position + epoch_at, "partition_leader_epoch", problem)
        data = read_piece(file, piece)
        wrong = wrong_records(data)
        if wrong is None:
            try:
                for record in iter_records(data):
                    decode("metadata", record, is_control=header.is_control)
                    last = control_type(record.key) if header.is_control else None
                    first = last if record.offset == 0 else first
            except (DecodeError, KafkaError) as error:
                wrong = str(error)
        if wrong is not None:
            yield Finding(path, position + BATCH.size, "records", wrong)
    if first is not ControlType.SNAPSHOT_HEADER:
        yield Finding(path, 0, "records", "snapshot header record is missing")
    if last is not ControlType.SNAPSHOT_FOOTER:
        yield Finding(path, position, "records", "snapshot footer record is missing")


def check_quorum_state(disk: Disk, path: str) -> Iterator[Finding]:
    """Yield the findings in `quorum-state`."""
    try:
        parse_quorum_state(disk.read_file(path).decode(errors="replace"))
    except QuorumStateError as error:
        yield Finding(path, 1, error.field, str(error))


def topic_ids(disk: Disk, directory: str) -> set[bytes]:
    """Return the id of every topic in a metadata log and its snapshots; OSError, DecodeError or KafkaError."""
    found = set()
    for name in disk.list_dir(directory):
        if not (name.endswith(LOG_SUFFIX) or kinds.kind_of(name) is kinds.Kind.SNAPSHOT):
            continue
        path = f"{directory}/{name}"
        file = disk.open_file(path)
        for piece in pieces(file, disk.file_size(path)):
            if piece.header is not None and not piece.header.is_control:
                for record in iter_records(read_piece(file, piece)):
                    decoded = decode_metadata_record(record.value or b"")
                    if isinstance(decoded, TopicRecord):
                        found.add(decoded.topic_id)
    return found


def _epoch_of(path: str) -> int:
    """Return the epoch in a snapshot's name; 0 for `bootstrap.checkpoint`."""
    stem = path.rpartition("/")[2].removesuffix(".checkpoint")
    return int(stem[-10:]) if stem[-10:].isdigit() else 0
