"""What a log's files may be that no crash explains, and that recovery would make worse: a start is refused over it.

- Batches of another format than version 2, be they of a later Kafka or of one before 0.11.
- Two segments with the same offsets, or a segment that is missing between two: recovery would cut one, and serve the
  others as if nothing were amiss. Compaction leaves gaps too: logs that show it have been compacted are left alone.
- A log start behind the end of a log that was closed in order: recovery would delete all of it.
- A torn end of the metadata log that was closed in order: topics would go with it, and their logs be set aside.

Only what was synced before the last stop is looked at, since a crash can do the same to the rest. Nothing is written.
"""

from collections.abc import Collection, Container, Sequence

from protocol.errors import KafkaError
from protocol.plural import count_of
from protocol.record_batch import HEADER_BYTES, MAGIC, BatchHeader, read_header
from storage.checkpoint import CheckpointError, TopicPartition, parse_offsets
from storage.disk import Disk, File
from storage.log.batch_scanner import valid_batches
from storage.log.names import METADATA_TOPIC, parse_log_name
from storage.log.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    MAX_RELATIVE_OFFSET,
    SWAP_SUFFIX,
    Segment,
    segment_path,
)
from storage.log_directory import CLEANED_TO

# Of a message of format 0; zeros, as a power cut leaves them, say that there are 12 bytes.
_SMALLEST_BYTES = 26
_COMPACTING = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)
_MENDS = "`barnabas log verify` tells more, and `barnabas log repair` what can be done without it"


class LogRefused(Exception):  # noqa: N818 - a state of affairs, not a malfunction
    """A start would lose or hide records; the message names the file, and what to do."""


def refuse_newer(error: CheckpointError) -> None:
    """Raise LogRefused if a text is of a later version, rather than damaged."""
    if error.is_newer:
        raise LogRefused(f"{error}: it is of a later version; start the broker that wrote it, or put the file back")


def refuse_file(path: str, known: Container[TopicPartition]) -> None:
    """Raise LogRefused for a file in the place of a log that is `known` to have been there."""
    if parse_log_name(path.rpartition("/")[2]) in known:
        raise LogRefused(f"{path} is a file, and was a log's directory: put that back, or move the file away")


def refuse_segments(
    disk: Disk,
    directory: str,
    names: Collection[str],
    bases: Sequence[int],
    *,
    clean: bool,
    recovery_point: int,
    log_start_offset: int = 0,
    compacted: bool | None = None,
    now_ms: int = 0,
) -> dict[int, Segment]:
    """Raise LogRefused if the segments that begin at `bases` cannot be those of one log; OSError.

    `names` are those in the directory before anything of a compaction that was interrupted was put right, `compacted`
    is what the data directory's checkpoint says, None to look there. Returns those segments that were looked at and
    have all their files, the last one's open.
    """
    looked_at: dict[int, Segment] = {}
    for base, following in zip(bases, [*bases[1:], None], strict=False):
        segment = _segment(disk, directory, base, now_ms)
        if segment is not None:
            looked_at[base] = segment
        path = segment_path(directory, base, LOG_SUFFIX)
        settled = clean or (following is not None and following <= recovery_point)
        if following is None or not settled:
            _refuse_other_formats(disk, path, segment, settled=settled)
        if following is None:
            continue
        end = None if segment is None or not settled else end_offset(segment)
        if segment is not None:
            segment.close_file()
        next_path = segment_path(directory, following, LOG_SUFFIX)
        if end is not None and end > following:
            raise LogRefused(
                f"{next_path} begins at offset {following}, but {path} ends with {end - 1}: two segments have the same"
                f" offsets; move that one away which does not belong there ({_MENDS})"
            )
        if (
            end is not None
            and base < end  # only compaction leaves a segment without a batch
            and max(end, log_start_offset) < following
            and not is_compacted(disk, directory, names, bases, compacted)
        ):
            raise LogRefused(
                f"{next_path} begins at offset {following}, but {path} ends with {end - 1}: a segment is missing; put"
                f" its files back ({_MENDS})"
            )
    return looked_at


