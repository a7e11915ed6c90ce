from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.record_batch import assign, iter_batches, read_header
from storage.disk import OsDisk
from storage.log.config import LogConfig
from storage.log.record_search import TimestampOffset
from storage.log.segment import LogSegment
from storage.log.segments import LogSegments
from storage.steps import Steps, finish
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, batch

SIZE = len(batch())
HOUR_MS = 3_600_000


@pytest.fixture
def segments(tmp_path: Path) -> LogSegments:
    """Return offsets 0 to 9 in segments of three batches: 0, 3, 6, 9."""
    segments = LogSegments(OsDisk(), str(tmp_path), [LogSegment.create(OsDisk(), str(tmp_path), 0, NOW_MS)])
    for offset in range(10):
        if offset and offset % 3 == 0:
            segments.roll(offset, NOW_MS)
        append(segments, offset)
    return segments


def append(segments: LogSegments, offset: int, timestamp: int = NOW_MS) -> None:
    records = batch(timestamp=timestamp)
    assign(records, offset, 0)
    segments.active.append(records, [read_header(records)], 4096)


def read(segments: LogSegments, offset: int, limit_offset: int = 100) -> list[int]:
    part = segments.read(offset, 10_000, limit_offset, min_one=True)
    return [] if part is None else [h.base_offset for _, h in iter_batches(part.read(0, part.size_bytes))]


def files(segments: LogSegments) -> list[str]:
    return sorted(path.name for path in Path(segments.active.directory).iterdir())


@pytest.mark.parametrize(
    ("offset", "limit", "found"),
    [
        (0, 100, [0, 1, 2]),
        (2, 100, [2]),
        (3, 100, [3, 4, 5]),
        (9, 100, [9]),
        (10, 100, []),
        (3, 5, [3, 4]),
        (3, 3, []),
        (2, 3, [2]),
        (2, 9, [2]),
    ],
)
def test_a_read_stays_in_one_segment_and_below_the_limit(
    offset: int, limit: int, found: list[int], segments: LogSegments
) -> None:
    assert read(segments, offset, limit) == found


def test_read_in_a_gap_continues_in_the_next_segment(segments: LogSegments) -> None:
    segments.roll(50, NOW_MS)
    append(segments, 50)
    assert read(segments, 20) == [50]
    assert read(segments, 20, limit_offset=50) == []


def test_the_size_follows_rolls_truncations_and_removals(segments: LogSegments) -> None:
    assert segments.size_bytes == 10 * SIZE
    segments.prepare_truncation(7, 4096)
    segments.truncate_to(7)
    assert segments.size_bytes == 7 * SIZE
    segments.roll(7, NOW_MS)
    append(segments, 7)
    assert segments.size_bytes == 8 * SIZE
    segments.remove_first(1)
    assert segments.size_bytes == 5 * SIZE
    segments.replace(segments.all[:2], LogSegment.create(OsDisk(), segments.active.directory, 4, NOW_MS))
    assert segments.size_bytes == SIZE


def test_a_segment_is_full_when_the_next_batch_would_not_fit(segments: LogSegments) -> None:
    def rolls(limit: int) -> bool:
        return segments.must_roll(LogConfig(segment_bytes=limit), SIZE, 10, NOW_MS, NOW_MS)

    assert rolls(2 * SIZE - 1)
    assert not rolls(2 * SIZE)


@pytest.mark.parametrize(("timestamp", "rolls"), [(NOW_MS + HOUR_MS, False), (NOW_MS + HOUR_MS + 1, True)])
def test_a_segment_is_old_by_the_timestamps_of_records_not_by_the_clock(
    timestamp: int, rolls: bool, segments: LogSegments
) -> None:
    config = LogConfig(segment_ms=HOUR_MS)
    assert segments.must_roll(config, SIZE, 10, timestamp, now_ms=0) is rolls


