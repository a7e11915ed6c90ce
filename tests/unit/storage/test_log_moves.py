"""Logs that move between directories while they are written: whatever happens, one log with all its batches is left."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import pytest

from protocol.errors import ErrorCode, InvariantError, KafkaError
from storage.disk import OsDisk
from storage.log import Log, LogConfig
from storage.log_manager import LogManager
from storage.log_moves import MOVES_FILE, LogMove, moves_of
from storage.search import Step, finish
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, TOPIC_ID, batch, content, fill

CONFIG = LogConfig(segment_bytes=200_000, file_delete_delay_ms=60)
KB = 1000


class Manager(LogManager):
    """A manager of directories a and b, with one log in a."""

    made: list[Manager]

    def __init__(self, folder: Path, disk: OsDisk | None = None, seed: int = 1) -> None:
        self.now = NOW_MS
        self.disk = disk or OsDisk()
        paths = [str(folder / name) for name in "ab"]
        super().__init__(self.disk, paths, CONFIG, now_ms=lambda: self.now, random=Random(seed))
        Manager.made.append(self)
        self.open()
        self.format("WV5yoIVIQ7q2wIB0pOwZQg", 1)
        for _ in self.load():
            pass
        self.first, self.second = self.directories

    def create_log(self, config: LogConfig = CONFIG) -> Log:
        return self.create("topic", TOPIC_ID, 0, config, self.first.directory_id)

    def started(self, log: Log) -> LogMove:
        move = self.moves.begin(log, self.second)
        assert move is not None
        return move

    def moved(self, log: Log, between: Callable[[], object] = lambda: None) -> None:
        """Move a log to the second directory; do something between every two steps."""
        steps = self.moves.steps(self.started(log))
        advance: Callable[[], Step] = partial(next, steps)
        with suppress(StopIteration):
            while True:
                step = advance()
                try:
                    advance = partial(steps.send, None if step is None else step())
                except OSError as error:
                    advance = partial(steps.throw, error)
                between()

    def crash(self) -> None:
        self.close(clean=False)

    def names(self) -> list[str]:
        """Return the directories of partitions, but for what is being deleted."""
        return [
            f"{Path(directory.path).name}/{re.sub('[.][0-9a-f]{32}', '…', path.name)}"
            for directory in self.directories
            for path in sorted(Path(directory.path).iterdir())
            if path.is_dir() and not path.name.endswith("-delete")
        ]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    Manager.made = []
    yield
    for manager in Manager.made:
        manager.crash()


@pytest.fixture
def manager(tmp_path: Path) -> Manager:
    return Manager(tmp_path)


def restarted(manager: Manager, *, clean: bool = False) -> Manager:
    manager.close(clean=clean)
    return Manager(Path(manager.first.path).parent, seed=2)


def found(manager: Manager) -> Log:
    log = manager.get("topic", 0)
    assert log is not None
    return log


def state(log: Log) -> tuple[object, ...]:
    """Return what of a log a move must not change."""
    producers = {key: (entry.epoch, entry.batches) for key, entry in log.producers.producers.items()}
    return (
        content(log), log.log_start_offset, log.log_end_offset, log.high_watermark,
        log.leader_epochs.entries, producers, log.topic_id,
    )  # fmt: skip


# What a move keeps


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


def test_appends_go_on_meanwhile_and_into_the_new_files_afterwards(manager: Manager) -> None:
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


def test_whoever_writes_faster_than_the_copy_is_caught_up_with(manager: Manager) -> None:
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


def test_records_deleted_meanwhile_stay_deleted(manager: Manager) -> None:
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


def test_what_is_truncated_meanwhile_is_not_copied(manager: Manager) -> None:
    log = manager.create_log()
    fill(log, 60, size=20 * KB)
    cuts = {4: 55, 9: 3}  # after so many steps
    steps = count(1)
    written = b""

    def cut() -> None:
        nonlocal written
        offset = cuts.get(next(steps))
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


def test_what_was_durable_is_durable_where_it_is_now(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk)
    log = manager.create_log(CONFIG._replace(flush_messages=1))
    fill(log, 20, size=20 * KB)
    manager.moved(log, lambda: fill(log, 1))
    assert log.recovery_point == log.log_end_offset
    taken_over, retired = (number for number, (kind, _) in enumerate(disk.calls) if kind == "rename")
    synced = {path for kind, path in disk.calls[:taken_over] if kind == "sync"}
    assert any("-future/0" in path and path.endswith(".log") for path in synced)
    in_target = ("sync_dir", manager.second.path)
    assert in_target in disk.calls[:taken_over]
    assert in_target in disk.calls[taken_over:retired]


def test_a_log_moves_there_and_back(manager: Manager) -> None:
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


def test_searches_under_way_are_told_to_ask_again(manager: Manager) -> None:
    log = manager.create_log()
    fill(log, 3, count=100, size=KB)
    search = log.offset_for_timestamp(NOW_MS)
    next(search)
    manager.moved(log)
    with pytest.raises(KafkaError) as told:
        next(search)
    assert told.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_slice_of_the_old_files_can_be_read_on(manager: Manager) -> None:
    log = manager.create_log()
    fill(log, 3)
    data = content(log)
    [part] = log.read(0, 1 << 20, limit_offset=3).slices
    manager.moved(log)
    manager.now += CONFIG.file_delete_delay_ms
    assert list(manager.delete_files(manager.now)) == [None]
    assert not list(Path(manager.first.path).glob("topic*"))
    assert part.read(0, part.size_bytes) == data


# What is asked for


def test_a_log_that_is_there_already_stays(manager: Manager) -> None:
    log = manager.create_log()
    assert manager.moves.begin(log, manager.first) is None
    assert manager.names() == ["a/topic-0"]


def test_asking_again_changes_nothing(manager: Manager) -> None:
    log = manager.create_log()
    move = manager.started(log)
    assert manager.moves.begin(log, manager.second) is None
    assert list(manager.moves) == [move]


def test_back_is_a_cancellation(manager: Manager) -> None:
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


def taken_over(manager: Manager) -> Log:
    """Return a log whose copy has just taken over: the old files are there under its name too."""
    log = manager.create_log()
    fill(log, 3)
    move = manager.started(log)
    for step in manager.moves.steps(move):
        if move.taken_over:
            break
        if step is not None:
            step()
    return log


def test_deleting_a_log_deletes_the_old_files_of_a_move_that_is_not_over(manager: Manager) -> None:
    taken_over(manager)
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


# Crashes and failures


def crashed_after(folder: Path, steps_done: int) -> tuple[Manager, bytes, bool]:
    """Move a log for so many steps, each followed by an append, and crash; return the next start and what was there."""
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


def test_a_crash_after_any_step_leaves_one_log_with_everything(tmp_path: Path) -> None:
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
def test_whatever_call_fails_the_log_is_whole_after_a_restart(tmp_path: Path, kind: str, code: int) -> None:
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


def test_a_full_target_leaves_the_log_where_it_is_and_nothing_behind(tmp_path: Path) -> None:
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


def test_a_partition_in_two_directories_that_was_not_moved_is_not_guessed_at(manager: Manager, tmp_path: Path) -> None:
    manager.create_log()
    manager.crash()
    (tmp_path / "b/topic-0").mkdir()
    with pytest.raises(InvariantError, match="are the same partition"):
        Manager(tmp_path)


def test_the_old_files_are_deleted_only_once_the_newer_log_is_open(manager: Manager, tmp_path: Path) -> None:
    data = content(taken_over(manager))
    manager.crash()
    disk = FaultyDisk()
    disk.arm("open", errno.EMFILE)
    again = Manager(tmp_path, disk)
    assert (again.get("topic", 0), again.names()) == (None, ["a/topic-0", "b/topic-0"])
    third = restarted(again)
    assert (content(found(third)), third.names()) == (data, ["b/topic-0"])
    assert f"{tmp_path}/a/topic-0 is deleted" in third.problems[0]


def test_a_clean_stop_retires_the_old_files(manager: Manager) -> None:
    data = content(taken_over(manager))
    again = restarted(manager, clean=True)
    assert (content(found(again)), again.names(), again.problems) == (data, ["b/topic-0"], [])


def test_moving_on_before_the_old_files_are_gone(manager: Manager) -> None:
    log = taken_over(manager)
    assert manager.moves.begin(log, manager.second) is None
    move = manager.moves.begin(log, manager.first)
    assert move is not None
    assert manager.names() == ["a/topic-0…-future", "b/topic-0"]
    finish(manager.moves.steps(move))
    assert (manager.names(), log.log_end_offset) == (["a/topic-0"], 3)


def test_a_damaged_count_of_moves_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / MOVES_FILE).write_bytes(b"\0\0")
    assert moves_of(OsDisk(), str(tmp_path)) == 0


def test_an_interrupted_move_is_known_after_the_start(manager: Manager) -> None:
    log = manager.create_log()
    manager.started(log)
    again = restarted(manager, clean=True)
    assert again.moves.interrupted == {("topic", 0): again.second}
    assert again.names() == ["a/topic-0"]
    assert restarted(again).moves.interrupted == {}
