"""Which segments at the start of a log may go: by age, by size, and because the log start has passed them.

Only whole segments below the high watermark go, oldest first and without holes. The age of a segment is that of its
largest timestamp (or of its last write if its records have none), so one late record keeps a segment alive. The
segment being appended to can go as well once it has expired; the log then rolls to an empty one. As Apache Kafka.
"""

from collections.abc import Sequence
from typing import Protocol

from storage.log_config import LogConfig


class Aged(Protocol):
    """What retention looks at in a segment."""

    base_offset: int
    size_bytes: int

    def retention_timestamp(self) -> int:
        """Return the largest timestamp in ms."""
        ...


def deletable(
    segments: Sequence[Aged],
    config: LogConfig,
    *,
    now_ms: int,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
) -> int:
    """Return how many segments, counted from the oldest, may be deleted now."""
    delete = "delete" in config.cleanup_policy
    excess = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    count = 0
    for number, segment in enumerate(segments):
        last = number + 1 == len(segments)
        end_offset = log_end_offset if last else segments[number + 1].base_offset
        if end_offset > high_watermark or (last and segment.size_bytes == 0):
            break
        # Log start is never inside the segment being appended to and past it at once.
        started_after = not last and end_offset <= log_start_offset
        too_large = delete and config.retention_bytes >= 0 and excess >= segment.size_bytes
        expired = delete and config.retention_ms >= 0 and now_ms - segment.retention_timestamp() > config.retention_ms
        if not (started_after or too_large or expired):
            break
        excess -= segment.size_bytes
        count = number + 1
    return count
