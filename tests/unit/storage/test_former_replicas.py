"""Of two logs of a partition in two data directories, the later one is used."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from protocol.errors import InvariantError, KafkaError
from storage.disk import OsDisk
from storage.former_replicas import MOVES_FILE, moves_of
from storage.log.log import Log
from tests.disks import FaultyDisk
from tests.logs import TOPIC_ID, fill
from tests.unit.storage.test_log_manager import CONFIG, Manager, _closed, create, folders

__all__ = ["_closed"]


def test_a_damaged_count_of_moves_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / MOVES_FILE).write_bytes(b"\0\0")
    assert moves_of(OsDisk(), str(tmp_path)) == 0


def test_unmoved_partition_in_two_directories_is_refused(manager: Manager, tmp_path: Path) -> None:
    create(manager, "t")
    manager.crash()
    (tmp_path / "b" / "t-0").mkdir()
    with pytest.raises(InvariantError, match="are the same partition"):
        Manager(tmp_path / "a", tmp_path / "b").start()


def test_directory_entries_found_after_a_crash_are_synced_first(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk=disk)
    manager.start()
    create(manager)
    manager.crash()
    disk.calls.clear()
    Manager(tmp_path, disk=disk).start()
    changes = ("sync_dir", "rename", "replace", "truncate", "write")
    assert next(call for call in disk.calls if call[0] in changes) == ("sync_dir", str(tmp_path))


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def manager(tmp_path: Path, disk: FaultyDisk) -> Manager:
    """Return a manager of two directories."""
    manager = Manager(tmp_path / "a", tmp_path / "b", disk=disk)
    manager.start()
    return manager


def former_log_on_full_disk(manager: Manager, disk: FaultyDisk, take_away: str) -> Log:
    """Keep the log t-0 of 3 records in the first directory, whose full disk fails its deletion or its stray mark."""
    former = manager.create("t", TOPIC_ID, 0, CONFIG, manager.directories[0].directory_id)
    fill(former, 3)
    disk.arm("rename", errno.ENOSPC)
    with pytest.raises(KafkaError):
        getattr(manager, take_away)("t", 0)
    return former


NEXT_TOPIC_ID = bytes(reversed(TOPIC_ID))


@pytest.mark.parametrize("take_away", ["delete", "mark_stray"])
@pytest.mark.parametrize("fails", [False, True])
def test_recreated_log_in_another_directory_replaces_the_former_one(
    fails: bool, take_away: str, manager: Manager, disk: FaultyDisk, tmp_path: Path
) -> None:
    former_log_on_full_disk(manager, disk, take_away)
    first, second = manager.directories
    read_file = disk.read_file

    def read(path: str) -> bytes:
        if fails and path.startswith(first.path):
            raise OSError(errno.EIO, "broken", path)
        return read_file(path)

    disk.read_file = read  # type: ignore[method-assign]
    log = manager.create("t", NEXT_TOPIC_ID, 0, CONFIG, second.directory_id)
    fill(log, 1)
    assert second.failure is None
    manager.crash()
    disk.read_file = read_file  # type: ignore[method-assign]
    again = Manager(tmp_path / "a", tmp_path / "b", disk=disk)
    [found] = again.start()
    assert (found.directory, found.topic_id, found.log_end_offset) == (log.directory, log.topic_id, 1)


@pytest.mark.parametrize(("take_away", "suffix"), [("delete", "-delete"), ("mark_stray", "-stray")])
def test_recreated_log_in_the_same_directory_is_distinct_from_the_former_one(
    take_away: str, suffix: str, manager: Manager, disk: FaultyDisk
) -> None:
    former_log_on_full_disk(manager, disk, take_away)
    first = manager.directories[0]
    log = manager.create("t", NEXT_TOPIC_ID, 0, CONFIG, first.directory_id)
    assert (log.topic_id, log.log_end_offset) == (NEXT_TOPIC_ID, 0)
    assert sorted(name[-len(suffix) :] for name in folders(manager)) == sorted(["t-0", suffix])


@pytest.mark.parametrize("call", ["replace", "rename", "create"])
def test_crash_during_creation_of_the_next_log_leaves_one_valid_log(
    call: str, manager: Manager, disk: FaultyDisk, tmp_path: Path
) -> None:
    former_log_on_full_disk(manager, disk, "delete")
    check, second = disk.check, manager.directories[1]

    def refuse(kind: str, path: str) -> None:
        if kind == call and path.startswith(f"{second.path}/t-0"):
            raise OSError(errno.ENOSPC, "full", path)
        check(kind, path)

    disk.check = refuse  # type: ignore[method-assign]
    with pytest.raises(KafkaError):
        manager.create("t", NEXT_TOPIC_ID, 0, CONFIG, second.directory_id)
    manager.crash()
    disk.check = check  # type: ignore[method-assign]
    again = Manager(tmp_path / "a", tmp_path / "b", disk=disk)
    [found] = again.start()
    assert found.log_end_offset == (0 if call == "create" else 3)


def test_creation_of_the_next_log_succeeds_on_retry(manager: Manager, disk: FaultyDisk) -> None:
    former_log_on_full_disk(manager, disk, "delete")
    second = manager.directories[1].directory_id
    disk.arm("create", errno.ENOSPC)
    with pytest.raises(KafkaError):
        manager.create("t", NEXT_TOPIC_ID, 0, CONFIG, second)
    assert manager.create("t", NEXT_TOPIC_ID, 0, CONFIG, second).topic_id == NEXT_TOPIC_ID


@pytest.mark.parametrize("moves", [0, 4])
def test_log_whose_rename_a_power_cut_undoes_is_replaced_by_the_next_one(
    moves: int, manager: Manager, disk: FaultyDisk, tmp_path: Path
) -> None:
    first, second = manager.directories
    former = manager.create("t", TOPIC_ID, 0, CONFIG, first.directory_id)
    fill(former, 3)
    Path(former.directory, MOVES_FILE).write_text(f"{moves}\n")
    manager.delete("t", 0)
    [renamed] = [path for path in Path(first.path).iterdir() if path.name.endswith("-delete")]
    first.fail(OSError(errno.EIO, "broken"))  # before its new entry is synced
    log = manager.create("t", NEXT_TOPIC_ID, 0, CONFIG, second.directory_id)
    fill(log, 1)
    manager.crash()
    renamed.rename(former.directory)
    [found] = Manager(tmp_path / "a", tmp_path / "b", disk=disk).start()
    assert (found.directory, found.topic_id, found.log_end_offset) == (log.directory, NEXT_TOPIC_ID, 1)


def test_renames_of_former_logs_are_synced_before_the_next_log_is_created_elsewhere(
    manager: Manager, disk: FaultyDisk
) -> None:
    first, second = manager.directories
    manager.create("t", TOPIC_ID, 0, CONFIG, first.directory_id)
    manager.delete("t", 0)
    manager.checkpoint()  # the checkpoint files name the former log no more
    disk.calls.clear()
    log = manager.create("t", NEXT_TOPIC_ID, 0, CONFIG, second.directory_id)
    created = next(number for number, (_, path) in enumerate(disk.calls) if path.startswith(log.directory))
    assert ("sync_dir", first.path) in disk.calls[:created]


def test_removed_logs_of_which_the_directory_is_synced_are_forgotten(manager: Manager, disk: FaultyDisk) -> None:
    first, second = manager.directories
    for partition in range(3):
        manager.create("t", TOPIC_ID, partition, CONFIG, first.directory_id)
        manager.delete("t", partition)
    first.full = True  # no delay
    assert list(manager.deletion_queue.delete_due(0)) == [None] * 3
    removed = manager.deletion_queue.take_removed()
    assert [(directory, len(formers)) for directory, formers in removed.items()] == [(first, 3)]
    assert manager.deletion_queue.take_removed() == {}
    manager.deletion_queue.synced(removed[first])
    manager.checkpoint()
    disk.calls.clear()
    manager.create("t", NEXT_TOPIC_ID, 0, CONFIG, second.directory_id)
    assert ("sync_dir", first.path) not in disk.calls


def test_log_recreated_twice_supersedes_one_that_could_not_be_renamed(
    manager: Manager, disk: FaultyDisk, tmp_path: Path
) -> None:
    former_log_on_full_disk(manager, disk, "delete")
    second = manager.directories[1]
    manager.create("t", NEXT_TOPIC_ID, 0, CONFIG, second.directory_id)
    manager.delete("t", 0)
    log = manager.create("t", NEXT_TOPIC_ID, 0, CONFIG, second.directory_id)
    fill(log, 1)
    manager.crash()
    [found] = Manager(tmp_path / "a", tmp_path / "b", disk=disk).start()
    assert (found.directory, found.log_end_offset) == (log.directory, 1)


@pytest.mark.parametrize("moves", [0, 1, 4])
def test_third_log_supersedes_the_first_one_which_a_power_cut_restores(
    moves: int, disk: FaultyDisk, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in "abc"]
    manager = Manager(*folders, disk=disk)
    manager.start()
    first, second, third = manager.directories
    former = manager.create("t", TOPIC_ID, 0, CONFIG, first.directory_id)
    fill(former, 3)
    Path(former.directory, MOVES_FILE).write_text(f"{moves}\n")
    manager.delete("t", 0)
    [renamed] = [path for path in Path(first.path).iterdir() if path.name.endswith("-delete")]
    first.fail(OSError(errno.EIO, "broken"))  # before its new entry is synced
    manager.create("t", NEXT_TOPIC_ID, 0, CONFIG, second.directory_id)
    manager.delete("t", 0)
    log = manager.create("t", NEXT_TOPIC_ID, 0, CONFIG, third.directory_id)
    fill(log, 1)
    manager.crash()
    renamed.rename(former.directory)
    [found] = Manager(*folders, disk=disk).start()
    assert (found.directory, found.log_end_offset) == (log.directory, 1)


def test_deletion_in_the_only_directory_has_nothing_to_sync(tmp_path: Path, disk: FaultyDisk) -> None:
    manager = Manager(tmp_path / "only", disk=disk)
    manager.start()
    create(manager, "t")
    manager.directories[0].full = True  # no delay
    manager.delete("t", 0)
    assert list(manager.deletion_queue.delete_due(0)) == [None]
    assert manager.deletion_queue.take_removed() == {}
