"""Whatever a crash left in a log's directory -> segments that hold exactly the whole valid batches.

After a clean stop the files are taken as they are. After any other, every segment from the recovery point on is
read through: batches must be whole, of matching CRC and at rising offsets, all below the next segment's; at the first
that is not, the segment is cut, and later segments and snapshots are deleted, since nothing behind a hole was
acknowledged by this log. They go first, from the end, so that a crash amid it leaves no hole. Both indexes are made
anew on the way, and leader epochs that the checkpoint missed are noted. A segment whose index is missing or
implausible (preallocated zeros, a torn entry) is read through even after a clean stop.

Producer state is the newest sound snapshot plus the batches behind it. A snapshot holds only each producer's
last batch, so a little of the log before it is read again to fill the window of five (beyond Apache Kafka, whose
window is one after a restart). Running this twice gives the same result: a crash amid recovery is a crash like
any other.
"""

from collections.abc import Iterator
from typing import NamedTuple

from protocol.errors import KafkaError
from protocol.record_batch import HEADER_BYTES, MAGIC, BatchHeader, crc_matches, end_txn_marker, read_header
from storage.disk import Disk, File
from storage.leader_epochs import LeaderEpochs
from storage.producer_snapshot import SnapshotError, decode_snapshot
from storage.producer_state import ProducerState
from storage.segment import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    Segment,
    segment_path,
)

SNAPSHOT_SUFFIX = ".snapshot"

_SCAN_BYTES = 1024 * 1024
_REFILL_BYTES = 4 * 1024 * 1024
_MAX_RELATIVE_OFFSET = 2**31 - 1


class RecoveryReport(NamedTuple):
    """What was done to a log's files when it was opened, for the caller to log."""

    scanned_bytes: int = 0
    truncated_bytes: int = 0
    removed_segments: int = 0
    rebuilt_segments: int = 0

    @property
    def changed(self) -> bool:
        """Whether bytes were dropped or indexes found wrong."""
        return self != RecoveryReport(scanned_bytes=self.scanned_bytes)


class Recovered(NamedTuple):
    """A log's parts, fit for use; the last segment is ready for appending."""

    segments: list[Segment]
    next_offset: int
    log_start_offset: int
    report: RecoveryReport


def recover_segments(
    disk: Disk,
    directory: str,
    epochs: LeaderEpochs,
    *,
    clean: bool,
    recovery_point: int,
    log_start_offset: int,
    index_interval_bytes: int,
    now_ms: int,
) -> Recovered:
    """Open the segments in `directory`, making right what is wrong, or make the first if there are none.

    `epochs` is brought in line with what the log holds. `recovery_point` is the offset below which all was synced
    and `log_start_offset` the one below which records were deleted, as far as is known.
    """
    names = set(disk.list_dir(directory))
    _remove_leftovers(disk, directory, names)
    bases = sorted(_offset_of(name) for name in names if name.endswith(LOG_SUFFIX) and _is_offset(name))
    segments: list[Segment] = []
    scanned = truncated = rebuilt = removed = 0
    for number, base in enumerate(bases):
        following = bases[number + 1] if number + 1 < len(bases) else None
        segment, whole = _open(disk, directory, base, names, now_ms)
        unflushed = not clean and (following is None or following > recovery_point)
        segments.append(segment)
        if not whole or unflushed or (following is None and not _readable(segment)):
            rebuilt += not unflushed
            scanned += segment.size_bytes
            cut = scan(segment, index_interval_bytes, epochs, following)
            truncated += cut
            if cut and unflushed:
                for later in reversed(bases[number + 1 :]):
                    _remove_segment(disk, directory, later)
                _remove_snapshots_above(disk, directory, base)
                removed = len(bases) - number - 1
            if cut:
                segment.cut_back()
            segment.seal()
            if removed:
                break
    next_offset = segments[-1].start_appending() if segments else 0
    if not segments or next_offset < log_start_offset:
        for segment in segments:
            _remove_segment(disk, directory, segment.base_offset)
        removed += len(segments)
        segments = [Segment.create(disk, directory, log_start_offset, now_ms)]
        next_offset = log_start_offset
    log_start_offset = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_from_end(next_offset)
    epochs.truncate_from_start(log_start_offset)
    report = RecoveryReport(scanned, truncated, removed, rebuilt)
    return Recovered(segments, next_offset, log_start_offset, report)


def scan(segment: Segment, index_interval_bytes: int, epochs: LeaderEpochs, following: int | None = None) -> int:
    """Read a segment through up to the first byte that is no valid batch, or not before the `following` segment.

    All before it is indexed. Returns how many bytes are left, for the caller to `cut_back`; and he is to `seal` it.
    """
    file_bytes = segment.size_bytes
    segment.forget_contents()
    next_offset = segment.base_offset
    end = segment.base_offset + _MAX_RELATIVE_OFFSET if following is None else following - 1
    for header in valid_batches(segment.file, file_bytes):
        last_offset = header.last_offset
        # The base offset is outside the CRC: a flipped bit shows only in what it says.
        if header.base_offset < next_offset or last_offset > end:
            break
        segment.add(header, index_interval_bytes)
        if header.partition_leader_epoch > (-1 if epochs.latest is None else epochs.latest):
            epochs.assign(header.partition_leader_epoch, header.base_offset)
        next_offset = last_offset + 1
    return file_bytes - segment.size_bytes


