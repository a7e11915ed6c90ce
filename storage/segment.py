"""One segment of a log: a `.log` file of whole record batches, with its two sparse indexes.

A segment is named for its base offset, 20 digits. Appending is one positioned write at the tracked size, so a failed
write can be cut off again; an index entry is made once more than `index.interval.bytes` lie behind the last one,
as Apache Kafka makes them. The batches behind the last entry of the segment being appended to are remembered in
memory (the tail), which is where nearly all reads are: these find their position without touching the disk. Any
other lookup bisects the offset index and walks the headers of at most one interval.

Files are opened at their first use and dropped by `release`, so idle partitions cost no descriptors. Scanning a
damaged file belongs to `recovery.py`; which segments there are belongs to `log.py`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from errno import EIO
from struct import Struct
from typing import NamedTuple

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import HEADER_BYTES, NO_TIMESTAMP, BatchHeader, read_header, unpack
from protocol.record_scan import scan_unpacked
from storage.disk import Buffer, Disk, File
from storage.index import OffsetIndex, TimeIndex
from storage.search import Search

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SEGMENT_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
DELETED_SUFFIX = ".deleted"

LENGTH_COVERS_FROM = 12

_WALK_BYTES = 4096
# About a millisecond's work each.
_PLACES_A_STEP = 512
_RECORDS_A_STEP = 1024
_QUICK_BYTES = 16 * 1024  # of a batch, to be read at once; what has to be unpacked may become any size
_NO_TAIL = 2**63 - 1
_LENGTH = Struct(">8xi")
_PLACE = Struct(">q15xiqq")


def _largest_timestamp(base_timestamp: int) -> int:
    """Return what a header means that says 0: librdkafka says so of records that have no timestamps."""
    return NO_TIMESTAMP if base_timestamp == NO_TIMESTAMP else 0


class FileSlice:
    """Whole batches in a file, read when they are sent; keeps the file alive after its segment is gone."""

    __slots__ = ("file", "position", "size_bytes")

    def __init__(self, file: File, position: int, size_bytes: int) -> None:
        self.file = file
        self.position = position
        self.size_bytes = size_bytes

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` within the slice; OSError if the disk does not give them."""
        data = self.file.pread(size, self.position + offset)
        if len(data) != size:
            raise OSError(EIO, f"{len(data)} of {size} bytes read", self.file.path)
        return data

    def read_nowait(self, offset: int, size: int) -> Buffer | None:
        """Return what `read` would, or None if that would wait for the disk."""
        return self.file.pread_nowait(size, self.position + offset)


class LogRead(NamedTuple):
    """Whole batches found by a read: none, or one slice of one segment."""

    slices: list[FileSlice]
    size_bytes: int


class Place(NamedTuple):
    """Where a batch lies, and what finding it needs."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp: int


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    """Return the name of a segment's file: the base offset in 20 digits."""
    return f"{directory}/{base_offset:020d}{suffix}"


