"""Startup corruption checks: refuse to start on damage that a crash cannot cause and that recovery would make worse.

- Batches of a format other than version 2: of a later Kafka, or of one before 0.11.
- Two segments with the same offsets, or a missing segment: recovery would truncate or skip records without an error.
  Compaction leaves gaps too: logs that show signs of compaction are exempt.
- A log start offset above the end of a cleanly closed log: recovery would delete the whole log.
- A torn end of a cleanly closed metadata log: topics would be lost with it, and their logs marked stray.

Only data synced before the last shutdown is checked, since a crash can damage the rest. Nothing is written.
"""

from collections.abc import Collection, Container, Sequence

from protocol.errors import KafkaError
from protocol.plural import count_of
from protocol.record_batch import HEADER_BYTES, MAGIC, BatchHeader, read_header
from storage.checkpoint import CheckpointError, TopicPartition, parse_offsets
from storage.disk import Disk, File
from storage.log.batch_scanner import valid_batches
from storage.log.log_checkpoint import LogCheckpoint
from storage.log.names import METADATA_TOPIC, parse_log_name
from storage.log.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    MAX_RELATIVE_OFFSET,
    SWAP_SUFFIX,
    LogSegment,
    segment_path,
)
from storage.log_directory import CLEANED_TO

# The smallest message of format 0. Zeros, as a power cut leaves them, decode as a size of 12 bytes.
_SMALLEST_BYTES = 26
_COMPACTING = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)
_REMEDY = "for details run `barnabas log verify`; for what can be done otherwise, `barnabas log repair`"


class LogRefused(Exception):  # noqa: N818 - a refusal, not a malfunction
    """A start would lose or hide records; the message names the file and the remedy."""


def refuse_newer(error: CheckpointError) -> None:
    """Raise LogRefused if a file has a later version, rather than being damaged."""
    if error.is_newer:
        raise LogRefused(f"{error}: it has a later version; start the broker that wrote it, or restore the file")


def refuse_file(path: str, known: Container[TopicPartition]) -> None:
    """Raise LogRefused if `path` is a file in the place of a `known` log's directory."""
    if parse_log_name(path.rpartition("/")[2]) in known:
        raise LogRefused(f"{path} is a file, but was a log's directory: restore the directory, or move the file away")


def refuse_segments(
    disk: Disk, directory: str, names: Collection[str], bases: Sequence[int], checkpoint: LogCheckpoint, now_ms: int
) -> dict[int, LogSegment]:
    """Raise LogRefused if the segments with base offsets `bases` cannot be those of one log; raise OSError.

    `names` are those in the directory before an unfinished segment swap was completed. Return the segments that were
    examined and have all their files; of these only the last one's file is open.
    """
    examined: dict[int, LogSegment] = {}
    for base, following in zip(bases, [*bases[1:], None], strict=False):
        segment = _segment(disk, directory, base, now_ms)
        if segment is not None:
            examined[base] = segment
        path = segment_path(directory, base, LOG_SUFFIX)
        durable = checkpoint.clean or (following is not None and following <= checkpoint.recovery_point)
        if following is None or not durable:
            _refuse_other_formats(disk, path, segment, durable=durable)
        if following is None:
            continue
        end = None if segment is None or not durable else end_offset(segment)
        if segment is not None:
            segment.close_file()
        next_path = segment_path(directory, following, LOG_SUFFIX)
        if end is not None and end > following:
            raise LogRefused(
                f"{next_path} begins at offset {following}, but {path} ends with {end - 1}: two segments have the same"
                f" offsets; move away the one that does not belong there ({_REMEDY})"
            )
        if (
            end is not None
            and base < end  # only compaction leaves a segment without a batch
            and max(end, checkpoint.log_start_offset) < following
            and not is_compacted(disk, directory, names, bases, checkpoint.compacted)
        ):
            raise LogRefused(
                f"{next_path} begins at offset {following}, but {path} ends with {end - 1}: a segment is missing;"
                f" restore its files ({_REMEDY})"
            )
    return examined


def refuse_log_start(directory: str, end_offset: int, log_start_offset: int) -> None:
    """Raise LogRefused if the checkpointed start of a cleanly closed log is above its end."""
    key = parse_log_name(directory.rpartition("/")[2])
    if end_offset < log_start_offset and key is not None and key[0] != METADATA_TOPIC:
        raise LogRefused(
            f"log-start-offset-checkpoint: {directory} starts at offset {log_start_offset}, but the log ends at"
            f" {end_offset}: correct that line, or remove it to start at the first segment"
        )


