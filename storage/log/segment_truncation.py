"""The check before a segment is truncated: the last index entry that stays must agree with the batches.

After the truncation, the segment's end is found from that entry. If the entry were damaged, the truncated segment would
be unreadable, or seem shorter than it is. So the entry is compared with the batches before anything changes, and both
indexes are rebuilt if they disagree.
"""

from protocol.errors import KafkaError
from storage.log.segment import LogSegment


def prepare_truncation(segment: LogSegment, offset: int, index_interval_bytes: int) -> None:
    """Load what truncating `segment` to `offset` needs; rebuild its indexes if the last entry that stays is damaged.

    Raise KafkaError with nothing changed: CORRUPT_MESSAGE if the position cannot be found, TransactionIndexError.
    """
    segment.transaction_index.load()
    position, from_offset = segment.truncation_point(offset)
    kept = segment.offset_index.last_kept(from_offset)
    if kept is not None and not _leads_to(segment, *kept, position):
        reindex(segment, index_interval_bytes)


def _leads_to(segment: LogSegment, last_offset: int, at: int, position: int) -> bool:
    """Return whether the batch at `at` ends with `last_offset`, and a batch or the file's end is at `position`."""
    if not 0 <= at < position:
        return False
    try:
        for place in segment.places(at):
            if place.position == at and place.last_offset != last_offset:
                return False
            if place.position >= position:
                return place.position == position
    except KafkaError:
        return False
    return position == segment.size_bytes


def reindex(segment: LogSegment, index_interval_bytes: int) -> None:
    """Rebuild the indexes of `segment`, for appending; raise CORRUPT_MESSAGE with nothing changed."""
    for _ in segment.places(0):
        pass
    headers = segment.headers(0)
    first = next(headers, None)  # reads the size before `reset` resets it
    segment.reset()
    if first is not None:
        segment.add(first[1], index_interval_bytes)
    for _, header in headers:
        segment.add(header, index_interval_bytes)