class Segment:
    """Batches from `base_offset` on, the first `size_bytes` of a file."""

    __slots__ = (
        "_created_ms", "_disk", "_file", "_first_timestamp", "_indexed_position", "_max_timestamp", "_sealed",
        "_tail_from", "_tail_last_offsets", "_tail_positions",
        "base_offset", "directory", "offset_index", "size_bytes", "time_index",
    )  # fmt: skip

    def __init__(self, disk: Disk, directory: str, base_offset: int, now_ms: int) -> None:
        """Take the segment as it is on disk, for reading; FileNotFoundError if one of its files is missing."""
        self._disk = disk
        self._file: File | None = None
        self._created_ms = now_ms
        self._first_timestamp: int | None = None
        self._max_timestamp: tuple[int, int] | None = None
        self._indexed_position = 0
        self._sealed = True
        self._tail_from = _NO_TAIL
        self._tail_last_offsets: list[int] = []
        self._tail_positions: list[int] = []
        self.directory = directory
        self.base_offset = base_offset
        self.size_bytes = disk.file_size(segment_path(directory, base_offset, LOG_SUFFIX))
        self.offset_index = OffsetIndex(disk, segment_path(directory, base_offset, OFFSET_INDEX_SUFFIX), base_offset)
        self.time_index = TimeIndex(disk, segment_path(directory, base_offset, TIME_INDEX_SUFFIX), base_offset)

    @classmethod
    def create(cls, disk: Disk, directory: str, base_offset: int, now_ms: int) -> "Segment":
        """Make an empty segment, in the place of whatever files of its name are there; OSError, with none made."""
        paths = [segment_path(directory, base_offset, suffix) for suffix in SEGMENT_SUFFIXES]
        made = [path for path in paths if not disk.exists(path)]
        try:
            for path in paths:
                disk.open_file(path, create=True).truncate(0)
            segment = cls(disk, directory, base_offset, now_ms)
        except OSError:
            # The log goes on in the segment before, and a restart must not take it to end where this one began.
            for path in made:
                disk.remove(path)
            raise
        segment.start_appending()
        return segment

    @property
    def path(self) -> str:
        """The name of the `.log` file."""
        return segment_path(self.directory, self.base_offset, LOG_SUFFIX)

    @property
    def file(self) -> File:
        """The open `.log` file."""
        file = self._file
        if file is None:
            file = self._file = self._disk.open_file(self.path)
        return file

    # Appending

    def start_appending(self) -> int:
        """Read what follows the last index entry, and return the next offset; before the first append."""
        position = self.offset_index.last_position()
        next_offset = self.base_offset
        self._sealed = False
        self._drop_tail()
        self._indexed_position = position
        self._max_timestamp = self.time_index.last()
        self._first_timestamp = None
        self._tail_from = self.base_offset if position == 0 else _NO_TAIL
        for place in self.places(position):
            self._note(place.position, place.base_offset, place.last_offset, place.max_timestamp)
            next_offset = place.last_offset + 1
        return next_offset

    def append(self, records: Buffer, headers: Iterable[BatchHeader], interval: int) -> None:
        """Write whole batches at the end, and an index entry for each that is `interval` bytes from the last.

        OSError if the disk does not take them. The segment then counts none of them, and what was written lies
        beyond `size_bytes`, for the caller to `cut_back`.
        """
        file = self._file
        if file is None:
            file = self.file
        file.pwrite(records, self.size_bytes)
        for header in headers:
            self.add(header, interval)

    def add(self, header: BatchHeader, interval: int) -> None:
        """Count a batch that lies in the file right behind those that are counted already."""
        position, base_offset = self.size_bytes, header.base_offset
        last_offset = base_offset + header.last_offset_delta
        timestamp = header.max_timestamp or _largest_timestamp(header.base_timestamp)
        self.size_bytes = position + LENGTH_COVERS_FROM + header.batch_length
        if position - self._indexed_position > interval:
            self._indexed_position = position
            self._tail_from = base_offset
            self._tail_last_offsets = [last_offset]
            self._tail_positions = [position]
            largest = self._note_timestamp(position, last_offset, timestamp)
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(*largest)
        else:
            self._note(position, base_offset, last_offset, timestamp)

    def _note(self, position: int, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        if self._tail_from == _NO_TAIL:
            self._tail_from = base_offset
        self._tail_last_offsets.append(last_offset)
        self._tail_positions.append(position)
        self._note_timestamp(position, last_offset, max_timestamp)

    def _note_timestamp(self, position: int, last_offset: int, timestamp: int) -> tuple[int, int]:
        """Take in a batch's largest timestamp; return the segment's, as `max_timestamp` does."""
        if position == 0:
            self._first_timestamp = timestamp
        largest = self._max_timestamp
        if largest is None:
            largest = self.max_timestamp
        if timestamp > largest[0]:
            largest = self._max_timestamp = (timestamp, last_offset)
        return largest

    def _drop_tail(self) -> None:
        self._tail_from = _NO_TAIL
        self._tail_last_offsets.clear()
        self._tail_positions.clear()

    def cut_back(self) -> None:
        """Remove what a failed append left behind the last whole batch: nothing, if the file could not be opened."""
        if self._file is not None:
            self._file.truncate(self.size_bytes)

    def seal(self) -> None:
        """Complete the indexes; nothing is appended until `start_appending`."""
        self.time_index.maybe_append(*self.max_timestamp)
        self.offset_index.save()
        self.time_index.save()
        self._sealed = True
        self._drop_tail()

    def truncate_to(self, offset: int) -> int:
        """Drop every batch that ends at or after `offset`, and return where the next one goes, for appending."""
        position = self.position_of(offset)
        if position < self.size_bytes:
            # A batch that has records before `offset` too goes wholly, and with it these.
            offset = min(offset, self.header_at(position).base_offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        if position < self.size_bytes:
            self.size_bytes = position
            self.cut_back()
        self.start_appending()
        return offset

    def forget_contents(self) -> None:
        """Count nothing as being in the file, for `recovery.py` to add what is whole and then `seal`."""
        self.offset_index.rebuild()
        self.time_index.rebuild()
        self.size_bytes = 0
        self.start_appending()

    # Reading

    def places(self, start: int) -> Iterator[Place]:
        """Yield where each batch lies from `start`, where one begins, to the end."""
        for position, size, chunk, at in self._walk(start):
            base_offset, last_delta, base_timestamp, max_timestamp = _PLACE.unpack_from(chunk, at)
            largest = max_timestamp or _largest_timestamp(base_timestamp)
            yield Place(position, size, base_offset, base_offset + last_delta, largest)

    def headers(self, start: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield the position and header of each batch from `start`, where one begins, to the end."""
        for position, _, chunk, at in self._walk(start):
            yield position, read_header(chunk, at)

    def _walk(self, position: int) -> Iterator[tuple[int, int, bytes, int]]:
        chunk, chunk_at, end, file = b"", position, self.size_bytes, self._file
        while position < end:
            at = position - chunk_at
            if at + HEADER_BYTES > len(chunk):
                file = file or self.file  # the same until the end, even if the segment is deleted meanwhile
                chunk, chunk_at, at = file.pread(min(_WALK_BYTES, end - position), position), position, 0
                if len(chunk) < HEADER_BYTES:
                    raise self._corrupt(position)
            size = _LENGTH.unpack_from(chunk, at)[0] + LENGTH_COVERS_FROM
            if size < HEADER_BYTES or position + size > end:
                raise self._corrupt(position)
            yield position, size, chunk, at
            position += size

    def position_of(self, offset: int) -> int:
        """Return where the first batch that ends at or after `offset` begins, or the size if none does."""
        if offset >= self._tail_from:
            number = bisect_left(self._tail_last_offsets, offset)
            return self._tail_positions[number] if number < len(self._tail_positions) else self.size_bytes
        for position, _, chunk, at in self._walk(self.offset_index.lookup(offset)):
            base_offset, last_delta, _, _ = _PLACE.unpack_from(chunk, at)
            if base_offset + last_delta >= offset:
                return position
        return self.size_bytes

    def read(self, offset: int, max_bytes: int, end: int, min_one: bool) -> FileSlice | None:
        """Return whole batches from the one that holds `offset` up to position `end`, or None if there are none.

        They are at most `max_bytes`, but for a larger first batch if `min_one`; without it the slice may be empty.
        They may be fewer than would fit where telling more exactly needs another look at the disk.
        """
        start = self.position_of(offset)
        if start >= end:
            return None
        if end - start > max_bytes:
            end = self._whole_batches_end(start, start + max_bytes, min_one)
        return FileSlice(self.file, start, end - start)

    def _whole_batches_end(self, start: int, limit: int, min_one: bool) -> int:
        end = start
        indexed = self.offset_index.position_before(limit)
        if indexed > start:
            end = indexed
            if 2 * (indexed - start) >= limit - start:
                return end
        for position, size, _, _ in self._walk(end):
            if position + size > limit and (end > start or not min_one):
                break
            end = position + size
            if end >= limit:
                break
        return end

    def header_at(self, position: int) -> BatchHeader:
        """Return the header of the batch at `position`."""
        return read_header(self.file.pread(HEADER_BYTES, position))

    def batch_at(self, position: int) -> bytes:
        """Return the batch at `position`."""
        size = _LENGTH.unpack(self.file.pread(_LENGTH.size, position))[0] + LENGTH_COVERS_FROM
        return FileSlice(self.file, position, size).read(0, size)

    def indexes_full(self, max_bytes: int) -> bool:
        """Tell whether an index has no room within `max_bytes`; the time index keeps one entry for `seal`."""
        return self.offset_index.size_bytes + 8 > max_bytes or self.time_index.size_bytes + 24 > max_bytes

    # Timestamps

    @property
    def max_timestamp(self) -> tuple[int, int]:
        """The largest timestamp and its batch's last offset; -1 if there is none."""
        found = self._max_timestamp
        if found is None:
            found = self._max_timestamp = self.time_index.last()
        return found

    @property
    def first_timestamp(self) -> int:
        """The first batch's largest timestamp, from which `segment.ms` counts; -1 if there is none."""
        found = self._first_timestamp
        if found is None:
            found = self._first_timestamp = next((place.max_timestamp for place in self.places(0)), NO_TIMESTAMP)
        return found

    def find_timestamp(self, timestamp: int, from_offset: int) -> Search[TimestampOffset | None]:
        """Find the first record at or after `from_offset` with at least this timestamp."""
        file = self.file
        after = max(self.time_index.lookup(timestamp), from_offset)
        for number, place in enumerate(self.places(self.offset_index.lookup(after)), 1):
            if number % _PLACES_A_STEP == 0:
                yield None
            if place.max_timestamp >= timestamp and place.last_offset >= from_offset:
                found = yield from _find_record(file, place.position, timestamp, from_offset)
                if found is not None:
                    return found
        return None

    def find_max_timestamp(self) -> Search[TimestampOffset | None]:
        """Find the first record with the largest timestamp."""
        timestamp, last_offset = self.max_timestamp
        if timestamp < 0:
            return None
        return (yield from _find_record(self.file, self.position_of(last_offset), timestamp, self.base_offset))

    def waited_ms(self, now_ms: int, timestamp: int) -> int:
        """Return how long the segment has been filling when a record of `timestamp` arrives."""
        first = self._first_timestamp
        if first is None:
            first = self.first_timestamp
        return timestamp - first if first >= 0 and self.size_bytes else now_ms - self._created_ms

    def retention_timestamp(self) -> int:
        """Return the largest timestamp, or when the file was last written if records have none."""
        timestamp = self.max_timestamp[0]
        return timestamp if timestamp >= 0 else self._disk.modified_ms(self.path)

    # Files

    @property
    def indexes_unsynced(self) -> bool:
        """Whether indexes that `seal` completed are still to be synced."""
        return self._sealed and (self.offset_index.unsynced or self.time_index.unsynced)

    def take_unsynced(self) -> list[File]:
        """Return the files to sync for the content to be durable.

        The indexes are among them once they are complete: those of the segment that is appended to are made anew after
        a crash in any case.
        """
        if not self._sealed:
            return [self.file]
        return [self.file, *self.offset_index.take_unsynced(), *self.time_index.take_unsynced()]

    def move_to(self, directory: str) -> None:
        """Take note that the files lie in `directory` now."""
        self._file = None
        self.directory = directory
        self.offset_index.path = segment_path(directory, self.base_offset, OFFSET_INDEX_SUFFIX)
        self.time_index.path = segment_path(directory, self.base_offset, TIME_INDEX_SUFFIX)

    def release(self) -> None:
        """Let go of memory and descriptors; a sealed segment only."""
        self._file = None
        self.offset_index.release()
        self.time_index.release()

    def remove(self) -> None:
        """Delete the files; the log's bytes stay readable for whoever holds a slice of them."""
        self._file = None
        for suffix in SEGMENT_SUFFIXES:
            self._disk.remove(segment_path(self.directory, self.base_offset, suffix))

    def mark_deleted(self) -> list[str]:
        """Rename the files out of the log's sight, and return their paths for deletion later."""
        targets = []
        for suffix in SEGMENT_SUFFIXES:
            path = segment_path(self.directory, self.base_offset, suffix)
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED_SUFFIX)
                targets.append(path + DELETED_SUFFIX)
        return targets

    def _corrupt(self, position: int) -> KafkaError:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no record batch at byte {position} of {self.path}")


def _find_record(file: File, position: int, timestamp: int, from_offset: int) -> Search[TimestampOffset | None]:
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
