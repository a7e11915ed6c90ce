from collections.abc import Iterable
from pathlib import Path
from struct import iter_unpack, pack, pack_into

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import BatchHeader, assign, iter_batches, read_header
from storage.disk import OsDisk
from storage.log.file_slice import FileSlice
from storage.log.segment import LogSegment
from storage.steps import finish
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, batch, stamped

BASE = 100
INTERVAL = 300


@pytest.fixture
def segment(tmp_path: Path) -> LogSegment:
    """Return 20 batches of three records from offset 100 on, 133 bytes a batch, indexed every 300 bytes."""
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    append(segment, (batch(3) for _ in range(20)))
    return segment


def append(segment: LogSegment, batches: Iterable[bytearray], offset: int = BASE, interval: int = INTERVAL) -> int:
    for records in batches:
        assign(records, offset, 7)
        header = read_header(records)
        segment.append(records, [header], interval)
        offset = header.next_offset
    return offset


def reopened(segment: LogSegment) -> LogSegment:
    """Return the segment as a clean start opens it, as an inactive one."""
    segment.seal()
    return LogSegment(OsDisk(), segment.directory, segment.base_offset, NOW_MS)


def batches(part: FileSlice | None) -> list[BatchHeader]:
    assert part is not None
    data = part.read(0, part.size_bytes)
    found = list(iter_batches(data))
    assert not data or found[-1][0] + found[-1][1].size_bytes == len(data), "not whole batches"
    return [header for _, header in found]


SIZE = len(batch(3))


def test_a_segment_is_named_for_its_base_offset_in_20_digits(segment: LogSegment) -> None:
    segment.seal()
    assert sorted(path.name for path in Path(segment.directory).iterdir()) == [
        "00000000000000000100.index",
        "00000000000000000100.log",
        "00000000000000000100.timeindex",
    ]


def test_index_entry_is_made_once_the_interval_since_the_last_is_exceeded(segment: LogSegment) -> None:
    entries = [segment.offset_index.entry(number) for number in range(segment.offset_index.entry_count)]
    assert entries == [(3 * n + 2, n * SIZE) for n in (3, 6, 9, 12, 15, 18)]


@pytest.mark.parametrize("sealed", [False, True])
def test_every_offset_is_found_in_its_batch(sealed: bool, segment: LogSegment) -> None:
    found = reopened(segment) if sealed else segment
    for offset in range(BASE, BASE + 60):
        assert found.position_of(offset) == (offset - BASE) // 3 * SIZE
    assert found.position_of(BASE + 60) == found.size_bytes


@pytest.mark.parametrize("sealed", [False, True])
def test_an_offset_in_a_gap_is_found_in_the_batch_behind_it(sealed: bool, tmp_path: Path) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    for offset in range(BASE + 50, BASE + 500, 50):
        append(segment, [batch(3)], offset)
    found = reopened(segment) if sealed else segment
    assert [found.position_of(offset) for offset in (BASE, BASE + 53, BASE + 99, BASE + 100)] == [0, SIZE, SIZE, SIZE]


def test_the_end_of_the_active_segment_is_found_without_reading(segment: LogSegment) -> None:
    """Most fetches read at the log end, where no file is needed to find the position."""
    Path(segment.path).write_bytes(b"")
    assert segment.position_of(BASE + 59) == 19 * SIZE
    assert segment.position_of(BASE + 60) == 20 * SIZE


def test_reading_begins_with_the_batch_that_holds_the_offset(segment: LogSegment) -> None:
    part = segment.read(BASE + 31, 10_000, segment.size_bytes, min_one=True)
    assert batches(part)[0].base_offset == BASE + 30
    assert batches(part)[-1].last_offset == BASE + 59


@pytest.mark.parametrize("max_bytes", [SIZE, SIZE + 1, 2 * SIZE - 1, 2 * SIZE, 5 * SIZE + 7, 19 * SIZE, 20 * SIZE])
def test_read_returns_whole_batches_of_half_the_limit_or_more(max_bytes: int, segment: LogSegment) -> None:
    part = segment.read(BASE, max_bytes, segment.size_bytes, min_one=True)
    assert part is not None
    assert max_bytes / 2 <= part.size_bytes <= max_bytes
    assert batches(part)


