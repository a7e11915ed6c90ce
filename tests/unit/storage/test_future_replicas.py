"""Logs that move between directories during appends and other operations stay intact."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.disk import OsDisk
from storage.former_replicas import moves_of
from storage.steps import finish
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, batch, content, fill
from tests.unit.storage.moving import CONFIG, KB, Manager, found, promoted, restarted, state


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    Manager.made = []
    yield
    for manager in Manager.made:
        manager.crash()


@pytest.fixture
def manager(tmp_path: Path) -> Manager:
    return Manager(tmp_path)


# State that a move keeps


def test_a_moved_log_is_the_same_in_the_other_directory(manager: Manager) -> None:
    log = manager.create_log()
    for epoch in range(3):
        log.assign_leader_epoch(epoch)
        fill(log, 30, size=20 * KB, epoch=epoch)
    log.append_as_leader(batch(3, producer_id=7, producer_epoch=1, base_sequence=0), 3, NOW_MS)
    log.assign_leader_epoch(5)
    log.update_high_watermark(60)
    before = state(log)
    manager.moved(log)
    assert state(log) == before
    assert manager.names() == ["b/topic-0"]
    assert manager.directory_of(log) is manager.second
    assert log.directory == f"{manager.second.path}/topic-0"
    assert not list(manager.moves)


@pytest.mark.parametrize("clean", [True, False])
def test_a_moved_log_is_found_again(manager: Manager, clean: bool) -> None:
    log = manager.create_log()
    fill(log, 40, size=20 * KB)
    log.append_as_leader(batch(3, producer_id=7, producer_epoch=1, base_sequence=0), 0, NOW_MS)
    manager.moved(log)
    fill(log, 3)
    manager.checkpoint()
    before = state(log)
    again = restarted(manager, clean=clean)
    assert state(found(again)) == before
    assert again.names() == ["b/topic-0"]


def test_appends_continue_during_a_move_and_go_to_the_new_files_after_it(manager: Manager) -> None:
    log = manager.create_log()
    fill(log, 40, size=20 * KB)
    appended = count()

    def append() -> None:
        if next(appended) < 50:
            fill(log, 3, size=5 * KB)

    manager.moved(log, append)
    assert next(appended) > 5
    fill(log, 2)
    data = content(log)
    assert log.high_watermark == log.log_end_offset
    again = restarted(manager)
    assert content(found(again)) == data


def test_move_catches_up_with_appends_faster_than_the_copy(manager: Manager) -> None:
    log = manager.create_log(CONFIG._replace(segment_bytes=1 << 30))
    fill(log, 40, size=20 * KB)
    steps = count()

    def append() -> None:
        assert next(steps) < 200
        fill(log, 10, size=50 * KB)

    manager.moved(log, append)
    assert manager.names() == ["b/topic-0"]


def test_an_empty_log_moves_too(manager: Manager) -> None:
    log = manager.create_log()
    manager.moved(log)
    assert (log.log_end_offset, manager.names()) == (0, ["b/topic-0"])
    fill(log, 1)
    assert log.log_end_offset == 1


@pytest.mark.parametrize("start", [7, 60])
def test_deleted_records_stay_deleted(manager: Manager, start: int) -> None:
    log = manager.create_log()
    fill(log, 12, count=5, size=2 * KB)
    manager.delete_records(log, start)
    manager.save_log_starts()
    manager.moved(log)
    assert (log.log_start_offset, log.log_end_offset) == (start, 60)
    data = content(log)
    again = restarted(manager)
    assert (found(again).log_start_offset, content(found(again))) == (start, data)


def test_records_deleted_during_a_move_stay_deleted(manager: Manager) -> None:
    log = manager.create_log()
    fill(log, 60, size=20 * KB)
    deleted = iter((5, 33, 60))

    def delete() -> None:
        for offset in deleted:
            manager.delete_records(log, offset)
            return

    manager.moved(log, delete)
    fill(log, 1)
    assert (log.log_start_offset, log.log_end_offset) == (60, 61)
    data = content(log)
    assert content(found(restarted(manager))) == data


def test_records_truncated_during_a_move_are_not_copied(manager: Manager) -> None:
    log = manager.create_log()
    fill(log, 60, size=20 * KB)
    truncations = {4: 55, 9: 3}  # by number of steps
    steps = count(1)
    written = b""

    def cut() -> None:
        nonlocal written
        offset = truncations.get(next(steps))
        if offset is not None:
            assert next(iter(manager.moves)).copy.log_end_offset > 3
            log.truncate_to(offset)
            fill(log, 4, size=30 * KB, epoch=1)
            written = content(log)

    manager.moved(log, cut)
    assert log.log_end_offset == 7
    assert [entry.epoch for entry in log.leader_epochs.entries] == [0, 1]
    assert content(log) == written
    assert content(found(restarted(manager))) == written


def test_durable_records_are_durable_after_a_move(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk)
    log = manager.create_log(CONFIG._replace(flush_messages=1))
    fill(log, 20, size=20 * KB)
    manager.moved(log, lambda: fill(log, 1))
    assert log.recovery_point == log.log_end_offset
    promoted, retired = (number for number, (kind, _) in enumerate(disk.calls) if kind == "rename")
    synced = {path for kind, path in disk.calls[:promoted] if kind == "sync"}
    assert any("-future/0" in path and path.endswith(".log") for path in synced)
    in_target = ("sync_dir", manager.second.path)
    assert in_target in disk.calls[:promoted]
    assert in_target in disk.calls[promoted:retired]


def test_log_moves_to_the_other_directory_and_back(manager: Manager) -> None:
    log = manager.create_log()
    fill(log, 5)
    for number in range(1, 5):
        target = (manager.first, manager.second)[number % 2]
        move = manager.moves.begin(log, target)
        assert move is not None
        finish(manager.moves.steps(move))
        fill(log, 1)
        assert moves_of(OsDisk(), log.directory) == number
    data = content(log)
    again = restarted(manager)
    assert (content(found(again)), again.names()) == (data, ["a/topic-0"])


def test_search_in_progress_fails_with_not_leader_after_a_move(manager: Manager) -> None:
    log = manager.create_log()
    fill(log, 3, count=100, size=KB)
    search = log.offset_for_timestamp(NOW_MS)
    next(search)
    manager.moved(log)
    with pytest.raises(KafkaError) as reported:
        next(search)
    assert reported.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_slice_of_the_old_files_stays_readable(manager: Manager) -> None:
    log = manager.create_log()
    fill(log, 3)
    data = content(log)
    [part] = log.read(0, 1 << 20, limit_offset=3).slices
    manager.moved(log)
    manager.now += CONFIG.file_delete_delay_ms
    assert list(manager.delete_files(manager.now)) == [None]
    assert not list(Path(manager.first.path).glob("topic*"))
    assert part.read(0, part.size_bytes) == data


# Requests


def test_move_to_the_present_directory_does_nothing(manager: Manager) -> None:
    log = manager.create_log()
    assert manager.moves.begin(log, manager.first) is None
    assert manager.names() == ["a/topic-0"]


def test_repeated_move_request_changes_nothing(manager: Manager) -> None:
    log = manager.create_log()
    move = manager.started(log)
    assert manager.moves.begin(log, manager.second) is None
    assert list(manager.moves) == [move]


def test_move_back_cancels_a_move(manager: Manager) -> None:
    log = manager.create_log()
    fill(log, 3)
    move = manager.started(log)
    assert manager.names() == ["a/topic-0", "b/topic-0…-future"]
    assert manager.moves.begin(log, manager.first) is None
    assert move not in manager.moves
    assert manager.names() == ["a/topic-0"]
    list(manager.delete_files(manager.now))
    assert not list(Path(manager.second.path).glob("topic*"))


def test_deleting_a_log_deletes_its_copy(manager: Manager) -> None:
    log = manager.create_log()
    fill(log, 3)
    move = manager.started(log)
    next(manager.moves.steps(move))
    manager.delete("topic", 0)
    assert move not in manager.moves
    assert manager.names() == []


def test_deleting_a_log_deletes_the_old_files_of_an_unfinished_move(manager: Manager) -> None:
    promoted(manager)
    assert manager.names() == ["a/topic-0", "b/topic-0"]
    manager.delete("topic", 0)
    assert manager.names() == []
    assert manager.create_log().log_end_offset == 0


def test_nothing_moves_while_a_directory_is_offline(manager: Manager) -> None:
    log = manager.create_log()
    manager.second.give_up(OSError(errno.EIO, "broken"))
    with pytest.raises(KafkaError) as refused:
        manager.moves.begin(log, manager.second)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_the_old_files_are_durably_renamed_before_the_move_is_over(tmp_path: Path) -> None:
    """Otherwise a power cut after the log's deletion would bring them back as the log."""
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk)
    log = manager.create_log()
    fill(log, 3)
    manager.moved(log)
    renamed = disk.calls.index(("rename", f"{manager.first.path}/topic-0"))
    assert ("sync_dir", manager.first.path) in disk.calls[renamed:]


def test_the_old_files_are_durably_renamed_before_the_log_is_deleted(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk)
    promoted(manager)
    disk.calls.clear()
    manager.delete("topic", 0)
    renamed, *deleted = [
        number for number, (kind, path) in enumerate(disk.calls) if (kind, path[-8:]) == ("rename", "/topic-0")
    ]
    assert ("sync_dir", manager.first.path) in disk.calls[renamed : deleted[0]]
