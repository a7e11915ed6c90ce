"""How much of a log can be compacted, and whether it is time: the choice that comes before a pass.

    log start        first dirty offset                 first uncleanable offset           log end
        |  compacted before  |  dirty, can be compacted          |  stays: active segment ...  |

The last bound is the base of a segment: of the active one, of the one with the last stable offset (never past the
high watermark), or of the first with a record younger than `min.compaction.lag.ms`. A log is due when the dirty part
is more than `min.cleanable.dirty.ratio` of both, or its oldest record has waited for `max.compaction.lag.ms`.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from storage.log.config import FOREVER
from storage.log.log import Log
from storage.log.segment import Segment


class Filth(NamedTuple):
    """The parts of a log, by offset and in bytes; `overdue` if a record has waited too long."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def ratio(self) -> float:
        """The dirty part of what could be compacted, 0 to 1."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)

    def is_due(self, min_ratio: float) -> bool:
        """Tell whether the log is to be compacted now."""
        return self.dirty_bytes > 0 and (self.overdue or self.ratio > min_ratio)


def find_filth(log: Log, now_ms: int) -> Filth:
    """Look at `log`, which was compacted up to its `cleaned_to` before, if at all."""
    segments, config = log.segments, log.config
    first_dirty = log.log_start_offset
    # A checkpoint outside the log speaks of another one, or of what was truncated since.
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
        # Where the memory for keys ended a pass amid a segment, its beginning is clean already.
        position = segment.position_of(first_dirty) if segment.base_offset < first_dirty else 0
        clean += position
        dirty += segment.size_bytes - position
        if config.max_compaction_lag_ms != FOREVER:
            overdue = overdue or 0 <= segment.first_timestamp < now_ms - config.max_compaction_lag_ms
    return Filth(first_dirty, first_uncleanable, clean, dirty, overdue)


def _first_uncleanable(log: Log, segments: Sequence[Segment], first_dirty: int, now_ms: int) -> int:
    stable, lag_ms = log.last_stable_offset, log.config.min_compaction_lag_ms
    for segment, following in pairwise(segments):
        if following.base_offset > stable:
            return segment.base_offset
        if following.base_offset > first_dirty and lag_ms > 0 and segment.max_timestamp[0] > now_ms - lag_ms:
            return segment.base_offset
    return segments[-1].base_offset