@pytest.mark.parametrize("batch_count", [1, 2, 4, 15, 60, 80, 119])
def test_a_read_knows_the_end_offset_of_its_batches(batch_count: int, tmp_path: Path) -> None:
    """With small limits it walks the headers, with large ones it ends at an index entry."""
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    append(segment, (batch(3) for _ in range(120)))
    for limit in (batch_count * SIZE, (batch_count + 1) * SIZE - 1):
        part = segment.read(BASE, limit, segment.size_bytes, min_one=True, end_offset=BASE + 360)
        assert part is not None
        assert part.end_offset == batches(part)[-1].next_offset


def test_end_offset_of_a_read_up_to_the_end_position_is_that_of_the_caller(segment: LogSegment) -> None:
    part = segment.read(BASE, 20 * SIZE, 3 * SIZE, min_one=True, end_offset=BASE + 10)
    assert part is not None
    assert part.end_offset == BASE + 10


def test_position_at_which_a_large_read_ended_is_known_without_the_disk(tmp_path: Path) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    append(segment, (batch(3) for _ in range(120)))
    sealed = reopened(segment)
    part = sealed.read(BASE, 60 * SIZE, sealed.size_bytes, min_one=True)
    assert part is not None
    Path(segment.path).write_bytes(b"")
    assert sealed.position_of(part.end_offset) == part.size_bytes


def test_limit_below_the_first_batch_returns_that_batch_or_nothing(segment: LogSegment) -> None:
    assert len(batches(segment.read(BASE, 1, segment.size_bytes, min_one=True))) == 1
    assert batches(segment.read(BASE, SIZE - 1, segment.size_bytes, min_one=False)) == []


def test_nothing_behind_the_end_position_is_read(segment: LogSegment) -> None:
    assert batches(segment.read(BASE + 4, 10_000, 3 * SIZE, min_one=True))[-1].last_offset == BASE + 8
    assert segment.read(BASE + 9, 10_000, 3 * SIZE, min_one=True) is None


def test_a_slice_outlives_the_deletion_of_its_segment(segment: LogSegment) -> None:
    part = segment.read(BASE, 10_000, segment.size_bytes, min_one=True)
    segment.remove()
    assert list(Path(segment.directory).iterdir()) == []
    assert len(batches(part)) == 20


def test_slice_that_the_disk_returns_in_part_is_an_error(segment: LogSegment) -> None:
    part = FileSlice(segment.file, segment.size_bytes - 10, 20)
    with pytest.raises(OSError, match="10 of 20 bytes"):
        part.read(0, 20)


def test_failed_write_is_not_counted_and_can_be_truncated(segment: LogSegment) -> None:
    with open(segment.path, "ab") as file:
        file.write(b"half a batch")
    assert segment.position_of(BASE + 60) == segment.size_bytes
    segment.truncate_file()
    assert Path(segment.path).stat().st_size == segment.size_bytes


@pytest.mark.parametrize("offset", range(BASE, BASE + 61, 3))
def test_truncation_at_a_batch_leaves_the_ones_before_and_indexes_to_match(offset: int, segment: LogSegment) -> None:
    assert segment.truncate_to(offset) == offset
    assert segment.size_bytes == (offset - BASE) // 3 * SIZE == Path(segment.path).stat().st_size
    assert segment.offset_index.last_position() < max(segment.size_bytes, 1)
    append(segment, (batch(3) for _ in range(5)), offset)
    for wanted in range(BASE, offset + 15):
        assert segment.position_of(wanted) == (wanted - BASE) // 3 * SIZE


def test_truncation_within_a_batch_removes_the_whole_batch(segment: LogSegment) -> None:
    assert segment.truncate_to(BASE + 31) == BASE + 30


def test_the_largest_timestamp_is_known_after_truncation(tmp_path: Path) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    append(segment, (batch(3, timestamp=timestamp) for timestamp in (5, 9, 7, 8, 50, 10)))
    assert segment.max_timestamp == (50, BASE + 14)
    segment.truncate_to(BASE + 12)
    assert segment.max_timestamp == (9, BASE + 5)
    assert reopened(segment).max_timestamp == (9, BASE + 5)


def test_records_are_found_by_timestamp(tmp_path: Path) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    append(segment, map(stamped, [[10, 30, 20], [5, 6], [30, 31], [7]]))
    found = [finish(segment.find_timestamp(timestamp, BASE)) for timestamp in (0, 10, 11, 30, 31)]
    assert [each and (each.timestamp, each.offset, each.leader_epoch) for each in found] == [
        (10, 100, 7),
        (10, 100, 7),
        (30, 101, 7),
        (30, 101, 7),
        (31, 106, 7),
    ]
    assert finish(segment.find_timestamp(32, BASE)) is None
    after = finish(segment.find_timestamp(10, BASE + 2))
    assert after is not None
    assert (after.timestamp, after.offset) == (20, 102)


