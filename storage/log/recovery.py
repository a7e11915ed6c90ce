"""Log recovery: after an unclean shutdown, reduce a log's segments to their complete, valid batches.

After a clean shutdown the files are used as they are. After any other, every segment from the recovery point on is
scanned: batches must be complete, with a matching CRC and ascending offsets, all below the next segment's base offset.
At the first invalid batch the segment is truncated; later segments and snapshots are deleted, since nothing after a gap
was acknowledged. They are deleted before the truncation, last one first, so that a crash in between leaves no gap.
The scan rebuilds both indexes and records leader epochs that the checkpoint misses. A segment whose index is missing or
implausible (preallocated zeros, a torn entry) is scanned even after a clean shutdown.

`producer_recovery.py` recovers producer state and transaction indexes. Recovery is idempotent: a crash during recovery
is handled like any other. Kafka: `LogLoader.recoverLog`, `LogSegment.recover`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from protocol.errors import KafkaError
from protocol.plural import count_of
from storage.disk import Disk
from storage.log.batch_scanner import valid_batches
from storage.log.corruption_checks import end_offset, is_compacted, is_loss, refuse_log_start, refuse_segments
from storage.log.leader_epochs import LeaderEpochs
from storage.log.log_checkpoint import LogCheckpoint
from storage.log.producer_snapshot import SNAPSHOT_SUFFIX, snapshot_offsets
from storage.log.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    MAX_RELATIVE_OFFSET,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    LogSegment,
    segment_path,
)
from storage.log.transaction_index import TRANSACTION_INDEX_SUFFIX

_UNFINISHED = (CLEANED_SUFFIX, SWAP_SUFFIX)
_LEFT_OVER = (DELETED_SUFFIX, ".tmp")


class RecoveryReport(NamedTuple):
    """The changes made to a log's files when it was opened; `str()` returns the text for the log line."""

    scanned_bytes: int = 0
    truncated_bytes: int = 0
    removed_segments: int = 0
    rebuilt_segments: int = 0
    first_truncation: str = ""
    """The position of the first truncation: byte and file."""
    damaged: tuple[str, ...] = ()
    """The names of the small files that could not be read."""

    @property
    def changed(self) -> bool:
        """Whether bytes were truncated, or indexes or small files found damaged."""
        return self != RecoveryReport(scanned_bytes=self.scanned_bytes)

    @property
    def lost(self) -> bool:
        """Whether anything was dropped that cannot be rebuilt from the segments."""
        return bool(self.truncated_bytes or self.removed_segments or self.damaged)

    def __str__(self) -> str:
        parts = []
        if self.truncated_bytes:
            parts.append(
                f"{count_of(self.truncated_bytes, 'byte')} truncated, from the first damaged batch on,"
                f" at {self.first_truncation}"
            )
        if self.removed_segments:
            parts.append(f"{count_of(self.removed_segments, 'segment')} removed")
        if self.rebuilt_segments:
            parts.append(f"{count_of(self.rebuilt_segments, 'segment')} scanned, for a missing or implausible index")
        parts += [f"{name} could not be read, and was reset" for name in self.damaged]
        return "; ".join(parts) or f"{count_of(self.scanned_bytes, 'byte')} scanned"


class Recovered(NamedTuple):
    """A log's segments after recovery; the last one is ready for appending."""

    segments: list[LogSegment]
    scanned: list[LogSegment]
    """The segments that were scanned."""
    next_offset: int
    log_start_offset: int
    snapshots: list[int]
    """The offsets of the producer snapshots, ascending."""
    report: RecoveryReport


