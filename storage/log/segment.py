"""One segment of a log: a `.log` file of complete record batches, with its indexes (Kafka: `LogSegment`).

File names are the base offset in 20 digits. An append is one write at position `size_bytes`, so a failed write can be
truncated. An index entry is added once more than `index.interval.bytes` follow the last one, as in Apache Kafka. Two
things are kept in memory, so that nearly all reads find their position without the disk: the batches after the active
segment's last index entry (the tail), and the offsets at which the last reads ended, where the next ones begin. Any
other lookup bisects the offset index and walks the headers of at most one interval.

Files are opened at their first use and dropped by `release`, so idle partitions use no descriptors. `recovery.py` scans
damaged files; `segments.py` is the list of segments.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from struct import Struct

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import HEADER_BYTES, NO_TIMESTAMP, BatchHeader, HeaderFields, read_header
from storage.disk import Buffer, Disk, File
from storage.log.file_slice import MAX_OFFSET, FileSlice
from storage.log.index import OffsetIndex, SparseIndex, TimeIndex
from storage.log.producer_state import CompletedTxn
from storage.log.record_search import Place, TimestampOffset, find_first_record, find_record, largest_timestamp
from storage.log.transaction_index import TRANSACTION_INDEX_SUFFIX, AbortedTxn, TransactionIndex
from storage.steps import Steps

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
# Every segment has the first three; the last only if a transaction was aborted in it.
REQUIRED_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
SEGMENT_SUFFIXES = (*REQUIRED_SUFFIXES, TRANSACTION_INDEX_SUFFIX)
DELETED_SUFFIX = ".deleted"
# A segment that compaction writes: first incomplete, then complete but not yet in its place (`segment_swap.py`).
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

LENGTH_COVERS_FROM = 12
MAX_RELATIVE_OFFSET = 2**31 - 1
"""The largest difference between a segment's last and base offset: index entries have 4 bytes for it."""

_WALK_BYTES = 4096
_NO_TAIL = 2**63 - 1
_ENDS = 8
_LENGTH = Struct(">8xi")
_PLACE = Struct(">q15xiqq")


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    """Return the path of a segment's file: the base offset in 20 digits, and `suffix`."""
    return f"{directory}/{base_offset:020d}{suffix}"


