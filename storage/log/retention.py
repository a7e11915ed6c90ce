"""Retention: which segments at the start of a log may be deleted, by age, by size, or below the log start offset.

Only whole segments below the high watermark are deleted, oldest first and without gaps. The age of a segment is that of
its largest timestamp (of its last write if its records have none), so one late record keeps a segment. The active
segment is deleted too once it has expired; the log then rolls to an empty one. As in Apache Kafka
(`UnifiedLog.deleteOldSegments`), except that on a full disk an active segment whose records were all deleted by
DeleteRecords is deleted as well: Kafka keeps it until the log rolls.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from storage.log.config import LogConfig


class Aged(Protocol):
    """The part of a segment that retention uses."""

    base_offset: int
    size_bytes: int

    def retention_timestamp(self) -> int:
        """Return the largest timestamp in ms."""


class Bounds(NamedTuple):
    """The offsets of a log that limit what may be deleted."""

    log_start_offset: int
    high_watermark: int
    log_end_offset: int


class Deletable(NamedTuple):
    """A segment that may be deleted, and the reason."""

    base_offset: int
    end_offset: int
    size_bytes: int
    reason: str


def describe_deleted(gone: Sequence[Deletable]) -> str:
    """Return the text of the log line for deleted, adjacent segments: offsets, size and reasons."""
    reasons = ", ".join(f"{count} by {reason}" for reason, count in Counter(one.reason for one in gone).items())
    offsets = f"offsets {gone[0].base_offset} to {gone[-1].end_offset - 1}"
    return f"segments deleted: {len(gone)}, {offsets}, {sum(one.size_bytes for one in gone)} bytes ({reasons})"


def deletable(
    segments: Sequence[Aged], config: LogConfig, bounds: Bounds, *, now_ms: int, full: bool = False
) -> list[Deletable]:
    """Return the segments that may be deleted now, oldest first; `full`: the disk is full."""
    delete = "delete" in config.cleanup_policy
    excess = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    log_start_offset, high_watermark, log_end_offset = bounds
    found: list[Deletable] = []
    for number, segment in enumerate(segments):
        last = number + 1 == len(segments)
        end_offset = log_end_offset if last else segments[number + 1].base_offset
        if end_offset > high_watermark or (last and segment.size_bytes == 0):
            break
        if full and last and found:
            break  # rolling needs the space of the deleted segments: delete the active one in the next pass
        started_after = (full or not last) and end_offset <= log_start_offset
        too_large = delete and config.retention_bytes >= 0 and excess >= segment.size_bytes
        expired = delete and config.retention_ms >= 0 and now_ms - segment.retention_timestamp() > config.retention_ms
        if expired:
            reason = f"retention.ms={config.retention_ms}"
        elif too_large:
            reason = f"retention.bytes={config.retention_bytes}"
        elif started_after:
            reason = f"log start offset {log_start_offset}"
        else:
            break
        excess -= segment.size_bytes
        found.append(Deletable(segment.base_offset, end_offset, segment.size_bytes, reason))
    return found
