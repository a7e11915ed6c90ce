import errno
from pathlib import Path

import pytest

from protocol.errors import KafkaError
from storage.log.flush import Flush, sync_truncation
from storage.log_directory import LogDirectory
from tests.disks import FaultyDisk


def flush_of(folder: Path, disk: FaultyDisk, finished: list[Flush]) -> Flush:
    files = [disk.open_file(str(folder / name), create=True) for name in ("a", "b")]
    return Flush(disk, [str(folder)], files, (), 7, 0, finished.append)  # type: ignore[arg-type]  # stands in for it


def test_files_are_synced_before_the_directory_that_names_them(tmp_path: Path) -> None:
    disk, finished = FaultyDisk(), list[Flush]()
    flush = flush_of(tmp_path, disk, finished)
    flush.sync()
    assert [call for call in disk.calls if "sync" in call[0]] == [
        ("sync", str(tmp_path / "a")),
        ("sync", str(tmp_path / "b")),
        ("sync_dir", str(tmp_path)),
    ]
    assert finished == []
    flush.finish()
    assert finished == [flush]
    assert flush.error is None


def test_unfinished_flush_does_not_count_as_synced(tmp_path: Path) -> None:
    finished = list[Flush]()
    flush_of(tmp_path, FaultyDisk(), finished).finish()
    assert isinstance(finished[0].error, OSError)


@pytest.mark.parametrize("kind", ["sync", "sync_dir"])
def test_failed_sync_is_reported_at_the_end_and_not_retried(kind: str, tmp_path: Path) -> None:
    disk, finished = FaultyDisk(), list[Flush]()
    flush = flush_of(tmp_path, disk, finished)
    disk.arm(kind)
    flush.run()
    assert finished == [flush]
    assert isinstance(flush.error, OSError)
    assert len(disk.called(kind)) == 1


def test_files_of_a_running_flush_belong_to_the_next_one_too(tmp_path: Path) -> None:
    disk, finished = FaultyDisk(), list[Flush]()
    under_way = flush_of(tmp_path, disk, finished)
    file = disk.open_file(str(tmp_path / "c"), create=True)
    Flush(disk, [], [file], (under_way,), 9, 0, finished.append).run()
    assert [path[-1] for kind, path in disk.calls if kind == "sync"] == ["c", "a", "b"]
    assert disk.called("sync_dir") == [tmp_path.name]


def test_renamed_directory_does_not_fail_a_flush(tmp_path: Path) -> None:
    disk, finished = FaultyDisk(), list[Flush]()
    (tmp_path / "log").mkdir()
    flush = flush_of(tmp_path / "log", disk, finished)
    (tmp_path / "log").rename(tmp_path / "log-delete")
    flush.run()
    assert flush.error is None


def test_failed_sync_of_a_truncation_takes_the_directory_offline(tmp_path: Path) -> None:
    disk = FaultyDisk()
    home = LogDirectory(disk, str(tmp_path))
    file = disk.open_file(str(tmp_path / "a"), create=True)
    sync_truncation(disk, home, str(tmp_path), file)
    assert (disk.called("sync"), disk.called("sync_dir")) == (["a"], [tmp_path.name])
    disk.arm("sync_dir", errno.ENOSPC)
    with pytest.raises(KafkaError, match="failed"):
        sync_truncation(disk, home, str(tmp_path), file)
    assert home.failure is not None
