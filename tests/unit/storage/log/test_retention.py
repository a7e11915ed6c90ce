from collections.abc import Sequence
from dataclasses import dataclass

from storage.log.config import LogConfig
from storage.log.retention import Bounds, Deletable, deletable, describe_deleted

NOW_MS = 1000
KEEP = LogConfig(retention_ms=-1, retention_bytes=-1)


@dataclass
class Aged:
    base_offset: int
    size_bytes: int = 100
    timestamp: int = NOW_MS

    def retention_timestamp(self) -> int:
        return self.timestamp


def count(segments: list[Aged], config: LogConfig, *, start: int = 0, high_watermark: int = 1000) -> int:
    """Count the deleted segments of ten offsets each, with a log end of 1000."""
    return len(found(segments, config, start=start, high_watermark=high_watermark))


def found(
    segments: list[Aged], config: LogConfig, *, start: int = 0, high_watermark: int = 1000
) -> Sequence[Deletable]:
    return deletable(segments, config, Bounds(start, high_watermark, 1000), now_ms=NOW_MS)


def ages(*timestamps: int) -> list[Aged]:
    return [Aged(number * 10, timestamp=timestamp) for number, timestamp in enumerate(timestamps)]


def sizes(*bytes_each: int) -> list[Aged]:
    return [Aged(number * 10, size_bytes=size) for number, size in enumerate(bytes_each)]


def test_segments_are_deleted_when_their_largest_timestamp_is_too_old() -> None:
    config = KEEP._replace(retention_ms=100)
    assert count(ages(800, 899, 900, 950), config) == 2


def test_a_young_segment_keeps_the_old_ones_behind_it() -> None:
    assert count(ages(800, 950, 800, 950), KEEP._replace(retention_ms=100)) == 1


def test_active_segment_is_deleted_when_it_is_too_old() -> None:
    assert count(ages(800, 800), KEEP._replace(retention_ms=100)) == 2


def test_an_empty_active_segment_stays() -> None:
    segments = [*ages(800), Aged(10, size_bytes=0, timestamp=0)]
    assert count(segments, KEEP._replace(retention_ms=100)) == 1


def test_segments_are_deleted_while_the_rest_is_at_least_retention_bytes() -> None:
    assert count(sizes(100, 100, 100, 50), KEEP._replace(retention_bytes=150)) == 2
    assert count(sizes(100, 100, 100, 50), KEEP._replace(retention_bytes=151)) == 1
    assert count(sizes(100, 100, 100, 50), KEEP._replace(retention_bytes=351)) == 0


def test_nothing_is_deleted_by_age_or_size_without_the_delete_policy() -> None:
    config = LogConfig(retention_ms=1, retention_bytes=1, cleanup_policy=frozenset({"compact"}))
    assert count(ages(0, 0, 0), config) == 0


def test_segments_below_the_log_start_are_deleted_under_every_policy() -> None:
    config = KEEP._replace(cleanup_policy=frozenset({"compact"}))
    assert count(ages(*[NOW_MS] * 4), config, start=19) == 1
    assert count(ages(*[NOW_MS] * 4), config, start=20) == 2
    assert count(ages(*[NOW_MS] * 4), config, start=1000) == 3


def test_active_segment_below_the_log_start_is_deleted_only_on_a_full_disk() -> None:
    bounds = Bounds(1000, 1000, 1000)
    assert not deletable(ages(NOW_MS), KEEP, bounds, now_ms=NOW_MS)
    assert len(deletable(ages(NOW_MS), KEEP, bounds, now_ms=NOW_MS, full=True)) == 1


def test_active_segment_on_a_full_disk_is_deleted_after_all_others() -> None:
    config = KEEP._replace(retention_ms=100)
    bounds = Bounds(0, 1000, 1000)
    assert len(deletable(ages(0, 0, 0), config, bounds, now_ms=NOW_MS, full=True)) == 2
    assert len(deletable(ages(0), config, bounds, now_ms=NOW_MS, full=True)) == 1


def test_nothing_past_the_high_watermark_is_deleted() -> None:
    config = KEEP._replace(retention_ms=100)
    assert count(ages(0, 0, 0), config, high_watermark=19) == 1
    assert count(ages(0, 0, 0), config, high_watermark=999) == 2
    assert count(ages(0, 0, 0), config, high_watermark=1000) == 3


def test_unlimited_retention_keeps_everything() -> None:
    assert count(ages(0, 0, 0), KEEP) == 0


def test_deleted_segments_are_logged_with_their_reason() -> None:
    segments = [Aged(0, 100, 800), Aged(10, 100, 990), Aged(20, 300, 990), Aged(30, 30, 990)]
    config = KEEP._replace(retention_ms=100, retention_bytes=330)
    assert describe_deleted(found(segments, config)) == (
        "segments deleted: 2, offsets 0 to 19, 200 bytes (1 by retention.ms=100, 1 by retention.bytes=330)"
    )
    assert describe_deleted(found(segments, KEEP, start=25)) == (
        "segments deleted: 2, offsets 0 to 19, 200 bytes (2 by log start offset 25)"
    )
