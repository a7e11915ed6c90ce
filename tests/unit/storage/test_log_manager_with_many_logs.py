"""The cost of many idle logs: little at a start, and a bounded number of descriptors."""

import os
from pathlib import Path
from random import Random

import pytest

from storage.disk import Buffer, OsFile
from storage.log.config import LogConfig
from storage.log.log import Log
from storage.log_manager import LogManager
from tests.disks import FaultyDisk, FaultyFile
from tests.logs import NOW_MS, TOPIC_ID, batch, content, fill

LOGS = 30
MOST = 10
VALUE_BYTES = 20_000
SIZE = len(batch(size=VALUE_BYTES))
CONFIG = LogConfig(segment_bytes=4 * SIZE, index_interval_bytes=SIZE)


class CountingDisk(FaultyDisk):
    """A disk that counts the bytes read of each kind of file in log directories."""

    def __init__(self) -> None:
        super().__init__()
        self.read_bytes: dict[str, int] = {}

    def note(self, path: str, data: Buffer) -> None:
        kind = os.path.splitext(path)[1]
        self.read_bytes[kind] = self.read_bytes.get(kind, 0) + len(data)

    def open_file(self, path: str, create: bool = False) -> OsFile:
        self.check("create" if create else "open", path)
        return CountingFile(self, path, os.O_RDWR | (os.O_CREAT if create else 0))

    def read_file(self, path: str) -> bytes:
        data = super().read_file(path)
        self.note(path, data)
        return data


class CountingFile(FaultyFile):
    """A file of a `CountingDisk`."""

    __slots__ = ()

    def pread(self, size: int, offset: int) -> bytes:
        data = super().pread(size, offset)
        assert isinstance(self._disk, CountingDisk)
        self._disk.note(self.path, data)
        return data


def started(folder: Path, disk: FaultyDisk) -> LogManager:
    manager = LogManager(disk, [str(folder)], CONFIG, now_ms=lambda: NOW_MS, random=Random(1))
    manager.open()
    manager.format("WV5yoIVIQ7q2wIB0pOwZQg", 1)
    for _ in manager.load():
        pass
    return manager


def written(folder: Path, batches: int, *, clean: bool, flushed: int = 0) -> None:
    """Write `batches` batches to each log, sync the first `flushed` of them, and stop."""
    manager = started(folder, FaultyDisk())
    for number in range(LOGS):
        log = manager.create("topic", TOPIC_ID, number, CONFIG)
        fill(log, flushed, size=VALUE_BYTES)
        log.flush(NOW_MS)
        fill(log, batches - flushed, size=VALUE_BYTES)
    manager.checkpoint()
    manager.close(clean=clean)


def open_segments(folder: Path) -> int:
    """Return the number of `.log` files in `folder` that this process has open."""
    paths = (os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd"))
    return sum(path.startswith(f"{folder}/") and path.endswith(".log") for path in paths)


@pytest.fixture
def disk() -> CountingDisk:
    return CountingDisk()


def test_clean_start_writes_nothing_and_reads_little_of_each_log(tmp_path: Path, disk: CountingDisk) -> None:
    written(tmp_path, 10, clean=True)
    manager = started(tmp_path, disk)
    made = [call for call in disk.calls if call[0] not in ("pread", "open")]
    assert [call for call in made if "topic-" in call[1]] == []
    segments = 3
    assert len(disk.called("open")) <= LOGS * 4 * segments
    assert disk.read_bytes[".log"] <= LOGS * segments * 3 * 4096
    assert open_segments(tmp_path) == 0
    manager.close()


def test_clean_shutdown_syncs_no_unchanged_log(tmp_path: Path, disk: CountingDisk) -> None:
    written(tmp_path, 10, clean=True)
    manager = started(tmp_path, disk)
    disk.calls.clear()
    manager.close()
    assert [call for call in disk.calls if "topic-" in call[1]] == []


@pytest.mark.parametrize(("flushed", "scanned"), [(0, 10), (5, 6), (9, 2), (10, 2)])
def test_after_an_unclean_stop_only_segments_that_end_behind_the_recovery_point_are_read(
    tmp_path: Path, disk: CountingDisk, flushed: int, scanned: int
) -> None:
    written(tmp_path, 10, clean=False, flushed=flushed)
    manager = started(tmp_path, disk)
    assert sum(log.recovery.scanned_bytes for log in manager) == LOGS * scanned * SIZE
    # Each byte is read once to be checked; headers are read again at the log end and to recover producers.
    assert scanned * SIZE <= disk.read_bytes[".log"] / LOGS <= scanned * SIZE + 3 * 10 * 4096
    manager.close(clean=False)


def test_descriptors_are_bounded_under_any_reads_and_writes(tmp_path: Path, disk: CountingDisk) -> None:
    disk.open_files.max_open = MOST
    manager = started(tmp_path, disk)
    logs: list[Log] = [manager.create("topic", TOPIC_ID, number, CONFIG) for number in range(LOGS)]
    for _ in range(3):
        for log in logs:
            fill(log, 2, size=VALUE_BYTES)
            assert open_segments(tmp_path) <= MOST
    for log in logs:
        assert len(content(log)) == 6 * SIZE
        assert open_segments(tmp_path) <= MOST
    for log in logs:
        log.flush(NOW_MS)
        log.truncate_to(3)
        fill(log, 1, size=VALUE_BYTES)
        assert log.log_end_offset == 4
    assert open_segments(tmp_path) <= MOST
    manager.close()


def test_slice_stays_readable_after_its_segment_is_closed(tmp_path: Path, disk: CountingDisk) -> None:
    disk.open_files.max_open = 1
    manager = started(tmp_path, disk)
    first, second = (manager.create("topic", TOPIC_ID, number, CONFIG) for number in range(2))
    fill(first, 1, size=VALUE_BYTES)
    [part] = first.read(0, 1 << 20, limit_offset=1).slices
    fill(second, 1, size=VALUE_BYTES)
    assert len(disk.open_files) == 1
    assert len(part.read(0, SIZE)) == SIZE
    del part
    assert open_segments(tmp_path) == 1
    manager.close()


def test_maintenance_of_many_logs_runs_in_steps(
    tmp_path: Path, disk: CountingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.log_manager._LOGS_A_STEP", 10)
    written(tmp_path, 10, clean=True)
    manager = started(tmp_path, disk)
    assert list(manager.due_flushes(NOW_MS)) == [None] * (LOGS // 10)
    assert list(manager.delete_files(NOW_MS)) == [None] * (LOGS // 10)
    manager.close()


def test_file_of_a_deleted_log_is_closed_though_the_log_is_referenced(tmp_path: Path, disk: CountingDisk) -> None:
    manager = started(tmp_path, disk)
    log = manager.create("topic", TOPIC_ID, 0, CONFIG)
    fill(log, 6, size=VALUE_BYTES)
    assert len(content(log)) == 6 * SIZE
    sent = log.read(0, SIZE, limit_offset=6)
    assert open_segments(tmp_path) == 2
    manager.delete("topic", 0)
    assert open_segments(tmp_path) == 1
    del sent
    assert open_segments(tmp_path) == 0
    assert log.offline
    manager.close(clean=False)