def refuse_torn_end(disk: Disk, directory: str) -> None:
    """Raise LogRefused if the last segment of a cleanly closed log does not end in a complete batch; raise OSError."""
    bases = [int(name[:20]) for name in disk.list_dir(directory) if name.endswith(LOG_SUFFIX) and name[:20].isdigit()]
    segment = _segment(disk, directory, max(bases), 0) if bases else None
    if not bases or (segment is not None and end_offset(segment) is not None):
        return
    path, position, offset = segment_path(directory, max(bases), LOG_SUFFIX), 0, max(bases)
    file, size = disk.open_file(path), disk.file_size(path)
    while position < size:
        data = file.pread(HEADER_BYTES, position)
        header = read_header(data) if len(data) == HEADER_BYTES else None
        if header is None or not HEADER_BYTES <= header.size_bytes <= size - position:
            raise LogRefused(
                f"{path} ends in {count_of(size - position, 'byte')} of an incomplete batch, from byte {position} on,"
                f" at offset {offset}, though the last shutdown was clean: restore the file, or truncate it there"
                f" and lose those changes of topics and settings ({_REMEDY})"
            )
        position, offset = position + header.size_bytes, header.next_offset


def _refuse_other_formats(disk: Disk, path: str, segment: LogSegment | None, *, durable: bool) -> None:
    """Raise LogRefused if a segment begins with batches of another format; `segment` is None if a file is missing.

    In a segment that was not synced (not `durable`), one such batch counts as damage, and two in a row as a format.
    """
    file = disk.open_file(path) if segment is None else segment.file
    size = disk.file_size(path) if segment is None else segment.size_bytes
    magic, end = _format_at(file, 0, size)
    if magic == MAGIC or not (durable or _format_at(file, end, size)[0] == magic):
        return
    raise LogRefused(
        f"{path} begins with a batch of format version {magic}; only {MAGIC} is supported: start the broker that wrote"
        f" it, or restore the file ({_REMEDY})"
    )


def _format_at(file: File, position: int, size: int) -> tuple[int, int]:
    """Return the format of the batch at `position`, and its end; the supported format if there is no batch."""
    data = file.pread(HEADER_BYTES, position)
    if len(data) == HEADER_BYTES:
        header = read_header(data)
        if _SMALLEST_BYTES <= header.size_bytes <= size - position:
            return header.magic, position + header.size_bytes
    return MAGIC, position


def _segment(disk: Disk, directory: str, base: int, now_ms: int) -> LogSegment | None:
    """Return a segment as it is on disk; None if one of its files is missing."""
    try:
        return LogSegment(disk, directory, base, now_ms)
    except FileNotFoundError:
        return None


def end_offset(segment: LogSegment) -> int | None:
    """Return the offset after the last batch of a segment; None if only a scan can find its end."""
    try:
        start = segment.offset_index.last_position() if segment.offset_index.sound() else 0
        last = None
        for place in segment.places(start if start < segment.size_bytes else 0):
            last = place
    except (KafkaError, FileNotFoundError):
        return None
    return segment.base_offset if last is None else last.last_offset + 1


def is_compacted(
    disk: Disk, directory: str, names: Collection[str], bases: Sequence[int], known: bool | None = None
) -> bool:
    """Return whether a log shows signs of compaction, which leaves gaps; an unfinished swap counts.

    `known` is whether the data directory's checkpoint lists it; None: read that file.
    """
    if known is None:
        parent, _, name = directory.rpartition("/")
        cleaned = cleaned_offsets(disk, parent)
        known = cleaned is None or parse_log_name(name) in cleaned
    if known:
        return True
    if any(other.endswith(_COMPACTING) and other[:20].isdigit() and int(other[:20]) > bases[0] for other in names):
        return True
    return any(_shows_gaps(disk, directory, base) for base in bases)


def is_loss(disk: Disk, segment: LogSegment, following: int, contiguous_from: int | None) -> bool:
    """Return whether the gap between `segment` and the next one, at `following`, is a loss even in a compacted log.

    Above `contiguous_from` this broker wrote all segments, each from the end of the one before on, unless the distance
    to the first batch exceeds an index's relative offsets. Elsewhere, or if it is None, Kafka may have written them: it
    leaves gaps between the segments of a compacted log, on followers too.
    """
    if contiguous_from is None or following <= contiguous_from:
        return False
    path = segment_path(segment.directory, following, LOG_SUFFIX)
    first = next(valid_batches(disk.open_file(path), disk.file_size(path)), None)
    return first is None or first.last_offset - (end_offset(segment) or 0) <= MAX_RELATIVE_OFFSET


def cleaned_offsets(disk: Disk, directory: str) -> dict[TopicPartition, int] | None:
    """Return the offsets below which the logs of a data directory are compacted; None if the checkpoint is unusable.

    An empty file is what a power cut leaves; a checkpoint without entries has two lines.
    """
    path = f"{directory}/{CLEANED_TO}"
    try:
        text = disk.read_file(path).decode(errors="replace")
        return parse_offsets(text, path) if text else None
    except FileNotFoundError:
        return {}
    except CheckpointError:
        return None


def _shows_gaps(disk: Disk, directory: str, base: int) -> bool:
    """Return whether records are missing inside a segment."""
    before: BatchHeader | None = None
    try:
        for _, header in LogSegment(disk, directory, base, 0).headers(0):
            if header.record_count != header.last_offset_delta + 1 or header.delete_horizon_ms is not None:
                return True
            if header.base_offset != (base if before is None else before.next_offset):
                return True
            before = header
    except (KafkaError, FileNotFoundError):
        return False
    return False