damaged_entries = pytest.mark.parametrize(
    ("entry", "relative_offset", "position"),
    [
        (3, 0, None),
        (3, None, 10 * SIZE),
        (3, None, 9 * SIZE + 20),
        (2, None, 19 * SIZE),
        (2, None, 20 * SIZE),
        (2, None, 2**31 - 1),
        (2, None, -1),
        (3, 2, None),
    ],
    ids=[
        "another offset", "a later batch", "within a batch", "the last batch", "the end", "behind the end",
        "before the start", "an early offset",
    ],
)  # fmt: skip


def damage_entry(segment: LogSegment, entry: int, relative_offset: int | None, position: int | None) -> None:
    """Overwrite an entry of the offset index of an inactive segment."""
    path = Path(segment.directory) / f"{BASE:020d}.index"
    data = bytearray(path.read_bytes())
    if relative_offset is not None:
        pack_into(">i", data, entry * 8, relative_offset)
    if position is not None:
        pack_into(">i", data, entry * 8 + 4, position)
    path.write_bytes(data)


def test_whole_batches_before_a_damaged_length_are_read(segment: LogSegment) -> None:
    damaged = reopened(segment)
    path = Path(damaged.path)
    data = bytearray(path.read_bytes())
    data[5 * SIZE + 8] ^= 0x80
    path.write_bytes(data)
    part = damaged.read(BASE + 3 * 3, 4 * SIZE, damaged.size_bytes, True)
    assert [header.base_offset for header in batches(part)] == [BASE + 9, BASE + 12]
    with pytest.raises(KafkaError) as raised:
        damaged.read(BASE + 5 * 3, 4 * SIZE, damaged.size_bytes, True)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


@damaged_entries
def test_a_damaged_index_entry_skips_nothing(
    segment: LogSegment, entry: int, relative_offset: int | None, position: int | None
) -> None:
    segment.seal()
    damage_entry(segment, entry, relative_offset, position)
    for offset in range(BASE, BASE + 60):
        damaged = LogSegment(OsDisk(), segment.directory, BASE, NOW_MS)
        assert damaged.position_of(offset) == (offset - BASE) // 3 * SIZE


def found_by_time(segment: LogSegment, timestamp: int, from_offset: int = BASE) -> int | None:
    """Return the offset that a lookup by timestamp finds in the segment as it is on disk."""
    found = finish(LogSegment(OsDisk(), segment.directory, BASE, NOW_MS).find_timestamp(timestamp, from_offset))
    return found and found.offset


