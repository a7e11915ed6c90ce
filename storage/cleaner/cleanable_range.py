"""Computes the cleanable range of one log, and whether it is due for cleaning (Kafka: `LogToClean`).

    log start        first dirty offset        first uncleanable offset        log end
        |      clean         |        dirty              |      not cleanable      |

The first uncleanable offset is the base offset of the earliest of: the active segment, the segment that holds the last
stable offset (never above the high watermark), and the first segment with a record younger than
`min.compaction.lag.ms`. A log is due when dirty / (clean + dirty) exceeds `min.cleanable.dirty.ratio`, or when its
oldest dirty record is older than `max.compaction.lag.ms` (KIP-354).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from storage.log.config import FOREVER
from storage.log.log import Log
from storage.log.segment import LogSegment


class LogToClean(NamedTuple):
    """Cleanable range of one log, as offsets and sizes in bytes; `overdue`: past `max.compaction.lag.ms`."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def cleanable_ratio(self) -> float:
        """The cleanable ratio: dirty / (clean + dirty), 0.0 to 1.0."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)

    def is_due(self, min_ratio: float) -> bool:
        """Return whether the log should be cleaned now."""
        return self.dirty_bytes > 0 and (self.overdue or self.cleanable_ratio > min_ratio)


def cleanable_range(log: Log, now_ms: int) -> LogToClean:
    """Return the cleanable range of `log` at wall-clock time `now_ms`, from its cleaner checkpoint `cleaned_to` on."""
    segments, config = log.segments, log.config
    first_dirty = log.log_start_offset
    # Ignore a checkpoint outside [log start, log end]: it is from before a truncation, or of another log.
    if log.cleaned_to is not None and first_dirty <= log.cleaned_to <= log.log_end_offset:
        first_dirty = log.cleaned_to
    first_uncleanable = _first_uncleanable(log, segments, first_dirty, now_ms)
    clean = dirty = 0
    overdue = False
    for number, segment in enumerate(segments[:-1]):
        following = segments[number + 1].base_offset
        if segment.base_offset >= first_uncleanable:
            break
        if following <= first_dirty:
            clean += segment.size_bytes
            continue
        # The previous pass filled the offset map inside this segment; the part before is clean already.
        position = segment.position_of(first_dirty) if segment.base_offset < first_dirty else 0
        clean += position
        dirty += segment.size_bytes - position
        if config.max_compaction_lag_ms != FOREVER:
            overdue = overdue or 0 <= segment.first_timestamp < now_ms - config.max_compaction_lag_ms
    return LogToClean(first_dirty, first_uncleanable, clean, dirty, overdue)


def _first_uncleanable(log: Log, segments: Sequence[LogSegment], first_dirty: int, now_ms: int) -> int:
    stable, lag_ms = log.last_stable_offset, log.config.min_compaction_lag_ms
    for segment, following in pairwise(segments):
        if following.base_offset > stable:
            return segment.base_offset
        if following.base_offset > first_dirty and lag_ms > 0 and segment.max_timestamp[0] > now_ms - lag_ms:
            return segment.base_offset
    return segments[-1].base_offset
