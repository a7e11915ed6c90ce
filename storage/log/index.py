"""The sparse indexes of a segment: offset to file position, timestamp to offset (Kafka: `OffsetIndex`, `TimeIndex`).

    .index      8 bytes an entry    int32 offset - base offset of the segment
                                    int32 position of the batch that ends at that offset
    .timeindex  12 bytes an entry   int64 largest timestamp so far
                                    int32 offset - base offset, of the last record of its batch

Both columns of each ascend, whatever timestamps producers send: a time entry is made only for a larger timestamp. An
index in use is its file's bytes in memory, searched by bisection; `release` frees the memory. New entries are written
in blocks of 4 KiB: a crash loses unwritten ones only of segments that `recovery.py` scans. Source: KIP-33
and the files themselves.
"""

from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import ClassVar

from storage.disk import Disk

_SAVE_AT_BYTES = 4096


class SparseIndex:
    """Fixed-size entries in ascending order; the subclass defines their `Struct` and meaning."""

    ENTRY: ClassVar[Struct]

    __slots__ = (
        "_data", "_disk", "_rebuilding", "_saved_bytes", "_tail", "base_offset", "path", "size_bytes", "unsynced",
    )  # fmt: skip

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        """Open the index at `path` as it is on disk; raise FileNotFoundError if there is none."""
        self._disk = disk
        self._saved_bytes = self.size_bytes = disk.file_size(path)
        self._data: bytearray | None = None
        self._tail = b""  # the file's last two entries, while no others were needed
        self.path = path
        self.base_offset = base_offset
        self.unsynced = False  # whether the file has content that no flush has taken yet
        self._rebuilding = False

    @property
    def entry_count(self) -> int:
        """The number of entries, saved or not."""
        return self.size_bytes // self.ENTRY.size

    def entry(self, number: int) -> tuple[int, int]:
        """Return one entry as it is stored."""
        at = number * self.ENTRY.size
        if self._data is not None:
            return self._pair(self._data, at)
        tail = self._tail
        if not tail:
            tail = self._tail = self._read_tail()
        begins = self.size_bytes - len(tail)
        return self._pair(tail, at - begins) if at >= begins else self._pair(self._loaded(), at)

    def _read_tail(self) -> bytes:
        begins = max(self.size_bytes - 2 * self.ENTRY.size, 0)
        return self._disk.open_file(self.path).pread(self.size_bytes - begins, begins)

    def sound(self) -> bool:
        """Return whether the last entry is plausible; preallocated zeros and torn writes are not."""
        count, rest = divmod(self.size_bytes, self.ENTRY.size)
        if rest or not count:
            return not rest
        last = self.entry(count - 1)
        if count == 1:
            return min(last) >= 0
        before = self.entry(count - 2)
        return before[0] < last[0] and before[1] < last[1]

    def save(self) -> None:
        """Write the entries that the file does not have yet; after `rebuild`, replace the content if it differs."""
        data = self._data
        if data is None:
            return
        if self._rebuilding:
            # Sync it even if the content is right: an earlier process may have written it just before it ended.
            self.unsynced = True
            if self._disk.read_file(self.path) != data:
                file = self._disk.open_file(self.path)
                file.pwrite(data, 0)
                file.truncate(len(data))
            self._rebuilding = False
            self._saved_bytes = len(data)
        elif self._saved_bytes < len(data):
            self.unsynced = True
            self._disk.open_file(self.path).pwrite(data[self._saved_bytes :], self._saved_bytes)
            self._saved_bytes = len(data)

    def release(self) -> None:
        """Save, and free the memory; the next use reads the file again."""
        self.save()
        self._data = None

    def load(self) -> None:
        """Read the file, so that adding entries later cannot fail on reading it."""
        self._loaded()

    def rebuild(self) -> None:
        """Clear the index in memory; the file stays unchanged until `save` replaces it, if it differs."""
        self._data, self._tail = bytearray(), b""
        self._rebuilding = True
        self._saved_bytes = self.size_bytes = 0

    def _add(self, first: int, second: int) -> None:
        data = self._data
        if data is None:
            data = self._loaded()
        data += self.ENTRY.pack(first, second)
        self.size_bytes = size = len(data)
        if size - self._saved_bytes >= _SAVE_AT_BYTES and not self._rebuilding:
            # The batch is in the log already: `seal` or the next flush reports the failure.
            with suppress(OSError):
                self.save()

    def _keep(self, count: int) -> None:
        data = self._loaded()
        del data[count * self.ENTRY.size :]
        self.size_bytes = len(data)
        if self._saved_bytes > len(data):
            self.unsynced = True
            self._disk.open_file(self.path).truncate(len(data))
            self._saved_bytes = len(data)

    def _loaded(self) -> bytearray:
        data = self._data
        if data is None:
            data = self._data = bytearray(self._disk.read_file(self.path))
            self._tail = b""
        return data

    def _pair(self, data: bytes | bytearray, at: int = 0) -> tuple[int, int]:
        first, second = self.ENTRY.unpack_from(data, at)
        return first, second

    def _entries_up_to(self, bound: int, column: int) -> int:
        """Return the number of entries with at most `bound` in that column."""
        # `bisect_right` with `_column`, but without a Python call per comparison: every read begins here.
        data, unpack, size = self._loaded(), self.ENTRY.unpack_from, self.ENTRY.size
        low, high = 0, len(data) // size
        while low < high:
            middle = (low + high) >> 1
            if unpack(data, middle * size)[column] > bound:
                high = middle
            else:
                low = middle + 1
        return low

    def _column(self, column: int) -> Callable[[int], int]:
        data, unpack, size = self._loaded(), self.ENTRY.unpack_from, self.ENTRY.size

        def value(number: int) -> int:
            found: int = unpack(data, number * size)[column]
            return found

        return value