def test_roll_jitter_is_deterministic_and_shortens_the_segment_age(segments: LogSegments) -> None:
    config = LogConfig(segment_ms=HOUR_MS, segment_jitter_ms=HOUR_MS)
    old = [segments.must_roll(config, SIZE, 10, NOW_MS + HOUR_MS * n // 100, 0) for n in range(101)]
    assert old == sorted(old)
    assert old == [segments.must_roll(config, SIZE, 10, NOW_MS + HOUR_MS * n // 100, 0) for n in range(101)]
    assert not old[0]


def test_offsets_that_do_not_fit_the_index_need_a_new_segment(segments: LogSegments) -> None:
    assert not segments.must_roll(LogConfig(), SIZE, 9 + 2**31 - 1, NOW_MS, NOW_MS)
    assert segments.must_roll(LogConfig(), SIZE, 9 + 2**31, NOW_MS, NOW_MS)


@pytest.mark.parametrize("interval", [0, 2 * SIZE])
def test_a_full_index_needs_a_new_segment(interval: int, tmp_path: Path) -> None:
    config = LogConfig(segment_index_bytes=60, index_interval_bytes=interval)
    segments = LogSegments(OsDisk(), str(tmp_path), [LogSegment.create(OsDisk(), str(tmp_path), 0, NOW_MS)])
    offset = 0
    while not segments.must_roll(config, SIZE, offset, NOW_MS, NOW_MS):
        records = batch(timestamp=NOW_MS + offset)
        assign(records, offset, 0)
        segments.active.append(records, [read_header(records)], interval)
        offset += 1
    segments.active.seal()
    assert 60 - 12 <= segments.active.time_index.size_bytes <= 60
    assert segments.active.offset_index.size_bytes <= 60


def test_cached_roll_limits_hold_for_one_configuration_and_one_segment(segments: LogSegments) -> None:
    def rolls(config: LogConfig, timestamp: int = NOW_MS) -> bool:
        return segments.must_roll(config, SIZE, 21, timestamp, NOW_MS)

    roomy = LogConfig(segment_bytes=10 * SIZE)
    assert not rolls(roomy)
    assert rolls(LogConfig(segment_bytes=SIZE))
    assert not rolls(roomy)
    assert rolls(roomy, NOW_MS + roomy.segment_ms + 1)
    segments.roll(20, NOW_MS)
    append(segments, 20, NOW_MS + HOUR_MS)
    assert not rolls(roomy, NOW_MS + roomy.segment_ms + 1)


def test_an_empty_segment_never_rolls_for_its_size_or_age(tmp_path: Path) -> None:
    segments = LogSegments(OsDisk(), str(tmp_path), [LogSegment.create(OsDisk(), str(tmp_path), 0, 0)])
    assert not segments.must_roll(LogConfig(segment_bytes=1, segment_ms=1), SIZE, 10, NOW_MS, NOW_MS)


@pytest.mark.parametrize("after", [0, 3, 6])
def test_crash_during_segment_replacement_leaves_the_last(after: int, tmp_path: Path) -> None:
    disk = FaultyDisk()
    segments = LogSegments(disk, str(tmp_path), [LogSegment.create(disk, str(tmp_path), 0, NOW_MS)])
    for offset in range(3):
        append(segments, offset)
        segments.roll(offset + 1, NOW_MS)
    made = LogSegment.create(disk, str(tmp_path), 0, NOW_MS, ".swap")
    disk.arm("rename", after=after)
    with pytest.raises(OSError, match="Input/output"):
        segments.replace(segments.all[:3], made)
    left = [name for name in files(segments) if name.endswith(".log")]
    assert left == [f"{base:020d}.log" for base in range(after // 3, 4)]


def test_rolling_from_an_empty_segment_replaces_it(segments: LogSegments) -> None:
    segments.roll(10, NOW_MS)
    segments.roll(10, NOW_MS)
    assert segments.base_offsets == [0, 3, 6, 9, 10]
    segments.roll(20, NOW_MS)
    assert segments.base_offsets == [0, 3, 6, 9, 20]
    assert "00000000000000000010.log" not in files(segments)


def test_truncation_removes_later_segments_and_appends_continue(segments: LogSegments) -> None:
    assert segments.truncate_to(5) == 5
    assert segments.base_offsets == [0, 3]
    append(segments, 5)
    assert read(segments, 3) == [3, 4, 5]
    assert {name[:20] for name in files(segments)} == {f"{0:020d}", f"{3:020d}"}


def test_truncation_at_a_segments_start_leaves_it_empty(segments: LogSegments) -> None:
    assert segments.truncate_to(6) == 6
    assert segments.base_offsets == [0, 3, 6]
    assert segments.active.size_bytes == 0


def test_the_first_segments_are_renamed_out_of_the_log(segments: LogSegments) -> None:
    paths = segments.remove_first(2)
    assert segments.base_offsets == [6, 9]
    assert [Path(path).name for path in paths] == [
        f"{offset:020d}{suffix}.deleted" for offset in (0, 3) for suffix in (".log", ".index", ".timeindex")
    ]
    assert all(Path(path).exists() for path in paths)


@pytest.mark.parametrize(
    ("start", "end", "bases"), [(0, 10, [0, 3, 6, 9]), (3, 9, [3, 6]), (4, 7, [3, 6]), (9, 10, [9]), (10, 10, [9])]
)
def test_unsynced_segments_are_those_between_two_offsets(
    start: int, end: int, bases: list[int], segments: LogSegments
) -> None:
    names = [Path(file.path).name for file in segments.take_unsynced(start, end)]
    assert [name for name in names if name.endswith(".log")] == [f"{base:020d}.log" for base in bases]


def test_indexes_are_to_be_synced_once_they_are_complete(segments: LogSegments) -> None:
    def indexes() -> list[str]:
        return [name for file in segments.take_unsynced(0, 100) if not (name := Path(file.path).name).endswith(".log")]

    assert indexes() == [f"{base:020d}.timeindex" for base in (0, 3, 6)]
    assert indexes() == []
    segments.active.seal()
    assert segments.active.unsynced_indexes
    assert indexes() == [f"{9:020d}.timeindex"]
    assert not segments.active.unsynced_indexes


def test_timestamp_search_covers_every_segment(tmp_path: Path) -> None:
    segments = LogSegments(OsDisk(), str(tmp_path), [LogSegment.create(OsDisk(), str(tmp_path), 0, NOW_MS)])
    for offset, timestamp in enumerate([50, 10, 20, 90, 30, 90, 40]):
        if offset in (2, 4):
            segments.roll(offset, NOW_MS)
        append(segments, offset, timestamp)
    found = [finish(segments.find_timestamp(timestamp, 0)) for timestamp in (0, 51, 91)]
    assert [each and each.offset for each in found] == [0, 3, None]
    later = finish(segments.find_timestamp(15, 4))
    assert later is not None
    assert later.offset == 4
    largest = finish(segments.find_max_timestamp())
    assert largest is not None
    assert (largest.timestamp, largest.offset) == (90, 3)


@pytest.mark.parametrize(
    "wanted", [LogSegments.find_max_timestamp, lambda segments: segments.find_timestamp(NOW_MS, 0)]
)
def test_search_through_many_segments_runs_in_steps_and_skips_deleted_ones(
    wanted: Callable[[LogSegments], Steps[TimestampOffset | None]], tmp_path: Path
) -> None:
    disk, folder, count = OsDisk(), str(tmp_path), 140
    segments = LogSegments(disk, folder, [LogSegment.create(disk, folder, 0, NOW_MS)])
    for offset in range(count):
        segments.roll(offset, NOW_MS)
        append(segments, offset, NOW_MS if offset == count - 2 else 1)
    segments.active.seal()
    again = LogSegments(disk, folder, [LogSegment(disk, folder, offset, NOW_MS) for offset in range(count)])
    search = wanted(again)
    assert next(search) is None
    again.remove_first(count - 4)
    found = finish(search)
    assert found is not None
    assert (found.timestamp, found.offset) == (NOW_MS, count - 2)
