"""Groups adjacent segments that are rewritten as one (Kafka: `Cleaner.groupSegmentsBySize`).

Without it, repeated passes would leave a log of many tiny segments. Before cleaning, a group has at most
`segment.bytes` of batches and `segment.index.bytes` of each index, and its offsets are within 2^31 - 1 of its base
offset, the limit of an index entry.
"""

from collections.abc import Iterator, Sequence

from storage.log.config import LogConfig
from storage.log.segment import MAX_RELATIVE_OFFSET, LogSegment


def group_segments(segments: Sequence[LogSegment], end_offset: int, config: LogConfig) -> Iterator[list[LogSegment]]:
    """Yield the groups of `segments`; `end_offset` is the offset after the last one."""
    group: list[LogSegment] = []
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        if group and not _fits(group, segment, following - 1, config):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _fits(group: list[LogSegment], segment: LogSegment, last_offset: int, config: LogConfig) -> bool:
    together = [*group, segment]
    return (
        sum(one.size_bytes for one in together) <= config.segment_bytes
        and sum(one.offset_index.size_bytes for one in together) <= config.segment_index_bytes
        and sum(one.time_index.size_bytes for one in together) <= config.segment_index_bytes
        and last_offset - group[0].base_offset <= MAX_RELATIVE_OFFSET
    )
