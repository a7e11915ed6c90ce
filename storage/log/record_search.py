"""The last step of a search by timestamp: the first record of a batch with at least that timestamp.

`segment.py` finds the batch by the indexes. A small, uncompressed batch is read at once. Reading a large batch, or
decompressing one, may take long: the search yields it as a step (`steps.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from protocol.record_batch import HEADER_BYTES, NO_TIMESTAMP, read_header, unpack
from protocol.record_scan import scan_unpacked
from storage.disk import File
from storage.log.file_slice import FileSlice
from storage.steps import Steps

_RECORDS_A_STEP = 1024  # about 1 ms of work
_PLACES_A_STEP = 512  # about 1 ms of work
_QUICK_BYTES = 16 * 1024  # uncompressed batches up to this size are read at once


class Place(NamedTuple):
    """The position of a batch, and what a search needs of its header."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp: int


def largest_timestamp(base_timestamp: int) -> int:
    """Return the largest timestamp of a batch whose header has 0, which librdkafka writes without timestamps."""
    return NO_TIMESTAMP if base_timestamp == NO_TIMESTAMP else 0


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


def find_first_record(
    file: File, places: Iterable[Place], timestamp: int, from_offset: int
) -> Steps[TimestampOffset | None]:
    """Search the batches at `places`, in order, for the first record that `find_record` finds."""
    for number, place in enumerate(places, 1):
        if number % _PLACES_A_STEP == 0:
            yield None
        if place.max_timestamp >= timestamp and place.last_offset >= from_offset:
            found = yield from find_record(file, place.position, timestamp, from_offset)
            if found is not None:
                return found
    return None


def find_record(file: File, position: int, timestamp: int, from_offset: int) -> Steps[TimestampOffset | None]:
    """Search the batch at `position` for the first record from `from_offset` on with at least `timestamp`.

    `file` stays open even if it is renamed or deleted meanwhile.
    """
    header = read_header(file.pread(HEADER_BYTES, position))
    if header.log_append_time:
        return TimestampOffset(
            header.max_timestamp, max(header.base_offset, from_offset), header.partition_leader_epoch
        )
    batch = FileSlice(file, position, header.size_bytes)

    def read() -> bytes:
        return unpack(batch.read(0, batch.size_bytes), header)

    quick = batch.size_bytes <= _QUICK_BYTES and not header.is_compressed
    data: bytes = read() if quick else (yield read)
    for number, (offset, found, _) in enumerate(scan_unpacked(header, data), 1):
        if found >= timestamp and offset >= from_offset:
            return TimestampOffset(found, offset, header.partition_leader_epoch)
        if number % _RECORDS_A_STEP == 0:
            yield None
    return None
