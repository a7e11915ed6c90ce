"""The segments of one log in the order of their offsets; the last is the one being appended to.

The list is never empty. Each segment ends where the next begins, so whatever an offset asks for is found by
bisecting the base offsets. What the offsets mean (log start, high watermark, epochs) is `log.py`'s.
"""

from bisect import bisect_left, bisect_right

from protocol.checksum import crc32c
from storage.disk import Disk, File
from storage.log_config import LogConfig
from storage.search import Search
from storage.segment import FileSlice, Segment, TimestampOffset

_MAX_OFFSET = 2**63 - 1
_MAX_RELATIVE_OFFSET = 2**31 - 1
# About a millisecond's work, where the end of an index has to be read of each.
_SEGMENTS_A_STEP = 64


class Segments:
    """A log's segments, oldest first."""

    __slots__ = ("_bases", "_directory", "_disk", "_segments", "active")

    def __init__(self, disk: Disk, directory: str, segments: list[Segment]) -> None:
        """Take over the segments of `directory`, the last of them ready for appending."""
        self._disk = disk
        self._directory = directory
        self._set(segments)

    @property
    def all(self) -> list[Segment]:
        """Every segment, oldest first; not to be changed."""
        return self._segments

    @property
    def base_offsets(self) -> list[int]:
        """Where each segment begins; not to be changed."""
        return self._bases

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches."""
        return sum(segment.size_bytes for segment in self._segments)

    def read(self, offset: int, max_bytes: int, limit_offset: int, min_one: bool) -> FileSlice | None:
        """Return whole batches of one segment from the one that holds `offset`, all ending below `limit_offset`.

        None if there are none; otherwise as `Segment.read`.
        """
        segments, bases = self._segments, self._bases
        number = bisect_right(bases, offset) - 1
        while number < len(segments):
            segment = segments[number]
            number += 1
            following = bases[number] if number < len(segments) else _MAX_OFFSET
            end = segment.size_bytes if limit_offset >= following else segment.position_of(limit_offset)
            found = segment.read(offset, max_bytes, end, min_one)
            if found is not None:
                return found
            if limit_offset <= following:
                return None
        return None

    def find_timestamp(self, timestamp: int, from_offset: int) -> Search[TimestampOffset | None]:
        """Find the first record at or after `from_offset` with at least this timestamp."""
        for number, segment in enumerate(self._segments[max(bisect_right(self._bases, from_offset) - 1, 0) :], 1):
            if number % _SEGMENTS_A_STEP == 0:
                yield None
            # Others run between the steps: what retention has taken away meanwhile is passed over.
            if segment.base_offset >= self._bases[0] and segment.max_timestamp[0] >= timestamp:
                found = yield from segment.find_timestamp(timestamp, from_offset)
                if found is not None:
                    return found
        return None

    def find_max_timestamp(self) -> Search[TimestampOffset | None]:
        """Find the first record with the largest timestamp of all."""
        for number, segment in enumerate(self._segments, 1):
            if number % _SEGMENTS_A_STEP == 0:
                yield None
            if segment.base_offset >= self._bases[0]:
                _max_timestamp(segment)  # is remembered
        return (yield from max(self._segments, key=_max_timestamp).find_max_timestamp())

    def must_roll(self, config: LogConfig, size: int, last_offset: int, timestamp: int, now_ms: int) -> bool:
        """Tell whether the active segment is too full or too old to take `size` bytes up to `last_offset`."""
        active = self.active
        filled = active.size_bytes
        return last_offset - active.base_offset > _MAX_RELATIVE_OFFSET or (
            filled != 0
            and (
                filled + size > config.segment_bytes
                or active.waited_ms(now_ms, timestamp)
                > config.segment_ms - (config.segment_jitter_ms and self._jitter_ms(config))
                or active.indexes_full(config.segment_index_bytes)
            )
        )

    def _jitter_ms(self, config: LogConfig) -> int:
        """Spread the rolls of partitions that were made together, the same way at each start."""
        bound = min(config.segment_jitter_ms, config.segment_ms)
        return crc32c(self._directory.encode()) % bound if bound > 0 else 0

    def roll(self, base_offset: int, now_ms: int) -> None:
        """Complete the active segment and begin a new one at `base_offset`; an empty one is replaced."""
        active = self.active
        active.seal()
        created = Segment.create(self._disk, self._directory, base_offset, now_ms)
        if active.size_bytes == 0:
            self._segments.pop()
            if active.base_offset != base_offset:
                active.remove()
        self._set([*self._segments, created])

    def truncate_to(self, offset: int) -> int:
        """Drop every batch that ends at or after `offset`, and return where the next one goes.

        `offset` lies behind the first segment's start.
        """
        kept = max(bisect_right(self._bases, offset), 1)
        # From the end backwards, so that a crash amid this leaves no hole.
        for segment in reversed(self._segments[kept:]):
            segment.remove()
        self._set(self._segments[:kept])
        return self.active.truncate_to(offset)

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Drop everything and begin anew at `offset`."""
        for segment in reversed(self._segments):
            segment.remove()
        self._set([Segment.create(self._disk, self._directory, offset, now_ms)])

    def remove_first(self, count: int) -> list[str]:
        """Take the oldest segments out, never the active one; return their renamed files for deletion later."""
        paths = [path for segment in self._segments[:count] for path in segment.mark_deleted()]
        self._set(self._segments[count:])
        return paths

    def move_to(self, directory: str) -> None:
        """Take note that the files lie in `directory` now."""
        self._directory = directory
        for segment in self._segments:
            segment.move_to(directory)

    def take_unsynced(self, start_offset: int, end_offset: int) -> list[File]:
        """Return the files to sync for the offsets from `start_offset` to below `end_offset` to be durable."""
        first = max(bisect_right(self._bases, start_offset) - 1, 0)
        last = bisect_left(self._bases, end_offset)
        return [file for segment in self._segments[first:last] for file in segment.take_unsynced()]

    def release(self) -> None:
        """Let go of what the sealed segments hold in memory and open; they come back at their next use."""
        for segment in self._segments[:-1]:
            segment.release()

    def _set(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]


def _max_timestamp(segment: Segment) -> int:
    return segment.max_timestamp[0]
