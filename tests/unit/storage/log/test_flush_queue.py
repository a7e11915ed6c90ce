import errno
from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.log.flush import Flush
from storage.log.flush_queue import FlushQueue
from storage.log_directory import LogDirectory, no_directory
from tests.disks import FaultyDisk

NOW_MS = 1_000


def begun(
    flushes: FlushQueue, home: LogDirectory, end_offset: int, truncations: int = 0, *, names: bool = False
) -> Flush:
    def ignore(_: Flush) -> None: ...

    return flushes.begin([], f"{home.path}/log", home, end_offset, truncations, ignore, names=names, now_ms=NOW_MS)


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def home(disk: FaultyDisk, tmp_path: Path) -> LogDirectory:
    (tmp_path / "log").mkdir()
    return LogDirectory(disk, str(tmp_path))


def synced(disk: FaultyDisk, flush: Flush) -> list[str]:
    disk.calls.clear()
    flush.sync()
    return disk.called("sync_dir")


def test_first_flush_syncs_the_directory_and_later_ones_only_if_changed(
    disk: FaultyDisk, home: LogDirectory, tmp_path: Path
) -> None:
    flushes = FlushQueue(disk, 0)
    first = begun(flushes, home, 1)
    assert synced(disk, first) == ["log", tmp_path.name]
    flushes.finish(first, home, 0)
    second = begun(flushes, home, 2)
    assert synced(disk, second) == []
    flushes.finish(second, home, 0)
    flushes.names_changed()
    third = begun(flushes, home, 3)
    assert synced(disk, third) == ["log"]
    flushes.finish(third, home, 0)
    assert synced(disk, begun(flushes, home, 4, names=True)) == ["log"]


def test_flush_counts_once_all_earlier_ones_are_done(disk: FaultyDisk, home: LogDirectory) -> None:
    flushes = FlushQueue(disk, 0)
    first, second = begun(flushes, home, 5), begun(flushes, home, 9)
    assert flushes.begun_ms == NOW_MS
    second.sync()
    assert flushes.finish(second, home, 0) == -1
    first.sync()
    assert flushes.finish(first, home, 0) == 9


def test_flush_begun_before_a_truncation_makes_nothing_durable(disk: FaultyDisk, home: LogDirectory) -> None:
    flushes = FlushQueue(disk, 0)
    flush = begun(flushes, home, 5, truncations=0)
    flush.sync()
    assert flushes.finish(flush, home, 1) == -1


def test_a_flush_from_before_a_roll_ends_at_the_sealed_segment_at_most(disk: FaultyDisk, home: LogDirectory) -> None:
    flushes = FlushQueue(disk, 0)
    before, all_of_it = begun(flushes, home, 4), begun(flushes, home, 5)
    flushes.rolled(2, 5)
    before.sync()
    all_of_it.sync()
    assert flushes.finish(before, home, 0) == 4
    assert flushes.finish(all_of_it, home, 0) == 2


def test_directory_is_synced_at_once_unless_it_is_durable(disk: FaultyDisk, home: LogDirectory) -> None:
    flushes, path = FlushQueue(disk, 0, is_new=False), f"{home.path}/log"
    flushes.sync_names(path)
    flush = begun(flushes, home, 5)
    flushes.sync_names(path)  # the flush may not have done it yet
    flush.sync()
    flushes.finish(flush, home, 0)
    disk.calls.clear()
    flushes.sync_names(path)
    assert disk.called("sync_dir") == []


def test_failed_flush_takes_the_directory_offline_and_makes_nothing_durable(
    disk: FaultyDisk, home: LogDirectory
) -> None:
    flushes = FlushQueue(disk, 0)
    first, second = begun(flushes, home, 5), begun(flushes, home, 9)
    disk.arm("sync_dir", errno.EIO)
    first.sync()
    second.sync()
    for flush in (first, second):
        with pytest.raises(KafkaError) as caught:
            flushes.finish(flush, home, 0)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert home.failure is not None


def test_failed_flush_of_a_deleted_log_is_ignored(disk: FaultyDisk, home: LogDirectory) -> None:
    flushes = FlushQueue(disk, 0)
    flush = begun(flushes, home, 5)
    gone = no_directory(disk, home.path)
    flushes.finish(flush, gone, 0)
    assert home.failure is None
