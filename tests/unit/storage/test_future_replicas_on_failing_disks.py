"""Crashes and disk failures during moves between directories: one log with all its batches is left."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.steps import finish
from tests.disks import FaultyDisk
from tests.logs import content, fill
from tests.unit.storage.moving import CONFIG, KB, Manager, found, promoted, restarted


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    Manager.made = []
    yield
    for manager in Manager.made:
        manager.crash()


@pytest.fixture
def manager(tmp_path: Path) -> Manager:
    return Manager(tmp_path)


def crashed_after(folder: Path, steps_done: int) -> tuple[Manager, bytes, bool]:
    """Move a log for some steps, each followed by an append, and crash; return the next manager and the content."""
    manager = Manager(folder)
    log = manager.create_log()
    fill(log, 25, size=20 * KB)
    steps = manager.moves.steps(manager.started(log))
    answer, over = None, False
    for _ in range(steps_done):
        try:
            step = steps.send(answer)
        except StopIteration:
            over = True
            break
        answer = None if step is None else step()
        fill(log, 1)
    return restarted(manager), content(log), over


def test_crash_after_any_step_leaves_one_complete_log(tmp_path: Path) -> None:
    homes = []
    for steps_done in count():
        again, data, over = crashed_after(tmp_path / str(steps_done), steps_done)
        log = found(again)
        assert content(log) == data
        [name] = again.names()
        homes.append(name)
        assert [*again.moves.interrupted] == ([("topic", 0)] if name == "a/topic-0" else [])
        fill(log, 1)
        if over:
            break
    assert homes == sorted(homes)
    assert len(homes) > 6
    assert {*homes} == {"a/topic-0", "b/topic-0"}


KINDS = ("create", "open", "replace", "rename", "pwrite", "truncate", "sync", "sync_dir")


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("kind", KINDS)
def test_log_is_intact_after_any_failed_disk_call_and_a_restart(tmp_path: Path, kind: str, code: int) -> None:
    failed = True
    for number in count():
        if not failed:
            break
        disk = FaultyDisk()
        manager = Manager(tmp_path / str(number), disk)
        log = manager.create_log(CONFIG._replace(segment_bytes=70 * KB))
        fill(log, 8, size=20 * KB)
        data = content(log)
        disk.arm(kind, code, after=number)
        try:
            manager.moved(log)
        except KafkaError:
            manager.moves.cancel(log)
        failed = disk.disarm(kind)
        if manager.directory_of(log).failure is None:
            assert content(log) == data
        if code == errno.ENOSPC and "sync" not in kind:
            assert len(manager.online) == 2
        again = restarted(manager)
        assert content(found(again)) == data
    assert number > 1


def test_full_target_directory_cancels_the_move_and_leaves_no_files(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk)
    log = manager.create_log()
    fill(log, 25, size=20 * KB)
    data = content(log)
    disk.arm("pwrite", errno.ENOSPC, after=2)
    with pytest.raises(KafkaError, match=r"/b is full"):
        manager.moved(log)
    manager.moves.cancel(log)
    list(manager.delete_files(manager.now))
    assert not list(Path(manager.second.path).glob("topic*"))
    assert (content(log), manager.second.failure) == (data, None)


def test_a_damaged_batch_ends_the_move(manager: Manager) -> None:
    log = manager.create_log()
    fill(log, 3)
    path = Path(log.directory) / "00000000000000000000.log"
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(KafkaError) as refused:
        manager.moved(log)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert manager.directory_of(log) is manager.first


def test_the_old_files_are_deleted_only_once_the_newer_log_is_open(manager: Manager, tmp_path: Path) -> None:
    data = content(promoted(manager))
    manager.crash()
    disk = FaultyDisk()
    disk.arm("open", errno.EMFILE)
    again = Manager(tmp_path, disk)
    assert (again.get("topic", 0), again.names()) == (None, ["a/topic-0", "b/topic-0"])
    third = restarted(again)
    assert (content(found(third)), third.names()) == (data, ["b/topic-0"])
    assert f"{tmp_path}/a/topic-0 is deleted" in third.problems[0]


def test_clean_shutdown_deletes_the_old_files(manager: Manager) -> None:
    data = content(promoted(manager))
    again = restarted(manager, clean=True)
    assert (content(found(again)), again.names(), again.problems) == (data, ["b/topic-0"], [])


def test_next_move_begins_before_the_old_files_are_deleted(manager: Manager) -> None:
    log = promoted(manager)
    assert manager.moves.begin(log, manager.second) is None
    move = manager.moves.begin(log, manager.first)
    assert move is not None
    assert manager.names() == ["a/topic-0…-future", "b/topic-0"]
    finish(manager.moves.steps(move))
    assert (manager.names(), log.log_end_offset) == (["a/topic-0"], 3)


def test_an_interrupted_move_is_known_after_the_start(manager: Manager) -> None:
    log = manager.create_log()
    manager.started(log)
    again = restarted(manager, clean=True)
    assert again.moves.interrupted == {("topic", 0): again.second}
    assert again.names() == ["a/topic-0"]
    assert restarted(again).moves.interrupted == {}
