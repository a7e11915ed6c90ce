"""The segments of one log in offset order; the last one is the active segment (Kafka: `LogSegments`, `LocalLog`).

The list is never empty. Each segment ends where the next begins, so bisecting the base offsets finds the segment of any
offset. Log start, high watermark and epochs belong to `log.py`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import EIO
from itertools import islice
from operator import attrgetter

from protocol.checksum import crc32c
from storage.disk import Disk, File, out_of_space, reason
from storage.log.config import LogConfig
from storage.log.file_slice import MAX_OFFSET, FileSlice
from storage.log.producer_state import CompletedTxn
from storage.log.record_search import TimestampOffset
from storage.log.segment import MAX_RELATIVE_OFFSET, LogSegment
from storage.log.segment_truncation import prepare_truncation
from storage.log.transaction_index import AbortedTxn
from storage.steps import Steps

# About 1 ms of work where the end of each index has to be read.
_SEGMENTS_A_STEP = 64


class LogSegments:
    """A log's segments, oldest first."""

    __slots__ = (
        "_aborting", "_bases", "_directory", "_disk", "_no_roll_bytes", "_no_roll_config", "_no_roll_ms",
        "_sealed_bytes", "_segments", "active",
    )  # fmt: skip

    _bases: list[int]
    _no_roll_bytes: int
    _no_roll_config: LogConfig | None
    _no_roll_ms: int
    _sealed_bytes: int
    _segments: list[LogSegment]

    def __init__(self, disk: Disk, directory: str, segments: list[LogSegment]) -> None:
        """Use the segments of `directory`, the last of which is ready for appending."""
        self._disk = disk
        self._directory = directory
        self._aborting: list[LogSegment] | None = None  # those with aborted transactions; None: not known yet
        self._set(segments)

    @property
    def all(self) -> list[LogSegment]:
        """Every segment, oldest first; not to be changed."""
        return self._segments

    @property
    def base_offsets(self) -> list[int]:
        """The base offset of each segment; not to be changed."""
        return self._bases

    @property
    def size_bytes(self) -> int:
        """The size of all batches in bytes."""
        return self._sealed_bytes + self.active.size_bytes

    def read(self, offset: int, max_bytes: int, limit_offset: int, min_one: bool) -> FileSlice | None:
        """Return complete batches of one segment from the one that holds `offset`, all ending below `limit_offset`.

        None if there are none; otherwise as `LogSegment.read`.
        """
        segments, bases = self._segments, self._bases
        number = bisect_right(bases, offset) - 1
        while number < len(segments):
            segment = segments[number]
            number += 1
            following = bases[number] if number < len(segments) else MAX_OFFSET
            end, end_offset = segment.size_bytes, following
            if limit_offset < following:
                end, end_offset = segment.position_of(limit_offset), limit_offset
            found = segment.read(offset, max_bytes, end, min_one, end_offset)
            if found is not None:
                return found
            if limit_offset <= following:
                return None
        return None

    def aborted(self, start_offset: int, end_offset: int) -> list[AbortedTxn]:
        """Return the aborted transactions with a record or marker from `start_offset` to below `end_offset`."""
        aborting = self._aborting
        if aborting is None:
            aborting = [segment for segment in self._segments if not segment.transaction_index.is_empty]
            self._aborting = aborting
        found: list[AbortedTxn] = []
        first = 0
        if len(aborting) > 1:
            base_offset = self._bases[bisect_right(self._bases, start_offset) - 1]
            first = bisect_left(aborting, base_offset, key=_base_offset)
        for number in range(first, len(aborting)):
            here, complete = aborting[number].transaction_index.find(start_offset, end_offset)
            found += here
            if complete:
                break
        return found

    def index_completed(self, transaction: CompletedTxn) -> None:
        """Add a transaction that the last batch, a marker, has completed to the transaction index if it was aborted."""
        active, aborting = self.active, self._aborting
        active.index_completed(transaction)
        if transaction.aborted and aborting is not None and (not aborting or aborting[-1] is not active):
            aborting.append(active)

    def find_timestamp(self, timestamp: int, from_offset: int) -> Steps[TimestampOffset | None]:
        """Search for the first record at or after `from_offset` with at least this timestamp."""
        for number, segment in enumerate(self._each(from_offset), 1):
            if segment.max_timestamp[0] >= timestamp:
                found = yield from segment.find_timestamp(timestamp, from_offset)
                if found is not None:
                    return found
            if number % _SEGMENTS_A_STEP == 0:
                yield None
        return None

    def find_max_timestamp(self) -> Steps[TimestampOffset | None]:
        """Search for the first record with the largest timestamp."""
        for number, segment in enumerate(self._each(self._bases[0]), 1):
            _max_timestamp(segment)  # cached by the segment
            if number % _SEGMENTS_A_STEP == 0:
                yield None
        return (yield from max(self._segments, key=_max_timestamp).find_max_timestamp())

    def _each(self, offset: int) -> Iterator[LogSegment]:
        """Yield the segments from the one that holds `offset` on, each looked up when the iterator reaches it.

        The list may change in between: retention removes segments, and compaction replaces several by one.
        """
        following = [offset]
        while following:
            number = max(bisect_right(self._bases, following[0]) - 1, 0)
            following = self._bases[number + 1 : number + 2]
            yield self._segments[number]

    def must_roll(self, config: LogConfig, size: int, last_offset: int, timestamp: int, now_ms: int) -> bool:
        """Return whether the active segment is too full or too old to append `size` bytes up to `last_offset`."""
        active = self.active
        filled = active.size_bytes
        # Negative: the active segment begins after a large gap, and the append that it was created for failed.
        if not 0 <= last_offset - active.base_offset <= MAX_RELATIVE_OFFSET:
            return True
        if filled + size <= self._no_roll_bytes and timestamp <= self._no_roll_ms and config is self._no_roll_config:
            return False
        if not filled:
            return False
        longest_ms = config.segment_ms - (config.segment_jitter_ms and self._jitter_ms(config))
        entries_left = active.index_entries_left(config.segment_index_bytes)
        if filled + size > config.segment_bytes or active.age_ms(now_ms, timestamp) > longest_ms or entries_left < 0:
            return True
        if active.first_timestamp >= 0:
            self._no_roll_bytes = min(config.segment_bytes, filled + entries_left * config.index_interval_bytes)
            self._no_roll_ms = active.first_timestamp + longest_ms
            self._no_roll_config = config
        return False

    def _jitter_ms(self, config: LogConfig) -> int:
        """Return a jitter that spreads the rolls of partitions created together; the same at each start."""
        bound = min(config.segment_jitter_ms, config.segment_ms)
        return crc32c(self._directory.encode()) % bound if bound > 0 else 0

    def roll(self, base_offset: int, now_ms: int, *, full: bool = False) -> None:
        """Seal the active segment and begin a new one at `base_offset`; an empty active segment is replaced.

        `full`: the disk is full and the caller deletes the sealed segment next, so its indexes may stay incomplete.
        """
        active = self.active
        try:
            active.seal()
        except OSError as error:
            if not (full and out_of_space(error)):
                raise
        created = LogSegment.create(self._disk, self._directory, base_offset, now_ms)
        if active.size_bytes:
            self._set([*self._segments, created])
            return
        self._set([*self._segments[:-1], created])
        if active.base_offset != base_offset:
            with must_complete("an empty segment stays"):
                active.remove()

    def prepare_truncation(self, offset: int, index_interval_bytes: int) -> None:
        """Read what `truncate_to` needs before anything changes; raise KafkaError if that cannot be read."""
        prepare_truncation(self._holding(offset), offset, index_interval_bytes)

    def truncate_to(self, offset: int) -> int:
        """Drop every batch that ends at or after `offset`, and return the end of the last one left.

        `offset` is not below the first segment's base offset.
        """
        segment = self._holding(offset)
        # Last segment first, so that a crash in between leaves no gap.
        while self._segments[-1] is not segment:
            self._segments[-1].remove()
            self._set(self._segments[:-1])
        self._aborting = None
        return segment.truncate_to(offset)

    def _holding(self, offset: int) -> LogSegment:
        return self._segments[bisect_right(self._bases, offset) - 1]

    def remove_first(self, count: int) -> list[str]:
        """Remove the oldest segments, never the active one; return their renamed files for a later deletion."""
        paths = _mark_deleted(self._segments[:count])
        self._set(self._segments[count:])
        return paths

    def move_to(self, directory: str) -> None:
        """Use the files in `directory`, to which they have been moved."""
        self._directory = directory
        self._no_roll_config = None
        for segment in self._segments:
            segment.move_to(directory)

    def replace(self, old: Sequence[LogSegment], made: LogSegment) -> list[str]:
        """Replace the adjacent segments `old` by `made`; return their renamed files for a later deletion."""
        # First segment first: after a crash in between, some dropped batches may be left, but no value without the
        # tombstone that deletes it.
        paths = _mark_deleted(old)
        at = bisect_left(self._bases, old[0].base_offset)
        # Not `_set`, which examines every segment: a pass over a log replaces thousands. The active segment stays.
        self._segments = [*self._segments[:at], made, *self._segments[at + len(old) :]]
        self._bases[at : at + len(old)] = [made.base_offset]
        self._sealed_bytes += made.size_bytes - sum(segment.size_bytes for segment in old)
        self._aborting = None
        return paths

    def take_unsynced(self, start_offset: int, end_offset: int) -> list[File]:
        """Return the files to sync for the offsets from `start_offset` to below `end_offset` to be durable."""
        first = max(bisect_right(self._bases, start_offset) - 1, 0)
        # A sealed last segment may have truncated indexes to sync, even if it has no batch any more.
        last = (bisect_right if self.active.unsynced_indexes else bisect_left)(self._bases, end_offset)
        return take_unsynced(self._disk, self._segments[first:last])

    def release(self) -> None:
        """Free the memory and close the files of the sealed segments; their next use loads them again."""
        for segment in self._segments[:-1]:
            segment.release()

    def close_files(self) -> None:
        """Close every file, though the log may be referenced for long, for example by idle fetch sessions."""
        for segment in self._segments:
            segment.close_file()

    def _set(self, segments: list[LogSegment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self._sealed_bytes = sum(segment.size_bytes for segment in segments) - self.active.size_bytes
        # `must_roll` returns False without further checks up to this size and this timestamp.
        self._no_roll_bytes = self._no_roll_ms = 0
        self._no_roll_config = None
        self._aborting = None


@contextmanager
def must_complete(state: str) -> Iterator[None]:
    """Raise any OSError within as EIO: it takes the directory offline, even if the disk is only full.

    `state` describes the files' state for the message; the next start repairs it.
    """
    try:
        yield
    except OSError as error:
        raise OSError(EIO, f"{state}: {reason(error)}") from error


def _mark_deleted(segments: Sequence[LogSegment]) -> list[str]:
    """Rename the files of segments, in order, and return their paths; raise OSError, or EIO once a file is renamed."""
    steps = (path for segment in segments for path in segment.mark_deleted())
    paths = [*islice(steps, 1)]
    with must_complete("some files of a segment are renamed, others not"):
        return paths + list(steps)


def take_unsynced(disk: Disk, segments: Sequence[LogSegment]) -> list[File]:
    """Return the files of `segments` to sync, and count their indexes as taken; raise OSError with none taken."""
    indexes = [index for segment in segments for index in segment.unsynced_indexes]
    files = [*(segment.file for segment in segments), *(disk.open_file(index.path) for index in indexes)]
    for index in indexes:
        index.unsynced = False
    return files


_base_offset = attrgetter("base_offset")


def _max_timestamp(segment: LogSegment) -> int:
    return segment.max_timestamp[0]