class LogSegment:
    """Batches from `base_offset` on: the first `size_bytes` of a file."""

    __slots__ = (
        "__weakref__", "_created_ms", "_damage", "_disk", "_ends", "_file", "_first_timestamp", "_indexed_position",
        "_indexes_loaded", "_max_timestamp", "_sealed", "_tail_from", "_tail_last_offsets", "_tail_positions",
        "_transaction_index", "base_offset", "directory", "offset_index", "size_bytes", "suffix", "time_index", "used",
    )  # fmt: skip

    def __init__(self, disk: Disk, directory: str, base_offset: int, now_ms: int, suffix: str = "") -> None:
        """Open the segment as it is on disk, for reading; raise FileNotFoundError if one of its files is missing.

        `suffix` follows the usual file names while the segment is not part of the log.
        """
        self._disk = disk
        # Offset -> position of the batches at which reads ended: the next reads begin there.
        self._ends: dict[int, int] = {}
        self._file: File | None = None
        self._created_ms = now_ms
        # The first offset that a walk from the start cannot reach, and the position of the damaged batch.
        self._damage = (_NO_TAIL, 0)
        self._first_timestamp: int | None = None
        self._max_timestamp: tuple[int, int] | None = None
        self._indexed_position = 0
        self._indexes_loaded = False
        self._sealed = True
        self._tail_from = _NO_TAIL
        self._tail_last_offsets: list[int] = []
        self._tail_positions: list[int] = []
        self._transaction_index: TransactionIndex | None = None
        self.used = False
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        stem = f"{directory}/{base_offset:020d}"
        self.size_bytes = disk.file_size(stem + LOG_SUFFIX + suffix)
        self.offset_index = OffsetIndex(disk, stem + OFFSET_INDEX_SUFFIX + suffix, base_offset)
        self.time_index = TimeIndex(disk, stem + TIME_INDEX_SUFFIX + suffix, base_offset)

    @classmethod
    def create(cls, disk: Disk, directory: str, base_offset: int, now_ms: int, suffix: str = "") -> "LogSegment":
        """Create an empty segment, replacing any files of its name; raise OSError with none created."""
        paths = [segment_path(directory, base_offset, kind) + suffix for kind in REQUIRED_SUFFIXES]
        made = [path for path in paths if not disk.exists(path)]
        try:
            disk.remove(segment_path(directory, base_offset, TRANSACTION_INDEX_SUFFIX) + suffix)
            for path in paths:
                disk.open_file(path, create=True).truncate(0)
            segment = cls(disk, directory, base_offset, now_ms, suffix)
        except OSError:
            # The log continues in the segment before: a file left here would end the log at its base offset after a
            # restart.
            for path in made:
                disk.remove(path)
            raise
        segment.start_appending()
        return segment

    @property
    def path(self) -> str:
        """The path of the `.log` file."""
        return self._path(LOG_SUFFIX)

    def _path(self, kind: str) -> str:
        return segment_path(self.directory, self.base_offset, kind) + self.suffix

    @property
    def file(self) -> File:
        """The open `.log` file."""
        self.used = True
        file = self._file
        if file is None:
            file = self._file = self._disk.open_file(self.path)
            self._disk.open_files.opened(self)
        return file

    def close_file(self) -> None:
        """Drop the file; it is opened again at its next use."""
        self._file = None
        self._disk.open_files.closed(self)

    @property
    def transaction_index(self) -> TransactionIndex:
        """The aborted transactions whose markers are in this segment; opened at its first use."""
        index = self._transaction_index
        if index is None:
            path = self._path(TRANSACTION_INDEX_SUFFIX)
            index = self._transaction_index = TransactionIndex(self._disk, path, self.base_offset)
        return index

    # Appending

    def start_appending(self) -> int:
        """Read the batches after the last index entry, as the first append needs; return the next offset."""
        position, end = self.offset_index.last_position(), self.size_bytes
        self._sealed = self._indexes_loaded = False
        self._drop_tail()
        self._ends.clear()
        self._damage = (_NO_TAIL, 0)
        self._indexed_position = position
        self._max_timestamp = self.time_index.last()
        self._first_timestamp = None
        tail = [header for _, header in self.headers(position)]
        self._tail_from = self.base_offset if position == 0 else tail[0].base_offset if tail else _NO_TAIL
        self.size_bytes = min(position, end)
        for header in tail:
            self.add(header, interval=end)
        return tail[-1].next_offset if tail else self.base_offset

    def append(self, records: Buffer, headers: Iterable[HeaderFields], interval: int) -> None:
        """Write complete batches at the end; index each that is more than `interval` bytes after the last indexed one.

        Raise OSError if the write fails. `size_bytes` is then unchanged; the caller removes the bytes written after it
        with `truncate_file`.
        """
        if not self._indexes_loaded:
            self.offset_index.load()
            self.time_index.load()
            self._indexes_loaded = True
        file = self._file
        if file is None:
            file = self.file
        self.used = True
        file.pwrite(records, self.size_bytes)
        for header in headers:
            self.add(header, interval)

    def add(self, header: HeaderFields, interval: int) -> None:
        """Add the batch that follows in the file to `size_bytes`, the tail and the indexes."""
        # Unpacking is several times as fast as access by name.
        base_offset, length, _, _, _, _, last_delta, base_timestamp, timestamp, _, _, _, _ = header
        position, last_offset = self.size_bytes, base_offset + last_delta
        self.size_bytes = position + LENGTH_COVERS_FROM + length
        timestamp = timestamp or largest_timestamp(base_timestamp)
        if position == 0:
            self._first_timestamp = timestamp
        largest = self._max_timestamp
        if largest is None:
            largest = self.max_timestamp
        if timestamp > largest[0]:
            largest = self._max_timestamp = (timestamp, last_offset)
        if position - self._indexed_position > interval:
            self._indexed_position = position
            self._tail_from = base_offset
            self._tail_last_offsets = [last_offset]
            self._tail_positions = [position]
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(*largest)
        else:
            self._tail_last_offsets.append(last_offset)
            self._tail_positions.append(position)

    def index_completed(self, transaction: CompletedTxn) -> None:
        """Index a transaction whose marker has just been added, if it was aborted; raise OSError."""
        if transaction.aborted:
            producer_id, first, last, _, stable = transaction
            self.transaction_index.append(AbortedTxn(producer_id, first, last, stable))

    def _drop_tail(self) -> None:
        self._tail_from = _NO_TAIL
        self._tail_last_offsets.clear()
        self._tail_positions.clear()

    def truncate_file(self) -> None:
        """Truncate the file to `size_bytes`, after a failed append; do nothing if the file could not be opened."""
        if self._file is not None:
            self._file.truncate(self.size_bytes)

    def seal(self) -> None:
        """Complete and save the indexes; call `start_appending` before the next append."""
        self.time_index.maybe_append(*self.max_timestamp)
        self.offset_index.save()
        self.time_index.save()
        if self._transaction_index is not None:
            self._transaction_index.save()
        self._sealed = True
        self._drop_tail()

    def truncate_to(self, offset: int) -> int:
        """Drop every batch that ends at or after `offset`; return the end of the last one left."""
        position, offset = self.truncation_point(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        if position < self.size_bytes:
            self.size_bytes = position
            self.file.truncate(position)
        return self.start_appending()

    def truncation_point(self, offset: int) -> tuple[int, int]:
        """Return the first offset that a truncation to `offset` drops, and its position in the file."""
        position = self.position_of(offset) if offset > self.base_offset else 0
        if 0 < position < self.size_bytes:
            # A batch is dropped whole, with its records before `offset`.
            offset = min(offset, self.header_at(position).base_offset)
        return position, offset

    def reset(self) -> None:
        """Set the size to 0 and clear the indexes: `recovery.py` then adds the valid batches and calls `seal`.

        The transaction index stays: its content depends on earlier segments too.
        """
        self.offset_index.rebuild()
        self.time_index.rebuild()
        self.size_bytes = 0
        self.start_appending()

    # Reading

    def places(self, start: int) -> Iterator[Place]:
        """Yield the place of each batch from `start`, the position of a batch, to the end."""
        for position, size, chunk, at in self._walk(start):
            base_offset, last_delta, base_timestamp, max_timestamp = _PLACE.unpack_from(chunk, at)
            largest = max_timestamp or largest_timestamp(base_timestamp)
            yield Place(position, size, base_offset, base_offset + last_delta, largest)

    def headers(self, start: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield the position and header of each batch from `start`, the position of a batch, to the end."""
        for position, _, chunk, at in self._walk(start):
            yield position, read_header(chunk, at)

    def _walk(self, position: int) -> Iterator[tuple[int, int, bytes, int]]:
        chunk, chunk_at, end, file = b"", position, self.size_bytes, self._file
        while position < end:
            at = position - chunk_at
            if at + HEADER_BYTES > len(chunk):
                file = file or self.file  # the same file to the end, even if the segment is deleted meanwhile
                chunk, chunk_at, at = file.pread(min(_WALK_BYTES, end - position), position), position, 0
                if len(chunk) < HEADER_BYTES:
                    raise self._corrupt(position)
            size = _LENGTH.unpack_from(chunk, at)[0] + LENGTH_COVERS_FROM
            if size < HEADER_BYTES or position + size > end:
                raise self._corrupt(position)
            yield position, size, chunk, at
            position += size

    def position_of(self, offset: int) -> int:
        """Return the position of the first batch that ends at or after `offset`, or the size if none does."""
        if offset >= self._tail_from:
            number = bisect_left(self._tail_last_offsets, offset)
            return self._tail_positions[number] if number < len(self._tail_positions) else self.size_bytes
        if (known := self._ends.get(offset)) is not None:
            return known
        if 0 < (start := self.offset_index.lookup(offset)) < self.size_bytes:
            # Check the entry: a damaged one points into a batch, or past the offset, and would skip batches silently.
            with suppress(KafkaError):
                position, base_offset = self._first_ending_at(offset, start)
                if position > start or base_offset <= offset:
                    return position
        damaged_from, position = self._damage
        if offset >= damaged_from:
            raise self._corrupt(position)
        return self._first_ending_at(offset, 0)[0]

    def _first_ending_at(self, offset: int, start: int) -> tuple[int, int]:
        position, size, end_offset = start, 0, self.base_offset
        try:
            for position, size, chunk, at in self._walk(start):  # noqa: B007 - used where it fails
                base_offset, last_delta, _, _ = _PLACE.unpack_from(chunk, at)
                if base_offset + last_delta >= offset:
                    return position, base_offset
                end_offset = base_offset + last_delta + 1
        except KafkaError:
            if start == 0:
                self._damage = end_offset, position + size  # spares each retry of a reader the same walk
            raise
        return self.size_bytes, offset

    def read(
        self, offset: int, max_bytes: int, end: int, min_one: bool, end_offset: int = MAX_OFFSET
    ) -> FileSlice | None:
        """Return complete batches from the one that holds `offset` up to position `end`; None if there are none.

        The slice has at most `max_bytes`: with `min_one` at least the first batch, otherwise it may be empty. It may
        have fewer batches than fit if the exact end would take another read from disk. `end_offset` is an offset that
        no batch before `end` reaches.
        """
        start = self.position_of(offset)
        if start >= end:
            return None
        if end - start > max_bytes:
            end, next_offset = self._whole_batches_end(start, start + max_bytes, min_one)
            if next_offset < end_offset:
                end_offset = next_offset
        elif end == self.size_bytes and self._tail_last_offsets:
            self._remember_end(self._tail_last_offsets[-1] + 1, end)
        return FileSlice(self.file, start, end - start, end_offset)

    def _whole_batches_end(self, start: int, limit: int, min_one: bool) -> tuple[int, int]:
        """Return the position at which the batches from `start` end, and an offset that none of them reaches."""
        end, next_offset = start, MAX_OFFSET
        if limit - start > _WALK_BYTES:
            indexed, base_offset = self.indexed_before(limit)
            if indexed > start:
                end, next_offset = indexed, base_offset
            if 2 * (end - start) >= limit - start:
                self._remember_end(next_offset, end)
                return end, next_offset
        try:
            for position, size, chunk, at in self._walk(end):
                base_offset, last_delta, _, _ = _PLACE.unpack_from(chunk, at)
                if position + size > limit and (end > start or not min_one):
                    self._remember_end(base_offset, position)
                    next_offset = base_offset
                    break
                end = position + size
                next_offset = base_offset + last_delta + 1
                if end >= limit:
                    break
        except KafkaError:
            if end == start:
                raise  # otherwise return the batches before the damage; the next read raises
        return end, next_offset

    def indexed_before(self, position: int) -> tuple[int, int]:
        """Return position and base offset of the last indexed batch not after `position`.

        Both are 0 if its entry is damaged or missing.
        """
        last_offset, at = self.offset_index.entry_before(position)
        place = self.file.pread(_PLACE.size, at) if at > 0 else b""
        if len(place) < _PLACE.size:
            return 0, 0
        base_offset, last_delta, _, _ = _PLACE.unpack(place)
        return (at, base_offset) if base_offset + last_delta == last_offset else (0, 0)

    def _remember_end(self, offset: int, position: int) -> None:
        ends = self._ends
        if len(ends) >= _ENDS and offset not in ends:
            del ends[next(iter(ends))]
        ends[offset] = position

    def header_at(self, position: int) -> BatchHeader:
        """Return the header of the batch at `position`."""
        return read_header(self.file.pread(HEADER_BYTES, position))

    def batch_at(self, position: int) -> bytes:
        """Return the batch at `position`."""
        size = _LENGTH.unpack(self.file.pread(_LENGTH.size, position))[0] + LENGTH_COVERS_FROM
        return FileSlice(self.file, position, size).read(0, size)

    def index_entries_left(self, max_bytes: int) -> int:
        """Return how many more entries fit in each index of at most `max_bytes`; negative if one is full.

        An index without room for another entry is full; the time index keeps one more free, for `seal`.
        """
        offsets, times = self.offset_index.size_bytes, self.time_index.size_bytes
        return min((max_bytes - offsets) // 8 - 1, (max_bytes - times) // 12 - 2)

    # Timestamps

    @property
    def max_timestamp(self) -> tuple[int, int]:
        """The largest timestamp and its batch's last offset; -1 if there is none."""
        if self._max_timestamp is None:
            self._max_timestamp = self.time_index.last()
        return self._max_timestamp

    @property
    def first_timestamp(self) -> int:
        """The first batch's largest timestamp, from which `segment.ms` counts; -1 if there is none."""
        found = self._first_timestamp
        if found is None:
            found = self._first_timestamp = next((place.max_timestamp for place in self.places(0)), NO_TIMESTAMP)
        return found

    def find_timestamp(self, timestamp: int, from_offset: int) -> Steps[TimestampOffset | None]:
        """Search for the first record at or after `from_offset` with at least this timestamp."""
        places = self.places(self._search_start(timestamp, from_offset))
        return (yield from find_first_record(self.file, places, timestamp, from_offset))

    def _search_start(self, timestamp: int, from_offset: int) -> int:
        """Return the position of a batch before which no batch from `from_offset` on has a timestamp as large."""
        indexed_timestamp, offset = self.time_index.lookup(timestamp)
        if offset > from_offset:
            position = self.position_of(offset)
            place = next(self.places(position), None)
            # A damaged entry does not match the batch that it points to.
            if place and place.base_offset <= offset and place.max_timestamp == indexed_timestamp:
                return position
        return self.position_of(from_offset)

    def find_max_timestamp(self) -> Steps[TimestampOffset | None]:
        """Search for the first record with the largest timestamp."""
        timestamp, last_offset = self.max_timestamp
        if timestamp < 0:
            return None
        return (yield from find_record(self.file, self.position_of(last_offset), timestamp, self.base_offset))

    def age_ms(self, now_ms: int, timestamp: int) -> int:
        """Return the segment's age, for `segment.ms`, when a record of `timestamp` arrives."""
        first = self._first_timestamp
        if first is None:
            first = self.first_timestamp
        return timestamp - first if first >= 0 and self.size_bytes else now_ms - self._created_ms

    def retention_timestamp(self) -> int:
        """Return the largest timestamp, or the file's last write if records have none, in ms."""
        timestamp = self.max_timestamp[0]
        return timestamp if timestamp >= 0 else self._disk.modified_ms(self.path)

    # Files

    @property
    def unsynced_indexes(self) -> list[SparseIndex | TransactionIndex]:
        """The indexes to sync, once `seal` has completed them; none of the active segment: a crash rebuilds those."""
        indexes = (self.offset_index, self.time_index, self._transaction_index) if self._sealed else ()
        return [index for index in indexes if index is not None and index.unsynced]

    def move_to(self, directory: str) -> None:
        """Use the files in `directory`, to which they have been moved."""
        self.close_file()
        self.directory = directory
        self.offset_index.path = segment_path(directory, self.base_offset, OFFSET_INDEX_SUFFIX)
        self.time_index.path = segment_path(directory, self.base_offset, TIME_INDEX_SUFFIX)
        if self._transaction_index is not None:
            self._transaction_index.path = segment_path(directory, self.base_offset, TRANSACTION_INDEX_SUFFIX)

    def release(self) -> None:
        """Free the memory and file descriptors of a sealed segment."""
        self.close_file()
        self.offset_index.release()
        self.time_index.release()
        if self._transaction_index is not None:
            self._transaction_index.release()

    def remove(self) -> None:
        """Delete the files; slices of them stay readable.

        If the segment is not part of the log, its `.log` file is deleted last: after a crash, indexes without it could
        be taken for those of the segment that it was to replace.
        """
        self.close_file()
        for kind in reversed(SEGMENT_SUFFIXES) if self.suffix else SEGMENT_SUFFIXES:
            self._disk.remove(self._path(kind))

    def mark_deleted(self) -> Iterator[str]:
        """Rename the files to `.deleted`, one per step, and yield the new paths for a later deletion; raise OSError."""
        for kind in SEGMENT_SUFFIXES:
            path = self._path(kind)
            if self._disk.exists(path):
                target = segment_path(self.directory, self.base_offset, kind) + DELETED_SUFFIX
                self._disk.rename(path, target)
                yield target

    def rename(self, suffix: str) -> None:
        """Change the files' suffix to `suffix`; they stay open and in use."""
        before = [self._path(kind) for kind in SEGMENT_SUFFIXES]
        self.suffix = suffix
        for kind, source in zip(SEGMENT_SUFFIXES, before, strict=True):
            if kind in REQUIRED_SUFFIXES or self._disk.exists(source):
                self._disk.rename(source, self._path(kind))
        self.offset_index.path = self._path(OFFSET_INDEX_SUFFIX)
        self.time_index.path = self._path(TIME_INDEX_SUFFIX)
        if self._transaction_index is not None:
            self._transaction_index.path = self._path(TRANSACTION_INDEX_SUFFIX)

    def _corrupt(self, position: int) -> KafkaError:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no record batch at byte {position} of {self.path}")
