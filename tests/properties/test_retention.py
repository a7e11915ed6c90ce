"""Retention deletes all segments that it may delete, and no other."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.record_batch import iter_batches
from storage.log.config import LogConfig
from storage.log.log import Log
from storage.log.retention import Bounds, deletable
from tests.examples import examples
from tests.logs import content, open_log, stamped

NOW_MS = 100


class Aged(NamedTuple):
    base_offset: int
    size_bytes: int
    timestamp: int

    def retention_timestamp(self) -> int:
        return self.timestamp


@given(
    shapes=st.lists(st.tuples(st.integers(0, 30), st.integers(0, NOW_MS + 10)), min_size=1, max_size=8),
    retention_ms=st.integers(-1, NOW_MS),
    retention_bytes=st.integers(-1, 150),
    start=st.integers(0, 90),
    high_watermark=st.integers(0, 80),
    policy=st.sets(st.sampled_from(["delete", "compact"])),
    full=st.booleans(),
)
def test_retention_deletes_the_oldest_deletable_segments(
    shapes: list[tuple[int, int]],
    retention_ms: int,
    retention_bytes: int,
    start: int,
    high_watermark: int,
    policy: set[str],
    full: bool,
) -> None:
    segments = [Aged(number * 10, *shape) for number, shape in enumerate(shapes)]
    ends = [segment.base_offset + 10 for segment in segments]
    found = deletable(
        segments,  # type: ignore[arg-type]  # stands in for it
        LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes, cleanup_policy=frozenset(policy)),
        Bounds(start, high_watermark, ends[-1]),
        now_ms=NOW_MS,
        full=full,
    )
    count = len(found)

    def may_go(number: int) -> bool:
        segment, left = segments[number], sum(each.size_bytes for each in segments[number + 1 :])
        expired = retention_ms >= 0 and NOW_MS - segment.timestamp > retention_ms
        unneeded = retention_bytes >= 0 and left >= retention_bytes
        before_start = (full or number + 1 < len(segments)) and ends[number] <= start
        return (
            ends[number] <= high_watermark
            and (number + 1 < len(segments) or segment.size_bytes > 0)
            and (before_start or ("delete" in policy and (expired or unneeded)))
        )

    assert all(may_go(number) for number in range(count))
    active_is_next = full and 0 < count == len(segments) - 1
    assert count == len(segments) or active_is_next or not may_go(count)
    assert not (full and 1 < count == len(segments))


DELAY_MS = 7
DAY_MS = 1000
TODAY_MS = 10 * DAY_MS


def log_start_after_retention(log: Log, now_ms: int, config: LogConfig, high_watermark: int) -> int:
    """Return the log start after retention, computed from the segments' batches one by one."""
    sealed, bases = log.segments[:-1], [segment.base_offset for segment in log.segments]
    sizes = [segment.size_bytes for segment in log.segments]
    for number, segment in enumerate(log.segments):
        end = bases[number + 1] if segment in sealed else log.log_end_offset
        newest = max((header.max_timestamp for _, header in segment.headers(0)), default=None)
        if newest is None or end > high_watermark:
            return max(segment.base_offset, log.log_start_offset)
        expired = now_ms - newest > config.retention_ms
        unneeded = 0 <= config.retention_bytes <= sum(sizes[number + 1 :])
        started_after = segment in sealed and end <= log.log_start_offset
        if not (expired or unneeded or started_after):
            return max(segment.base_offset, log.log_start_offset)
    return log.log_end_offset


@settings(max_examples=examples(100), deadline=None)
@given(
    # Some timestamps of yesterday, some from clocks that are days ahead.
    ages=st.lists(st.lists(st.integers(-5, 9).map(lambda days: TODAY_MS - days * DAY_MS), min_size=1, max_size=3)),
    retention_days=st.integers(0, 8),
    retention_bytes=st.sampled_from([-1, 0, 300, 700]),
    committed=st.integers(0, 100),
    start=st.integers(0, 30),
    passes=st.lists(st.integers(0, 6), max_size=3),
    clean=st.booleans(),
)
def test_log_start_after_retention_equals_a_scan(
    ages: list[list[int]],
    retention_days: int,
    retention_bytes: int,
    committed: int,
    start: int,
    passes: list[int],
    clean: bool,
) -> None:
    config = LogConfig(
        segment_bytes=300,
        retention_ms=retention_days * DAY_MS,
        retention_bytes=retention_bytes,
        file_delete_delay_ms=DELAY_MS,
        message_timestamp_after_max_ms=2**40,
    )
    with TemporaryDirectory() as folder:
        log = open_log(Path(folder), config)
        for timestamps in ages:
            log.append_as_leader(stamped(timestamps), 0, TODAY_MS)
        log.update_high_watermark(committed)
        log.advance_log_start(min(start, log.high_watermark))
        whole, now_ms = (
            content(log, log.segments[0].base_offset) if log.log_start_offset == 0 else content(log),
            TODAY_MS,
        )
        for days in (0, *passes):
            now_ms += days * DAY_MS
            expected = log_start_after_retention(log, now_ms, config, log.high_watermark)
            log.delete_old_segments(now_ms)
            assert log.log_start_offset == expected
            assert content(log) == b"".join(
                whole[at : at + header.size_bytes]
                for at, header in iter_batches(whole)
                if header.last_offset >= expected
            )
        gone = list(Path(log.directory).glob("*.deleted"))
        log.delete_files(now_ms + DELAY_MS - 1)
        log.delete_files(now_ms + DELAY_MS)
        assert not any(path.exists() for path in gone)

        if clean:
            log.close(now_ms)
        end, left = log.log_end_offset, content(log)
        again = open_log(Path(folder), config, clean=clean, log_start_offset=log.log_start_offset)
        assert (again.log_start_offset, again.log_end_offset) == (log.log_start_offset, end)
        assert content(again) == left