def recover_segments(
    disk: Disk,
    directory: str,
    names: Sequence[str],
    epochs: LeaderEpochs,
    checkpoint: LogCheckpoint,
    index_interval_bytes: int,
    now_ms: int,
) -> Recovered:
    """Open and repair the segments in `directory`; create the first one if there are none.

    `names` are the names of the files there, sorted; `epochs` is updated to match the log.
    """
    clean, recovery_point, log_start_offset, _, compacted, contiguous_from = checkpoint
    found = names
    if [name for name in names if name.endswith(_UNFINISHED)]:
        from storage.cleaner.swap_recovery import finish_swaps  # seldom needed

        finish_swaps(disk, directory)
        names = disk.list_dir(directory)
    bases = [int(name[:20]) for name in names if name[20:] == LOG_SUFFIX and name[:20].isdigit()]
    examined = refuse_segments(disk, directory, found, bases, checkpoint, now_ms)
    names = _without_leftovers(disk, directory, names)
    segments: list[LogSegment] = []
    scanned: list[LogSegment] = []
    scanned_bytes = truncated = rebuilt = removed = 0
    first_truncation = ""
    next_offset: int | None = None
    for number, base in enumerate(bases):
        following = bases[number + 1] if number + 1 < len(bases) else None
        segment, whole = _open(disk, directory, base, names, examined.get(base), now_ms)
        unflushed = not clean and (following is None or following > recovery_point)
        segments.append(segment)
        if following is None and whole and not unflushed:
            next_offset = _readable_end(segment)
        if not whole or unflushed or (following is None and next_offset is None):
            rebuilt += not unflushed
            scanned.append(segment)
            scanned_bytes += segment.size_bytes
            dropped_bytes = scan(segment, index_interval_bytes, epochs, following, log_start_offset)
            truncated += dropped_bytes
            if dropped_bytes and not first_truncation:
                first_truncation = f"byte {segment.size_bytes} of {base:020}{LOG_SUFFIX}"
            if dropped_bytes and unflushed:
                removed = _remove_after(disk, directory, bases[number:])
            if dropped_bytes:
                segment.truncate_file()
                # Without a sync, a power cut could restore the truncated bytes after batches appended later.
                segment.file.sync()
            segment.seal()
            if (
                unflushed
                and not removed
                and following is not None
                and _ends_early(segment, following)
                and (
                    is_loss(disk, segment, following, contiguous_from)
                    or not is_compacted(disk, directory, names, bases[: number + 1], compacted)
                )
            ):
                removed = _remove_after(disk, directory, bases[number:])
            if removed:
                break
    if next_offset is None:
        next_offset = segments[-1].start_appending() if segments else 0
    if clean and segments:
        refuse_log_start(directory, next_offset, log_start_offset)
    if not segments or next_offset < log_start_offset:
        for segment in segments:
            _remove_segment(disk, directory, segment.base_offset)
        removed += len(segments)
        segments, scanned = [LogSegment.create(disk, directory, log_start_offset, now_ms)], []
        next_offset = log_start_offset
    log_start_offset = max(log_start_offset, segments[0].base_offset)
    if removed:
        disk.sync_dir(directory)
    epochs.truncate_from_start(log_start_offset)
    epochs.truncate_from_end(next_offset)
    if not clean and not any(segment.size_bytes for segment in segments):
        epochs.clear()  # a power cut interrupted a full truncation: the log starts at the last segment
    if not clean:
        _find_first_epochs(segments, epochs, log_start_offset)
    report = RecoveryReport(scanned_bytes, truncated, removed, rebuilt, first_truncation)
    snapshots = snapshot_offsets(disk.list_dir(directory) if removed or truncated else names)
    return Recovered(segments, scanned, next_offset, log_start_offset, snapshots, report)


