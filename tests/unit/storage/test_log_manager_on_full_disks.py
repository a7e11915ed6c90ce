"""Data directories on full disks."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Never

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.disk import Buffer
from storage.log.log import Log
from tests.disks import FaultyDisk
from tests.logs import TOPIC_ID, batch, fill
from tests.unit.storage.test_log_manager import CONFIG, Manager, _closed, create, folders

__all__ = ["_closed"]


def test_log_deleted_on_a_full_disk_is_removed_without_delay(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk=disk)
    manager.start()
    create(manager)
    disk.full = True
    assert not manager.online[0].has_room()
    manager.delete("topic", 0)
    manager.run_maintenance()
    assert folders(manager) == []


def test_start_on_a_full_disk_completes_former_deletions_first(tmp_path: Path) -> None:
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


def log_files(log: Log) -> list[str]:
    return sorted(path.name for path in Path(log.directory).iterdir() if ".log" in path.suffixes)


def test_deleted_records_of_the_active_segment_free_a_full_disk_at_once(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk=disk)
    manager.start()
    log = create(manager)
    log.append_as_leader(batch(producer_id=7, producer_epoch=0, base_sequence=0), 0, manager.now)
    fill(log, 2)
    log.update_high_watermark(3)
    manager.delete_records(log, 3)
    assert manager.run_maintenance() == []
    assert log_files(log) == [f"{0:020d}.log"]
    disk.blocks_full = True
    assert not manager.online[0].has_room()
    # The producer snapshot fits on the disk once the segment's files are deleted.
    remove = disk.remove

    def removed(path: str) -> None:
        remove(path)
        if path.endswith(".log.deleted"):
            disk.blocks_full = False

    disk.remove = removed  # type: ignore[method-assign]
    assert list(manager.apply_retention(manager.now, only_full=True)) == [None]
    assert log_files(log) == [f"{3:020d}.log"]
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (3, 3, 0)
    assert (Path(log.directory) / f"{3:020d}.snapshot").stat().st_size > 0
    info = log.append_as_leader(batch(producer_id=7, producer_epoch=0, base_sequence=0), 0, manager.now)
    assert info.duplicate  # the producer state outlives the records
    assert manager.close()


def test_producer_snapshot_is_written_by_a_later_pass_on_a_full_disk(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk=disk)
    manager.start()
    log = create(manager)
    log.append_as_leader(batch(producer_id=7, producer_epoch=0, base_sequence=0), 0, manager.now)
    log.update_high_watermark(1)
    manager.delete_records(log, 1)
    disk.blocks_full = True
    assert not manager.online[0].has_room()
    assert list(manager.apply_retention(manager.now, only_full=True)) == [None]
    snapshot = Path(log.directory) / f"{1:020d}.snapshot"
    assert (log_files(log), snapshot.exists()) == ([f"{1:020d}.log"], False)
    disk.blocks_full = False
    assert manager.run_maintenance() == []
    assert snapshot.stat().st_size > 0
    assert manager.close()


def test_retention_on_a_full_disk_deletes_all_but_the_active_segment(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk=disk)
    manager.start()
    log = create(manager)
    fill(log, 1)
    log.roll(manager.now)
    fill(log, 2)
    log.update_high_watermark(3)
    manager.delete_records(log, 3)
    disk.full = True
    assert not manager.online[0].has_room()
    assert manager.run_maintenance() == []
    assert log_files(log) == [f"{1:020d}.log"]
    disk.full = False
    assert manager.run_maintenance() == []
    assert log_files(log) == [f"{3:020d}.log"]


def test_only_logs_in_full_directories_are_cleaned_up(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path / "a", tmp_path / "b", disk=disk)
    manager.start()
    logs = [create(manager, "t", partition) for partition in range(2)]
    for log in logs:
        fill(log, 1)
        log.update_high_watermark(1)
        manager.delete_records(log, 1)
    manager.directory_of(logs[0]).full = True
    assert list(manager.apply_retention(manager.now, only_full=True)) == [None]
    assert [log.size_bytes == 0 for log in logs] == [True, False]


@pytest.mark.parametrize("restarted", [True, False])
def test_full_directory_does_not_block_recreating_a_topic_never_in_it(tmp_path: Path, restarted: bool) -> None:
    full, disk = str(tmp_path / "b"), FaultyDisk()
    manager = Manager(tmp_path / "a", tmp_path / "b", disk=disk)
    manager.start()
    first, second = (directory.directory_id for directory in manager.directories)
    manager.create("t1", TOPIC_ID, 0, CONFIG, second)
    manager.create("t2", TOPIC_ID, 0, CONFIG, first)
    manager.checkpoint()
    if restarted:
        manager.crash()
        manager = Manager(tmp_path / "a", tmp_path / "b", disk=disk)
        manager.start()
    replace_file = disk.replace_file

    def replace(path: str, data: Buffer, sync: bool = True) -> None:
        if path.startswith(full):
            raise OSError(errno.ENOSPC, "full", path)
        replace_file(path, data, sync)

    disk.replace_file = replace  # type: ignore[method-assign]
    for _ in range(2):
        manager.delete("t2", 0)
        assert manager.create("t2", TOPIC_ID, 0, CONFIG, first).directory == str(tmp_path / "a" / "t2-0")
    manager.delete("t1", 0)
    with pytest.raises(KafkaError, match="checkpoint files still list a deleted log of t1-0"):
        manager.create("t1", TOPIC_ID, 0, CONFIG, first)


def test_errors_caused_by_lack_of_space_are_not_reported_again_by_the_cleanup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = Manager(tmp_path)
    manager.start()
    directory = manager.directory_of(create(manager))
    refused = directory.fail(OSError(errno.ENOSPC, "No space left on device"))
    assert directory.full

    def refuse(*_: object, **__: object) -> Never:
        raise refused

    monkeypatch.setattr(Log, "delete_old_segments", refuse)
    assert list(manager.apply_retention(manager.now, only_full=True)) == [None]
    assert list(manager.apply_retention(manager.now)) == [refused]