def valid_batches(file: File, end: int) -> Iterator[BatchHeader]:
    """Yield the header of each whole batch with a matching CRC, up to the first that is not one."""
    position, wanted = 0, _SCAN_BYTES
    while end - position >= HEADER_BYTES:
        size = min(wanted, end - position)
        chunk = memoryview(file.pread(size, position))
        if len(chunk) < size:
            end = position + len(chunk)
        at, wanted = 0, _SCAN_BYTES
        while len(chunk) - at >= HEADER_BYTES:
            header = read_header(chunk, at)
            size = header.size_bytes
            if header.magic != MAGIC or header.last_offset_delta < 0:
                return
            if size < HEADER_BYTES or size > end - position - at:
                return
            if at + size > len(chunk):
                wanted = max(size, _SCAN_BYTES)
                break
            if not crc_matches(chunk[at : at + size], header):
                return
            yield header
            at += size
        position += at


def recover_producers(
    disk: Disk, directory: str, segments: list[Segment], *, clean: bool, end_offset: int
) -> ProducerState:
    """Return the producers as of `end_offset`, from the newest sound snapshot and the batches behind it.

    Snapshots beyond the end, damaged ones and those that no segment begins with are deleted, but for the newest.
    """
    bases = {segment.base_offset for segment in segments}
    state = None
    damaged = False
    for offset in reversed(snapshot_offsets(disk, directory)):
        path = segment_path(directory, offset, SNAPSHOT_SUFFIX)
        if state is None and offset <= end_offset:
            try:
                state = decode_snapshot(disk.read_file(path), offset)
            except SnapshotError:
                damaged = True
            else:
                continue
        elif offset <= end_offset and offset in bases:
            continue
        disk.remove(path)
    if state is None:
        # A log that was closed in order left one, unless it is empty.
        state = ProducerState(end_offset if clean and not damaged else segments[0].base_offset)
    elif state.producers:
        state.refill(_headers_before(segments, state.end_offset))
    for segment, position, header in _headers_from(segments, state.end_offset):
        marker = end_txn_marker(segment.batch_at(position)) if header.is_control else None
        state.update(header, marker)
    state.end_offset = end_offset
    return state


def _headers_from(segments: list[Segment], offset: int) -> Iterator[tuple[Segment, int, BatchHeader]]:
    for number, segment in enumerate(segments):
        if number + 1 < len(segments) and segments[number + 1].base_offset <= offset:
            continue
        for position, header in segment.headers(segment.position_of(offset)):
            yield segment, position, header


def _headers_before(segments: list[Segment], end_offset: int) -> Iterator[BatchHeader]:
    """Yield the batches of the last few megabytes before `end_offset`."""
    room = _REFILL_BYTES
    starts: list[tuple[Segment, int]] = []
    for segment in reversed(segments):
        if segment.base_offset >= end_offset or room <= 0:
            continue
        end = segment.position_of(end_offset)
        start = segment.offset_index.position_before(end - room) if end > room else 0
        starts.append((segment, start))
        room -= end - start
    for segment, start in reversed(starts):
        for _, header in segment.headers(start):
            if header.base_offset >= end_offset:
                return
            yield header


def snapshot_offsets(disk: Disk, directory: str) -> list[int]:
    """Return the offsets of the producer snapshots in a log's directory, lowest first."""
    return [
        _offset_of(name) for name in disk.list_dir(directory) if name.endswith(SNAPSHOT_SUFFIX) and _is_offset(name)
    ]


def _offset_of(name: str) -> int:
    return int(name[:20])


def _is_offset(name: str) -> bool:
    stem = name.partition(".")[0]
    return len(stem) == 20 and stem.isdigit()


def _open(disk: Disk, directory: str, base: int, names: set[str], now_ms: int) -> tuple[Segment, bool]:
    """Return a segment, and whether both its indexes are there and plausible."""
    missing = False
    for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        path = segment_path(directory, base, suffix)
        if path.rpartition("/")[2] not in names:
            disk.open_file(path, create=True)
            missing = True
    segment = Segment(disk, directory, base, now_ms)
    sound = segment.offset_index.sound() and segment.time_index.sound()
    return segment, sound and not missing and segment.offset_index.last_position() < max(segment.size_bytes, 1)


def _readable(segment: Segment) -> bool:
    """Tell whether the last segment's end is made of batches, as a clean stop leaves it."""
    try:
        segment.start_appending()
    except KafkaError:
        return False
    return True


def _remove_leftovers(disk: Disk, directory: str, names: set[str]) -> None:
    for name in sorted(names):
        stem, dot, suffix = name.partition(".")
        orphan = _is_offset(name) and dot + suffix in SEGMENT_SUFFIXES and stem + LOG_SUFFIX not in names
        if orphan or name.endswith((DELETED_SUFFIX, ".tmp", ".cleaned")):
            disk.remove(f"{directory}/{name}")
            names.discard(name)


def _remove_snapshots_above(disk: Disk, directory: str, offset: int) -> None:
    for taken_at in reversed(snapshot_offsets(disk, directory)):
        if taken_at > offset:
            disk.remove(segment_path(directory, taken_at, SNAPSHOT_SUFFIX))


def _remove_segment(disk: Disk, directory: str, base: int) -> None:
    for suffix in SEGMENT_SUFFIXES:
        disk.remove(segment_path(directory, base, suffix))
