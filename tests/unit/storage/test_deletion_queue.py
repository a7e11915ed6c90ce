import errno
from pathlib import Path
from random import Random

import pytest

from protocol.errors import KafkaError
from storage.deletion_queue import DeletionQueue
from storage.log.names import STRAY_SUFFIX
from storage.log_directory import LogDirectory
from tests.disks import FaultyDisk

KEY = ("topic", 0)
NOW_MS = 1000


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def directory(disk: FaultyDisk, tmp_path: Path) -> LogDirectory:
    (tmp_path / "topic-0").mkdir()
    (tmp_path / "topic-0/file").write_bytes(b"data")
    return LogDirectory(disk, str(tmp_path))


@pytest.fixture
def deletion_queue(disk: FaultyDisk) -> DeletionQueue:
    return DeletionQueue(disk, now_ms=lambda: NOW_MS, random=Random(1))


def names(directory: LogDirectory) -> list[str]:
    return [path.name.rpartition("-")[2] for path in Path(directory.path).iterdir()]


def test_deleted_log_is_renamed_at_once_and_removed_later(
    deletion_queue: DeletionQueue, directory: LogDirectory
) -> None:
    deletion_queue.rename_away(directory, KEY, f"{directory.path}/topic-0", delay_ms=60)
    assert names(directory) == ["delete"]
    assert list(deletion_queue.delete_due(NOW_MS + 59)) == []
    assert list(deletion_queue.delete_due(NOW_MS + 60)) == [None]
    assert names(directory) == []


def test_deletion_in_a_full_directory_has_no_delay(deletion_queue: DeletionQueue, directory: LogDirectory) -> None:
    deletion_queue.rename_away(directory, KEY, f"{directory.path}/topic-0", delay_ms=60)
    directory.full = True
    assert list(deletion_queue.delete_due(NOW_MS)) == [None]
    assert names(directory) == []


def test_stray_log_stays(deletion_queue: DeletionQueue, directory: LogDirectory) -> None:
    place = deletion_queue.rename_away(directory, KEY, f"{directory.path}/topic-0", STRAY_SUFFIX)
    assert list(deletion_queue.delete_due(NOW_MS)) == []
    assert (Path(place) / "file").read_bytes() == b"data"


def test_directories_renamed_by_an_earlier_start_are_deleted(
    deletion_queue: DeletionQueue, directory: LogDirectory
) -> None:
    deletion_queue.enqueue(directory, f"{directory.path}/topic-0")
    assert list(deletion_queue.delete_due(NOW_MS)) == [None]
    assert names(directory) == []


def test_failed_rename_changes_nothing(
    deletion_queue: DeletionQueue, directory: LogDirectory, disk: FaultyDisk
) -> None:
    disk.arm("rename", errno.ENOSPC)
    with pytest.raises(KafkaError):
        deletion_queue.rename_away(directory, KEY, f"{directory.path}/topic-0")
    assert names(directory) == ["0"]
    assert list(deletion_queue.delete_due(NOW_MS)) == []


@pytest.mark.parametrize(("code", "tried_again"), [(errno.ENOSPC, True), (errno.EIO, False)])
def test_failed_deletion_is_retried_while_the_directory_is_online(
    deletion_queue: DeletionQueue, directory: LogDirectory, disk: FaultyDisk, code: int, tried_again: bool
) -> None:
    deletion_queue.rename_away(directory, KEY, f"{directory.path}/topic-0")
    disk.arm("remove_tree", code)
    [failed] = deletion_queue.delete_due(NOW_MS)
    assert isinstance(failed, KafkaError)
    assert list(deletion_queue.delete_due(NOW_MS)) == [None] * tried_again
