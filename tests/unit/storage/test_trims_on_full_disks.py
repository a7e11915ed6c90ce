"""DeleteRecords in a directory without space left, where it frees space."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from protocol.errors import KafkaError
from storage.disk import OsDisk
from storage.log.log import Log, LogConfig
from storage.log_manager import LogManager
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, TOPIC_ID, fill


class FullUntilRemoved(FaultyDisk):
    """A disk that is full until a segment is deleted."""

    def remove(self, path: str) -> None:
        super().remove(path)
        if ".log" in path:
            self.full = False


def started(folder: Path, disk: OsDisk) -> LogManager:
    manager = LogManager(disk, [str(folder)], LogConfig(), now_ms=lambda: NOW_MS, random=Random(1))
    manager.open()
    manager.format("cluster", 1)
    for _ in manager.load():
        pass
    return manager


@pytest.fixture
def disk() -> FullUntilRemoved:
    return FullUntilRemoved()


@pytest.fixture
def manager(tmp_path: Path, disk: FullUntilRemoved) -> Iterator[LogManager]:
    manager = started(tmp_path, disk)
    yield manager
    manager.close(clean=False)


@pytest.fixture
def log(manager: LogManager, disk: FullUntilRemoved) -> Log:
    """Return a log with segments at 0 and 3 and offsets up to 5, on a disk that is full by now."""
    log = manager.create("topic", TOPIC_ID, 0, LogConfig())
    fill(log, 3)
    log.roll(NOW_MS)
    fill(log, 2)
    disk.full = True
    return log


def test_delete_records_works_on_a_full_disk(manager: LogManager, log: Log, tmp_path: Path) -> None:
    manager.delete_records(log, 4)
    manager.save_log_starts()
    manager.close(clean=False)
    again = started(tmp_path, OsDisk())
    [found] = again
    assert (found.log_start_offset, found.log_end_offset) == (4, 5)
    again.close(clean=False)


def test_delete_records_that_frees_no_segment_of_a_full_disk_is_rejected(manager: LogManager, log: Log) -> None:
    manager.delete_records(log, 2)
    with pytest.raises(KafkaError, match="is full"):
        manager.save_log_starts()
    assert not manager.log_start_is_saved(log)
