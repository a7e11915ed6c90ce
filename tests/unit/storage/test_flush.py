from pathlib import Path

import pytest

from storage.flush import Flush
from tests.disks import FaultyDisk


def flush_of(folder: Path, disk: FaultyDisk, finished: list[Flush]) -> Flush:
    files = [disk.open_file(str(folder / name), create=True) for name in ("a", "b")]
    return Flush(disk, [str(folder)], files, 7, 0, finished.append)


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


@pytest.mark.parametrize("kind", ["sync", "sync_dir"])
def test_a_failure_waits_for_the_end_and_nothing_is_tried_again(kind: str, tmp_path: Path) -> None:
    disk, finished = FaultyDisk(), list[Flush]()
    flush = flush_of(tmp_path, disk, finished)
    disk.arm(kind)
    flush.run()
    assert finished == [flush]
    assert isinstance(flush.error, OSError)
    assert len(disk.called(kind)) == 1
