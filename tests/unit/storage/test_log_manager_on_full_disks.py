"""What becomes of the data directories when their disks are full."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from tests.disks import FaultyDisk
from tests.unit.storage.test_log_manager import Manager, _closed, create, folders

__all__ = ["_closed"]


def test_what_is_deleted_from_a_full_disk_goes_without_delay(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk=disk)
    manager.start()
    create(manager)
    disk.full = True
    assert not manager.online[0].has_room()
    manager.delete("topic", 0)
    manager.keep_house()
    assert folders(manager) == []


def test_a_start_on_a_full_disk_deletes_first_what_was_deleted_before(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk=disk)
    manager.start()
    create(manager)
    manager.delete("topic", 0)
    manager.crash()
    again = Manager(tmp_path, disk=disk)
    again.open()
    again.make_room()
    assert len(folders(again)) == 1
    disk.full = True
    again.make_room()
    assert folders(again) == []
    disk.full = False
    again.make_room()
    assert again.online[0].has_room()


def test_there_is_no_room_for_a_log_only_if_every_directory_is_full(tmp_path: Path) -> None:
    full, disk = str(tmp_path / "a"), FaultyDisk()
    disk.free_bytes = lambda path: 0 if path == full else 1 << 30  # type: ignore[method-assign]
    manager = Manager(tmp_path / "a", tmp_path / "b", disk=disk)
    manager.start()
    manager.check_room()
    assert {create(manager, "t", partition).directory.rpartition("/")[0] for partition in range(3)} == {
        str(tmp_path / "b")
    }
    manager.directories[1].give_up(OSError(errno.EIO, "broken"))
    with pytest.raises(KafkaError, match=r"No space left in .*/a: ") as refused:
        manager.check_room()
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_full_disk_makes_the_stop_unclean_and_unlocks_the_directory(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk=disk)
    manager.start()
    disk.full = True
    assert not manager.close()
    assert any("is full" in problem for problem in manager.problems)
    disk.full = False
    again = Manager(tmp_path, disk=disk)
    again.start()
    assert not again.clean
    assert again.close()
