"""The first record of a batch that is late enough: what a search by timestamp ends with.

Which batch to look into is told by the indexes (`segment.py`). A batch that is small and not compressed is read at
once; to read or unpack another may take long, so that is left to whoever carries the search through (`steps.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from protocol.record_batch import HEADER_BYTES, NO_TIMESTAMP, read_header, unpack
from protocol.record_scan import scan_unpacked
from storage.disk import File
from storage.log.file_slice import FileSlice
from storage.steps import Search

_RECORDS_A_STEP = 1024  # about a millisecond's work
_PLACES_A_STEP = 512  # the same
_QUICK_BYTES = 16 * 1024  # of a batch, to be read at once; what has to be unpacked may become any size


class Place(NamedTuple):
    """Where a batch lies, and what finding it needs."""

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
) -> Search[TimestampOffset | None]:
    """Find the first such record in the batches at `places`, which are looked at one after another."""
    for number, place in enumerate(places, 1):
        if number % _PLACES_A_STEP == 0:
            yield None
        if place.max_timestamp >= timestamp and place.last_offset >= from_offset:
            found = yield from find_record(file, place.position, timestamp, from_offset)
            if found is not None:
                return found
    return None


def find_record(file: File, position: int, timestamp: int, from_offset: int) -> Search[TimestampOffset | None]:
    """Find the first such record in the batch at `position`; the file is kept open, whatever becomes of its name."""
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