class OffsetIndex(SparseIndex):
    """Maps offsets to the positions of batches, about one for each `index.interval.bytes`."""

    ENTRY = Struct(">ii")
    __slots__ = ()

    def append(self, offset: int, position: int) -> None:
        """Add an entry: the batch at `position` ends with `offset`."""
        self._add(offset - self.base_offset, position)

    def lookup(self, offset: int) -> int:
        """Return the position of the last indexed batch that ends at or before `offset`, or 0."""
        data = self._loaded()
        number = self._entries_up_to(offset - self.base_offset, 0)
        return self._pair(data, number * 8 - 8)[1] if number else 0

    def entry_before(self, position: int) -> tuple[int, int]:
        """Return last offset and position of the last indexed batch that is not after `position`; (-1, 0) if none."""
        data = self._loaded()
        number = self._entries_up_to(position, 1)
        if not number:
            return -1, 0
        relative, indexed = self._pair(data, number * 8 - 8)
        return self.base_offset + relative, indexed

    def last_position(self) -> int:
        """Return the last indexed position, or 0."""
        count = self.entry_count
        return self.entry(count - 1)[1] if count else 0

    def last_kept(self, offset: int) -> tuple[int, int] | None:
        """Return last offset and position of the last batch that `truncate_to` would keep; None if there is none."""
        count = self._count_below(offset)
        if not count:
            return None
        relative, position = self.entry(count - 1)
        return self.base_offset + relative, position

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or after `offset`."""
        self._keep(self._count_below(offset))

    def _count_below(self, offset: int) -> int:
        return bisect_left(range(self.entry_count), offset - self.base_offset, key=self._column(0))


class TimeIndex(SparseIndex):
    """Maps each new largest timestamp to the last offset of its batch."""

    ENTRY = Struct(">qi")
    __slots__ = ("_largest",)

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        super().__init__(disk, path, base_offset)
        self._largest: int | None = None  # the last entry's timestamp; None: not read yet

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add the largest timestamp so far and its batch's last offset, unless it is in the index already."""
        largest = self._largest
        if largest is None:
            largest = self._largest = self.last()[0]
        if timestamp > largest:
            self._add(timestamp, offset - self.base_offset)
            self._largest = timestamp

    def rebuild(self) -> None:
        """Start over without an entry."""
        super().rebuild()
        self._largest = None

    def last(self) -> tuple[int, int]:
        """Return the largest timestamp and its batch's last offset; (-1, base offset) if there is none."""
        count = self.entry_count
        if not count:
            return -1, self.base_offset
        timestamp, relative = self.entry(count - 1)
        return timestamp, self.base_offset + relative

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """Return the last entry with at most this timestamp; (-1, base offset) if there is none.

        All batches before the one that holds its offset have smaller timestamps.
        """
        data = self._loaded()
        number = self._entries_up_to(timestamp, 0)
        if not number:
            return -1, self.base_offset
        indexed, relative = self._pair(data, number * 12 - 12)
        return indexed, self.base_offset + relative

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or after `offset`."""
        self._keep(bisect_left(range(self.entry_count), offset - self.base_offset, key=self._column(1)))
        self._largest = None
