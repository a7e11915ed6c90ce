from pathlib import Path
from struct import pack

import pytest

from storage.disk import OsDisk
from storage.log.index import OffsetIndex, TimeIndex

BASE = 1000


@pytest.fixture
def offsets(tmp_path: Path) -> OffsetIndex:
    """Return an index of (1010, 100), (1020, 250), (1035, 400)."""
    index = offset_index(tmp_path, b"")
    for offset, position in ((1010, 100), (1020, 250), (1035, 400)):
        index.append(offset, position)
    return index


@pytest.fixture
def times(tmp_path: Path) -> TimeIndex:
    """Return an index of (50, 1010), (70, 1020), (71, 1035)."""
    index = time_index(tmp_path, b"")
    for timestamp, offset in ((50, 1010), (70, 1020), (71, 1035)):
        index.maybe_append(timestamp, offset)
    return index


def offset_index(folder: Path, content: bytes) -> OffsetIndex:
    (folder / "x.index").write_bytes(content)
    return OffsetIndex(OsDisk(), str(folder / "x.index"), BASE)


def time_index(folder: Path, content: bytes) -> TimeIndex:
    (folder / "x.timeindex").write_bytes(content)
    return TimeIndex(OsDisk(), str(folder / "x.timeindex"), BASE)


def test_index_files_have_kafkas_bytes(offsets: OffsetIndex, times: TimeIndex) -> None:
    offsets.save()
    times.save()
    assert Path(offsets.path).read_bytes() == pack(">iiiiii", 10, 100, 20, 250, 35, 400)
    assert Path(times.path).read_bytes() == pack(">qiqiqi", 50, 10, 70, 20, 71, 35)


@pytest.mark.parametrize(
    ("offset", "position"), [(1000, 0), (1009, 0), (1010, 100), (1019, 100), (1020, 250), (1034, 250), (9999, 400)]
)
def test_an_offset_is_found_at_or_after_the_position_of_the_entry_before(
    offset: int, position: int, offsets: OffsetIndex
) -> None:
    assert offsets.lookup(offset) == position


@pytest.mark.parametrize(("limit", "position"), [(0, 0), (99, 0), (100, 100), (399, 250), (400, 400), (9999, 400)])
def test_the_last_indexed_position_before_a_limit(limit: int, position: int, offsets: OffsetIndex) -> None:
    assert offsets.entry_before(limit)[1] == position


@pytest.mark.parametrize(
    ("timestamp", "offset"), [(0, BASE), (49, BASE), (50, 1010), (69, 1010), (70, 1020), (71, 1035), (99, 1035)]
)
def test_timestamp_lookup_starts_at_the_entry_before_it(timestamp: int, offset: int, times: TimeIndex) -> None:
    assert times.lookup(timestamp)[1] == offset


@pytest.mark.parametrize("timestamp", [-1, 70, 71])
def test_a_timestamp_that_is_not_larger_makes_no_entry(timestamp: int, times: TimeIndex) -> None:
    """Rule 21."""
    times.maybe_append(timestamp, 1050)
    assert times.last() == (71, 1035)
    assert times.entry_count == 3


def test_truncated_or_rebuilt_entries_do_not_block_a_new_entry(times: TimeIndex) -> None:
    times.maybe_append(60, 1050)
    times.truncate_to(1020)
    times.maybe_append(60, 1020)
    assert times.last() == (60, 1020)
    times.rebuild()
    times.maybe_append(7, 1005)
    assert times.last() == (7, 1005)


def test_empty_index_returns_the_start(tmp_path: Path) -> None:
    offsets, times = offset_index(tmp_path, b""), time_index(tmp_path, b"")
    assert (offsets.lookup(5000), offsets.entry_before(10)[1], offsets.last_position()) == (0, 0, 0)
    assert times.lookup(5000) == times.last() == (-1, BASE)
    assert offsets.sound()
    assert times.sound()


def test_truncation_drops_entries_at_and_after_the_offset_on_disk_too(offsets: OffsetIndex, times: TimeIndex) -> None:
    for index in (offsets, times):
        index.save()
        index.truncate_to(1020)
        assert index.entry_count == 1
        assert Path(index.path).stat().st_size == index.ENTRY.size
    offsets.append(1015, 180)
    assert offsets.lookup(1019) == 180


def test_released_index_is_read_back_unchanged(offsets: OffsetIndex, times: TimeIndex) -> None:
    offsets.release()
    times.release()
    assert (offsets.entry_count, offsets.last_position()) == (3, 400)
    assert times.last() == (71, 1035)
    offsets.append(1050, 500)
    assert (offsets.lookup(1040), offsets.lookup(1050)) == (400, 500)
    assert times.lookup(70)[1] == 1020


def test_entries_are_written_to_the_file_in_blocks(tmp_path: Path) -> None:
    index = offset_index(tmp_path, b"")
    for number in range(1, 1001):
        index.append(BASE + number, number * 100)
    assert 0 < Path(index.path).stat().st_size < index.size_bytes == 8000
    index.save()
    assert Path(index.path).stat().st_size == 8000


def test_rebuilding_equal_entries_does_not_write_the_file(offsets: OffsetIndex) -> None:
    offsets.save()
    before = Path(offsets.path).stat().st_mtime_ns
    offsets.unsynced = False
    offsets.rebuild()
    assert (offsets.entry_count, offsets.lookup(5000)) == (0, 0)
    for offset, position in ((1010, 100), (1020, 250), (1035, 400)):
        offsets.append(offset, position)
    offsets.save()
    assert Path(offsets.path).stat().st_mtime_ns == before
    assert offsets.unsynced  # the process that wrote it may have died before the sync


@pytest.mark.parametrize("count", [0, 2, 3, 1000])
def test_rebuilding_other_entries_replaces_the_file(count: int, offsets: OffsetIndex) -> None:
    offsets.save()
    offsets.rebuild()
    for number in range(1, count + 1):
        offsets.append(BASE + number, number)
    offsets.save()
    assert offsets.unsynced
    assert Path(offsets.path).read_bytes() == b"".join(pack(">ii", number, number) for number in range(1, count + 1))
    offsets.append(9999, 9999)
    offsets.save()
    assert Path(offsets.path).stat().st_size == (count + 1) * 8


@pytest.mark.parametrize(
    ("content", "sound"),
    [
        (pack(">ii", 10, 100), True),
        (pack(">iiii", 10, 100, 20, 250), True),
        (pack(">iiii", 10, 100, 20, 250)[:-3], False),
        (pack(">iiii", 10, 100, 0, 0), False),
        (bytes(4096), False),
        (pack(">iiii", 10, 100, 20, 100), False),
        (pack(">ii", -1, 100), False),
    ],
)
def test_torn_and_preallocated_offset_indexes_are_not_sound(content: bytes, sound: bool, tmp_path: Path) -> None:
    assert offset_index(tmp_path, content).sound() is sound


@pytest.mark.parametrize(
    ("content", "sound"),
    [
        (pack(">qi", 0, 0), True),
        (pack(">qiqi", 50, 10, 70, 20), True),
        (pack(">qiqi", 50, 10, 70, 20)[:-1], False),
        (pack(">qiqi", 50, 10, 0, 0), False),
        (bytes(1200), False),
        (pack(">qiqi", 50, 10, 50, 20), False),
    ],
)
def test_torn_and_preallocated_time_indexes_are_not_sound(content: bytes, sound: bool, tmp_path: Path) -> None:
    assert time_index(tmp_path, content).sound() is sound
