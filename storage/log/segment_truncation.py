"""The check of a segment before it is truncated: its indexes are what the truncation, and appends after it, trust.

Appending goes on from the last index entry left. Were that damaged, the segment would be cut and only then found to be
unreadable, or be taken for shorter than it is. So the entry is compared with the batches, while nothing is changed, and
both indexes are made anew if it does not agree with them.
"""

from protocol.errors import KafkaError
from storage.log.segment import Segment


def prepare_truncation(segment: Segment, offset: int, index_interval_bytes: int) -> None:
    """Read what truncating `segment` to `offset` needs; make its indexes anew if the last entry kept is damaged.

    KafkaError with nothing changed: CORRUPT_MESSAGE if there is no telling where to cut, TransactionIndexError.
    """
    segment.transaction_index.load()
    position, from_offset = segment.cut_at(offset)
    kept = segment.offset_index.last_kept(from_offset)
    if kept is not None and not _leads_to(segment, *kept, position):
        reindex(segment, index_interval_bytes)


def _leads_to(segment: Segment, last_offset: int, at: int, position: int) -> bool:
    """Return whether a batch at `at` ends with `last_offset`, and another begins at `position` behind it."""
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


def reindex(segment: Segment, index_interval_bytes: int) -> None:
    """Make the indexes of `segment` anew, for appending; CORRUPT_MESSAGE with nothing changed."""
    for _ in segment.places(0):
        pass
    headers = segment.headers(0)
    first = next(headers, None)  # which takes the size from the segment, before that is forgotten
    segment.forget_contents()
    if first is not None:
        segment.add(first[1], index_interval_bytes)
    for _, header in headers:
        segment.add(header, index_interval_bytes)