@damaged_entries
def test_damaged_offset_index_changes_no_timestamp_lookup(
    tmp_path: Path, entry: int, relative_offset: int | None, position: int | None
) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    append(segment, (stamped([10 * n, 10 * n + 1, 10 * n + 2]) for n in range(20)))
    segment.seal()
    damage_entry(segment, entry, relative_offset, position)
    for offset in range(60):
        assert found_by_time(segment, offset // 3 * 10 + offset % 3) == BASE + offset
        assert found_by_time(segment, 0, from_offset=BASE + offset) == BASE + offset


@pytest.mark.parametrize("entry", range(5))
@pytest.mark.parametrize(
    ("timestamp", "relative_offset"), [(None, 59), (None, 60), (None, -1), (0, None), (192, None), (2**62, None)]
)
def test_damaged_time_index_changes_no_timestamp_lookup(
    tmp_path: Path, entry: int, timestamp: int | None, relative_offset: int | None
) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    append(segment, (stamped([10 * n, 10 * n + 1, 10 * n + 2]) for n in range(20)))
    segment.seal()
    path = Path(segment.directory) / f"{BASE:020d}.timeindex"
    data = bytearray(path.read_bytes())
    assert len(data) == 5 * 12
    if timestamp is not None:
        pack_into(">q", data, entry * 12, timestamp)
    if relative_offset is not None:
        pack_into(">i", data, entry * 12 + 8, relative_offset)
    path.write_bytes(data)
    for offset in range(60):
        assert found_by_time(segment, offset // 3 * 10 + offset % 3) == BASE + offset


@pytest.mark.parametrize("cut", ["not at all", "in the log", "in the file"])
def test_time_index_is_monotone_for_any_timestamps_and_finds_remaining_records(cut: str, tmp_path: Path) -> None:
    """Rule 21: producers' clocks disagree, and the log is truncated or the index file cut short."""
    times = [50, 10, 90, 20, 20, 95, 1, 94, 96, 30]
    segment = LogSegment.create(OsDisk(), str(tmp_path), 0, NOW_MS)
    for offset, time in enumerate(times):
        records = stamped([time])
        assign(records, offset, 0)
        segment.append(records, [read_header(records)], 0)
    if cut == "in the log":
        segment.truncate_to(6)
        del times[6:]
    segment.seal()
    path = tmp_path / f"{0:020d}.timeindex"
    entries = list(iter_unpack(">qi", path.read_bytes()))
    assert [time for time, _ in entries] == sorted({time for time, _ in entries})
    assert entries[-1] == (max(times), times.index(max(times)))
    if cut == "in the file":
        path.write_bytes(path.read_bytes()[:12])
    again = LogSegment(OsDisk(), str(tmp_path), 0, NOW_MS)
    for wanted in range(100):
        expected = next(((time, offset) for offset, time in enumerate(times) if time >= wanted), None)
        found = finish(again.find_timestamp(wanted, 0))
        assert (found and (found.timestamp, found.offset)) == expected


def test_the_largest_timestamp_is_the_first_record_that_has_it(tmp_path: Path) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    assert finish(segment.find_max_timestamp()) is None
    append(segment, map(stamped, [[10, 30, 30], [5, 6], [30], [7]]))
    found = finish(segment.find_max_timestamp())
    assert found is not None
    assert (found.timestamp, found.offset) == (30, 101)


def test_segment_age_counts_from_the_first_batch_timestamp(segment: LogSegment) -> None:
    assert segment.age_ms(NOW_MS + 999_999, NOW_MS + 50) == 50
    assert reopened(segment).age_ms(0, NOW_MS + 60) == 60


def test_segment_age_counts_from_its_creation_without_timestamps(tmp_path: Path) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    append(segment, [batch(timestamp=-1)])
    assert segment.age_ms(NOW_MS + 70, -1) == 70


def test_retention_counts_from_the_last_write_without_timestamps(tmp_path: Path) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    append(segment, [batch(timestamp=-1)])
    assert segment.retention_timestamp() == Path(segment.path).stat().st_mtime_ns // 1_000_000


def test_header_timestamp_0_of_records_without_timestamps_means_none(tmp_path: Path) -> None:
    """librdkafka writes such headers: retention would delete the records at once, as if they were of 1970."""
    without = batch(timestamp=-1)
    pack_into(">q", without, 35, 0)
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    append(segment, [without])
    segment.seal()
    assert reopened(segment).max_timestamp[0] == segment.max_timestamp[0] == -1
    assert [place.max_timestamp for place in segment.places(0)] == [-1]
    assert segment.retention_timestamp() == Path(segment.path).stat().st_mtime_ns // 1_000_000


def test_record_with_timestamp_0_has_a_timestamp(tmp_path: Path) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    append(segment, [batch(timestamp=0)])
    assert segment.max_timestamp[0] == 0


def test_released_segment_returns_the_same_results(segment: LogSegment) -> None:
    sealed = reopened(segment)
    before = [sealed.position_of(offset) for offset in range(BASE, BASE + 61)]
    sealed.release()
    assert [sealed.position_of(offset) for offset in range(BASE, BASE + 61)] == before


def test_bytes_that_are_no_batch_are_reported_as_corrupt(segment: LogSegment) -> None:
    sealed = reopened(segment)
    content = bytearray(Path(segment.path).read_bytes())
    content[SIZE + 8 : SIZE + 12] = b"\xff\xff\xff\xff"
    Path(segment.path).write_bytes(content)
    with pytest.raises(KafkaError) as raised:
        sealed.position_of(BASE + 8)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


def test_read_continues_at_the_end_of_the_previous_one(tmp_path: Path) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    append(segment, (batch(3) for _ in range(20)))
    end, limit = segment.size_bytes, 2 * SIZE + 20
    for start in range(0, 20, 2):
        found = batches(segment.read(BASE + 3 * start, limit, end, min_one=False))
        assert [header.base_offset for header in found] == [BASE + 3 * start, BASE + 3 * start + 3]


def test_cached_read_position_is_cleared_when_batches_are_replaced(tmp_path: Path) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    append(segment, (batch(3) for _ in range(20)))
    segment.read(BASE, 4 * SIZE + 20, segment.size_bytes, min_one=False)
    offset = segment.truncate_to(BASE + 3)
    append(segment, (batch(1) for _ in range(20)), offset)
    [first, *_] = batches(segment.read(BASE + 12, 1000, segment.size_bytes, min_one=False))
    assert first.base_offset == BASE + 12


def test_reader_at_the_end_continues_there_after_any_number_of_appends(tmp_path: Path) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    offset = BASE
    for _ in range(20):
        start = offset
        offset = append(segment, (batch(3) for _ in range(5)), start)
        found = batches(segment.read(start, 10_000, segment.size_bytes, min_one=False))
        assert [header.base_offset for header in found] == list(range(start, offset, 3))


def test_missing_offsets_are_searched_from_the_cached_read_position(tmp_path: Path) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    end = append(segment, [batch(3)])
    segment.read(BASE, 10_000, segment.size_bytes, min_one=False)
    append(segment, (batch(3) for _ in range(20)), end + 50)
    [first, *_] = batches(segment.read(end, 10_000, segment.size_bytes, min_one=False))
    assert first.base_offset == end + 50


@pytest.mark.parametrize(("relative_offset", "position"), [(None, 40 * SIZE + 20), (None, -1), (7, None)])
@pytest.mark.parametrize("entry", range(16))
def test_a_damaged_index_entry_ends_no_read_within_a_batch(
    tmp_path: Path, entry: int, relative_offset: int | None, position: int | None
) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    append(segment, (batch(3) for _ in range(50)))
    segment.seal()
    damage_entry(segment, entry, relative_offset, position)
    for limit in (4200, 5000, 40 * SIZE + 30, 6500):
        damaged = LogSegment(OsDisk(), segment.directory, BASE, NOW_MS)
        found = batches(damaged.read(BASE, limit, damaged.size_bytes, min_one=False))
        assert [header.base_offset for header in found] == list(range(BASE, found[-1].next_offset, 3))
        assert len(found) * SIZE > limit // 2


def test_damaged_batch_is_searched_once(tmp_path: Path) -> None:
    disk = FaultyDisk()
    segment = LogSegment.create(disk, str(tmp_path), BASE, NOW_MS)
    append(segment, (batch(3) for _ in range(100)))
    segment.seal()
    content = bytearray(Path(segment.path).read_bytes())
    content[97 * SIZE + 8 : 97 * SIZE + 12] = b"\xff\xff\xff\xff"
    Path(segment.path).write_bytes(content)
    segment = LogSegment(disk, str(tmp_path), BASE, NOW_MS)
    reads = []
    for _ in range(3):
        disk.calls.clear()
        with pytest.raises(KafkaError, match=f"no record batch at byte {97 * SIZE} "):
            segment.position_of(BASE + 3 * 98)
        reads.append(len(disk.called("pread")))
    assert reads == [reads[0], 1, 1]
    assert reads[0] > 3
    assert segment.position_of(BASE + 3 * 96) == 96 * SIZE


def test_cached_damage_is_cleared_by_truncation(tmp_path: Path) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    without_index = 1 << 20
    append(segment, (batch(3) for _ in range(20)), interval=without_index)
    segment.seal()
    content = bytearray(Path(segment.path).read_bytes())
    content[10 * SIZE + 8 : 10 * SIZE + 12] = b"\xff\xff\xff\xff"
    Path(segment.path).write_bytes(content)
    with pytest.raises(KafkaError):
        segment.position_of(BASE + 3 * 15)
    assert segment.truncate_to(BASE + 3 * 5) == BASE + 3 * 5
    append(segment, (batch(3) for _ in range(15)), BASE + 3 * 5, without_index)
    segment.seal()
    assert segment.position_of(BASE + 3 * 15) == 15 * SIZE


def test_a_damaged_time_index_entry_that_leads_into_a_gap_skips_no_batch(tmp_path: Path) -> None:
    segment = LogSegment.create(OsDisk(), str(tmp_path), BASE, NOW_MS)
    for relative_offset, timestamp in ((0, 10), (3, 50), (9, 10)):
        append(segment, [stamped([timestamp] * 3)], BASE + relative_offset, interval=0)
    segment.seal()
    in_the_gap = pack(">qi", 10, 7)  # behind the batch with 50, before one with largest timestamp 10 too
    (Path(segment.directory) / f"{BASE:020d}.timeindex").write_bytes(in_the_gap)
    assert found_by_time(segment, 20) == BASE + 3