def refuse_log_start(directory: str, end_offset: int, log_start_offset: int) -> None:
    """Raise LogRefused if a log that was closed in order is said to begin behind its end."""
    key = parse_log_name(directory.rpartition("/")[2])
    if end_offset < log_start_offset and key is not None and key[0] != METADATA_TOPIC:
        raise LogRefused(
            f"log-start-offset-checkpoint says that {directory} begins at offset {log_start_offset}, but it ends at"
            f" {end_offset}: correct that line, or take it out to begin with the first segment"
        )


def refuse_torn_end(disk: Disk, directory: str) -> None:
    """Raise LogRefused if the last segment of a log that was closed in order does not end in a whole batch; OSError."""
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
                f" where offset {offset} would be, though the last stop was clean: put the file back, or take them off"
                f" and lose what they said of topics and settings ({_MENDS})"
            )
        position, offset = position + header.size_bytes, header.next_offset


def _refuse_other_formats(disk: Disk, path: str, segment: Segment | None, *, settled: bool) -> None:
    """Raise LogRefused if a segment, which may lack an index and so be None, begins with batches of another format.

    Where a crash may have left anything, one such batch is damage, and a second one behind it is not.
    """
    file = disk.open_file(path) if segment is None else segment.file
    size = disk.file_size(path) if segment is None else segment.size_bytes
    magic, end = _format_at(file, 0, size)
    if magic == MAGIC or not (settled or _format_at(file, end, size)[0] == magic):
        return
    raise LogRefused(
        f"{path} begins with a batch of format version {magic}, and only {MAGIC} is known; start the broker that wrote"
        f" it, or put the file back ({_MENDS})"
    )


def _format_at(file: File, position: int, size: int) -> tuple[int, int]:
    """Return which format the batch at `position` is of, and where it ends; the known one if there is no batch."""
    data = file.pread(HEADER_BYTES, position)
    if len(data) == HEADER_BYTES:
        header = read_header(data)
        if _SMALLEST_BYTES <= header.size_bytes <= size - position:
            return header.magic, position + header.size_bytes
    return MAGIC, position


def _segment(disk: Disk, directory: str, base: int, now_ms: int) -> Segment | None:
    """Return a segment as it is on disk; None if it lacks a file."""
    try:
        return Segment(disk, directory, base, now_ms)
    except FileNotFoundError:
        return None


def end_offset(segment: Segment) -> int | None:
    """Return the offset behind the last batch of a segment; None if its end has to be searched for."""
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
    """Tell whether a log shows any sign of a compaction, which leaves gaps; what is half done counts.

    `known` is whether the data directory's checkpoint names it, None to look there.
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


def is_loss(disk: Disk, segment: Segment, following: int, contiguous_from: int | None) -> bool:
    """Return whether the gap between `segment` and the next one, at `following`, is a loss in a compacted log too.

    Each segment that begins behind `contiguous_from` was made here, at the end of the one before, unless its first
    batch was too far away for an index. None: others may have made them. Apache Kafka leaves gaps between the segments
    of a compacted log, and so do its followers.
    """
    if contiguous_from is None or following <= contiguous_from:
        return False
    path = segment_path(segment.directory, following, LOG_SUFFIX)
    first = next(valid_batches(disk.open_file(path), disk.file_size(path)), None)
    return first is None or first.last_offset - (end_offset(segment) or 0) <= MAX_RELATIVE_OFFSET


def cleaned_offsets(disk: Disk, directory: str) -> dict[TopicPartition, int] | None:
    """Return up to where the logs in a data directory are compacted; None if nobody knows which of them are.

    A file without content is what a power cut leaves of one: that of no log has two lines.
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
    """Tell whether records are missing inside a segment."""
    before: BatchHeader | None = None
    try:
        for _, header in Segment(disk, directory, base, 0).headers(0):
            if header.record_count != header.last_offset_delta + 1 or header.delete_horizon_ms is not None:
                return True
            if header.base_offset != (base if before is None else before.next_offset):
                return True
            before = header
    except (KafkaError, FileNotFoundError):
        return False
    return False