def scan(
    segment: LogSegment,
    index_interval_bytes: int,
    epochs: LeaderEpochs,
    following: int | None = None,
    log_start_offset: int = 0,
) -> int:
    """Scan and index a segment up to the first invalid batch, or the first that reaches into the `following` segment.

    Return how many bytes are left; the caller then calls `truncate_file` and `seal`.
    """
    file_bytes = segment.size_bytes
    segment.reset()
    next_offset, epoch = segment.base_offset, -1
    end = segment.base_offset + MAX_RELATIVE_OFFSET if following is None else following - 1
    for header in valid_batches(segment.file, file_bytes):
        last_offset = header.last_offset
        # The CRC does not cover base offset and leader epoch: damage is detected only if the value is implausible.
        if header.base_offset < next_offset or last_offset > end or -1 != header.partition_leader_epoch < epoch:
            break
        segment.add(header, index_interval_bytes)
        # Batches below the log start must not replace later epochs.
        if last_offset >= log_start_offset:
            first_offset = max(header.base_offset, log_start_offset)
            epochs.correct(header.partition_leader_epoch, first_offset, last_offset)
        epoch = max(epoch, header.partition_leader_epoch)
        next_offset = last_offset + 1
    return file_bytes - segment.size_bytes


def _find_first_epochs(segments: list[LogSegment], epochs: LeaderEpochs, log_start_offset: int) -> None:
    """Record the epochs of batches whose deletion was not synced and that a power cut restored."""
    known = epochs.entries
    first = known[0].start_offset if known else segments[-1].base_offset
    if log_start_offset >= first:
        return
    epochs.clear()
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else first
        if following <= log_start_offset:
            continue
        if segment.base_offset >= first:
            break
        for _, header in segment.headers(segment.position_of(log_start_offset)):
            if header.base_offset < first:
                start_offset = max(header.base_offset, log_start_offset)
                epochs.correct(header.partition_leader_epoch, start_offset, header.last_offset)
    for entry in known:
        epochs.assign(*entry)


def _open(
    disk: Disk, directory: str, base: int, names: Sequence[str], segment: LogSegment | None, now_ms: int
) -> tuple[LogSegment, bool]:
    """Return a segment, and whether its indexes exist and are plausible.

    `segment` is None if a file other than the transaction index, which is optional, is missing.
    """
    missing = segment is None
    if segment is None:
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            disk.open_file(segment_path(directory, base, suffix), create=True)
        segment = LogSegment(disk, directory, base, now_ms)
    sound = segment.offset_index.sound() and segment.time_index.sound()
    if f"{base:020}{TRANSACTION_INDEX_SUFFIX}" in names:
        sound = sound and segment.transaction_index.sound()
    return segment, sound and not missing and segment.offset_index.last_position() < max(segment.size_bytes, 1)


def _readable_end(segment: LogSegment) -> int | None:
    """Prepare the last segment for appending; return the next offset, or None if its last batch is incomplete."""
    try:
        return segment.start_appending()
    except KafkaError:
        return None


def _ends_early(segment: LogSegment, following: int) -> bool:
    """Return whether a segment ends before the `following` one begins: it was compacted, or its end was lost."""
    end = end_offset(segment)
    return end is not None and end < following


def _remove_after(disk: Disk, directory: str, bases: list[int]) -> int:
    """Remove the segments and snapshots after the first of `bases`; return the number of segments."""
    for later in reversed(bases[1:]):
        _remove_segment(disk, directory, later)
    _remove_snapshots_above(disk, directory, bases[0])
    return len(bases) - 1


def _without_leftovers(disk: Disk, directory: str, names: Sequence[str]) -> Sequence[str]:
    """Remove the files that belong to no segment; return the other names."""
    leftovers = [
        name
        for name in names
        if name.endswith(_LEFT_OVER)
        or (name[20:] in SEGMENT_SUFFIXES and name[:20].isdigit() and name[:20] + LOG_SUFFIX not in names)
    ]
    for name in leftovers:
        disk.remove(f"{directory}/{name}")
    return [name for name in names if name not in leftovers] if leftovers else names


def _remove_snapshots_above(disk: Disk, directory: str, offset: int) -> None:
    for taken_at in reversed(snapshot_offsets(disk.list_dir(directory))):
        if taken_at > offset:
            disk.remove(segment_path(directory, taken_at, SNAPSHOT_SUFFIX))


def _remove_segment(disk: Disk, directory: str, base: int) -> None:
    for suffix in SEGMENT_SUFFIXES:
        disk.remove(segment_path(directory, base, suffix))
