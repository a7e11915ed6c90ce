import errno
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import ZERO_UUID
from storage.checkpoint_files import CHECKPOINTS
from storage.disk import AlreadyLocked, OsDisk
from storage.log.log import Log, LogConfig
from storage.log_directory import CLEANED_TO, RECOVERY_POINTS
from storage.log_manager import LogManager
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, TOPIC_ID, batch, fill, headers
from tests.typed import present

SIZE = len(batch())
CONFIG = LogConfig(file_delete_delay_ms=60)


class Manager(LogManager):
    """A manager that is closed at the end of its test, with a clock that the test sets."""

    made: list["Manager"]

    def __init__(self, *folders: Path, disk: OsDisk | None = None, seed: int = 1) -> None:
        self.now = NOW_MS
        paths = [str(folder) for folder in folders]
        super().__init__(disk or OsDisk(), paths, CONFIG, now_ms=lambda: self.now, random=Random(seed))
        Manager.made.append(self)

    def start(self) -> list[Log]:
        self.open()
        self.format("WV5yoIVIQ7q2wIB0pOwZQg", 1)
        return list(self.load())

    def crash(self) -> None:
        """End as kill -9 does: all written bytes are there, and no shutdown code runs."""
        self.close(clean=False)

    def run_maintenance(self) -> list[KafkaError]:
        steps = [*self.apply_retention(self.now), *self.delete_files(self.now)]
        return [error for error in steps if error is not None]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    Manager.made = []
    yield
    for manager in Manager.made:
        manager.crash()


@pytest.fixture
def manager(tmp_path: Path) -> Manager:
    manager = Manager(tmp_path / "a", tmp_path / "b")
    manager.start()
    return manager


def restarted(manager: Manager, *, clean: bool) -> Manager:
    if clean:
        manager.close()
    else:
        manager.crash()
    again = Manager(*(Path(directory.path) for directory in manager.directories), seed=2)
    again.start()
    return again


def create(manager: LogManager, topic: str = "topic", partition: int = 0) -> Log:
    return manager.create(topic, TOPIC_ID, partition, CONFIG)


# Directories


def test_every_new_directory_gets_a_unique_permanent_id(manager: Manager) -> None:
    ids = [directory.directory_id for directory in manager.directories]
    assert len({*ids, ZERO_UUID}) == 3
    again = restarted(manager, clean=True)
    assert [directory.directory_id for directory in again.directories] == ids
    assert again.clean


def test_a_second_manager_is_refused_with_the_firsts_pid(manager: Manager) -> None:
    with pytest.raises(AlreadyLocked) as refused:
        Manager(Path(manager.directories[1].path)).open()
    assert refused.value.pid is not None


def test_a_directory_that_cannot_be_opened_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a file")
    manager = Manager(tmp_path / "a", tmp_path / "b")
    manager.start()
    assert [directory.path for directory in manager.online] == [str(tmp_path / "b")]
    assert len(manager.problems) == 1
    assert create(manager).directory.startswith(str(tmp_path / "b"))


def test_without_any_directory_there_is_nothing_to_open(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a file")
    with pytest.raises(OSError, match=r"a"):
        Manager(tmp_path / "a").open()


# Logs


def test_logs_are_created_in_the_directory_with_the_fewest(manager: Manager) -> None:
    homes = [manager.directory_of(create(manager, partition=number)).path[-1] for number in range(4)]
    assert homes == ["a", "b", "a", "b"]
    assert [(log.topic, log.partition, log.topic_id) for log in manager] == [("topic", n, TOPIC_ID) for n in range(4)]
    assert len(manager) == 4


def test_deleted_and_moved_logs_count_in_their_present_directory(manager: Manager) -> None:
    first, second = manager.directories
    logs = [manager.create("topic", TOPIC_ID, number, CONFIG, first.directory_id) for number in range(4)]
    manager.delete("topic", 0)
    for log in logs[1:3]:
        manager.set_log_dir(log, second)
    assert manager.directory_of(create(manager, partition=4)) is first
    manager.delete("topic", 1)
    manager.delete("topic", 2)
    assert manager.directory_of(create(manager, partition=5)) is second


def test_log_is_created_in_the_requested_directory(manager: Manager) -> None:
    wanted = manager.directories[1]
    for number in range(3):
        log = manager.create("topic", TOPIC_ID, number, CONFIG, wanted.directory_id)
        assert manager.directory_of(log) is wanted


def test_new_log_ignores_checkpoint_entries_of_a_former_one_on_a_full_disk(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path / "a", disk=disk)
    manager.start()
    log = create(manager)
    fill(log, 3)
    log.update_high_watermark(3)
    manager.delete_records(log, 2)
    manager.save_log_starts()
    manager.checkpoint()
    manager.delete("topic", 0)
    disk.full = True
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        create(manager)
    disk.full = False
    create(manager)
    manager.crash()
    again = Manager(tmp_path / "a")
    [log] = again.start()
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)


def test_existing_log_is_not_created_again(manager: Manager) -> None:
    log = create(manager)
    fill(log, 3)
    assert create(manager) is log
    assert manager.get("topic", 0) is log
    assert manager.get("topic", 1) is None


def test_log_in_an_offline_directory_is_not_replaced_by_an_empty_one(tmp_path: Path) -> None:
    first = Manager(tmp_path / "a", tmp_path / "b")
    first.start()
    home = first.directories[1].directory_id
    first.create("t", TOPIC_ID, 0, CONFIG, home)
    first.close()
    (tmp_path / "b").rename(tmp_path / "lost")
    (tmp_path / "b").touch()
    second = Manager(tmp_path / "a", tmp_path / "b")
    assert second.start() == []
    with pytest.raises(KafkaError) as refused:
        second.create("t", TOPIC_ID, 0, CONFIG, home)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not (tmp_path / "a" / "t-0").exists()
    assert second.create("new", TOPIC_ID, 0, CONFIG, second.directories[0].directory_id)


def test_log_that_failed_recovery_is_recovered_at_the_next_start(tmp_path: Path) -> None:
    first = Manager(tmp_path)
    first.start()
    fill(first.create("t", TOPIC_ID, 0, CONFIG), 3)
    first.crash()
    disk = FaultyDisk()
    second = Manager(tmp_path, disk=disk)
    second.open()
    second.format("WV5yoIVIQ7q2wIB0pOwZQg", 1)
    disk.arm("open", errno.ENOSPC)
    assert list(second.load()) == []
    with pytest.raises(KafkaError, match="could not be opened"):
        second.create("t", TOPIC_ID, 0, CONFIG)
    second.crash()
    [log] = Manager(tmp_path).start()
    assert len(headers(log)) == 3


@pytest.mark.parametrize("clean", [True, False])
def test_checkpoints_keep_entries_of_an_unopened_log_across_restarts(clean: bool, tmp_path: Path) -> None:
    """Otherwise deleted records would reappear, and a log that was never recovered would pass for sound."""
    first = Manager(tmp_path)
    first.start()
    log = first.create("t", TOPIC_ID, 0, CONFIG)
    fill(log, 5)
    first.delete_records(log, 3)
    first.checkpoint()
    first.close(clean=clean)
    disk = FaultyDisk()
    second = Manager(tmp_path, disk=disk)
    second.open()
    disk.arm("open", errno.ENOSPC)
    assert list(second.load()) == []
    fill(second.create("other", TOPIC_ID, 0, CONFIG), 1)
    second.delete_records(second.create("other", TOPIC_ID, 0, CONFIG), 1)
    assert second.close() is clean
    third = Manager(tmp_path)
    logs = {log.topic: log for log in third.start()}
    assert (logs["t"].log_start_offset, logs["t"].high_watermark, logs["t"].log_end_offset) == (3, 5, 5)
    assert logs["other"].log_start_offset == 1
    assert third.clean is clean


def test_no_log_is_made_when_every_directory_has_failed(manager: Manager) -> None:
    for directory in manager.directories:
        directory.give_up(OSError(5, "broken"))
    with pytest.raises(KafkaError) as failed:
        create(manager)
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("clean", [True, False])
def test_restarted_logs_keep_their_offsets(clean: bool, manager: Manager) -> None:
    for number in range(3):
        fill(create(manager, partition=number), 5 + number)
    create(manager, "with.dots-and-dashes", 7)
    manager.delete_records(create(manager), 2)
    create(manager).update_high_watermark(4)
    manager.checkpoint()
    again = restarted(manager, clean=clean)
    assert again.clean is clean
    assert {(log.topic, log.partition): log.log_end_offset for log in again} == {
        ("topic", 0): 5,
        ("topic", 1): 6,
        ("topic", 2): 7,
        ("with.dots-and-dashes", 7): 0,
    }
    log = again.get("topic", 0)
    assert log is not None
    assert (log.log_start_offset, log.high_watermark, log.topic_id) == (2, 4, TOPIC_ID)
    assert log.recovery_point == (5 if clean else 0)
    assert (log.recovery.scanned_bytes > 0) is not clean


def test_deleted_records_stay_deleted_through_a_crash_right_after(manager: Manager) -> None:
    log = create(manager)
    fill(log, 5)
    manager.delete_records(log, 3)
    manager.save_log_starts()
    again = restarted(manager, clean=False).get("topic", 0)
    assert again is not None
    assert again.log_start_offset == 3


def test_directories_that_are_no_logs_are_ignored(tmp_path: Path) -> None:
    for name in ("__cluster_metadata-0", "lost+found", "topic-0-future", "-1", "topic-x", "other.0f-stray"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").touch()
    manager = Manager(tmp_path)
    assert manager.start() == []
    manager.crash()
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 6


def test_each_checkpoint_can_be_written_by_itself(manager: Manager) -> None:
    log = create(manager)
    fill(log, 5)
    log.flush(NOW_MS)
    folder = Path(manager.directories[0].path)
    for name in CHECKPOINTS:
        manager.checkpoint(name)
        assert sorted(path.name for path in folder.glob("*-offset-checkpoint")) == sorted(
            CHECKPOINTS[: CHECKPOINTS.index(name) + 1]
        )
    assert (folder / RECOVERY_POINTS).read_text() == "0\n1\ntopic 0 0\n"


def test_recovery_point_on_disk_is_never_within_the_active_segment(manager: Manager) -> None:
    log = create(manager)
    fill(log, 5)
    log.flush(NOW_MS)
    checkpoint = Path(manager.directories[0].path) / RECOVERY_POINTS
    manager.checkpoint()
    log.roll(NOW_MS)  # completes the indexes of the first segment, still unsynced
    assert checkpoint.read_text() == "0\n1\ntopic 0 0\n"
    log.flush(NOW_MS)
    manager.checkpoint()
    assert checkpoint.read_text() == "0\n1\ntopic 0 5\n"


def test_damaged_checkpoint_counts_as_empty_and_is_reported(manager: Manager) -> None:
    fill(create(manager), 5)
    manager.checkpoint()
    path = Path(manager.directories[0].path) / "recovery-point-offset-checkpoint"
    path.write_bytes(b"0\n1\nnonsense\n")
    again = restarted(manager, clean=False)
    assert [log.log_end_offset for log in again] == [5]
    assert "recovery-point-offset-checkpoint" in again.problems[0]


# Deletion


def folders(manager: Manager) -> list[str]:
    return sorted(p.name for d in manager.directories for p in Path(d.path).iterdir() if p.is_dir())


def test_deleted_log_is_renamed_at_once_and_its_files_deleted_after_the_delay(manager: Manager) -> None:
    log = create(manager)
    manager.delete("topic", 0)
    [renamed] = folders(manager)
    assert renamed.startswith("topic-0.")
    assert renamed.endswith("-delete")
    assert len(renamed) == len("topic-0.") + 32 + len("-delete")
    assert manager.get("topic", 0) is None
    with pytest.raises(KafkaError):
        log.append_as_leader(batch(), 0, NOW_MS)
    manager.now += 59
    manager.run_maintenance()
    assert folders(manager) == [renamed]
    manager.now += 1
    manager.run_maintenance()
    assert folders(manager) == []


def test_the_longest_names_can_be_deleted(manager: Manager) -> None:
    create(manager, "t" * 249, 12345)
    manager.delete("t" * 249, 12345)
    assert max(map(len, folders(manager))) == 255


def test_unfinished_deletion_is_completed_at_the_next_start(manager: Manager) -> None:
    create(manager)
    manager.delete("topic", 0)
    again = restarted(manager, clean=False)
    assert len(again) == 0
    again.run_maintenance()
    assert folders(again) == []


@pytest.mark.parametrize("restart", [True, False])
def test_recreated_log_has_no_checkpoint_entries_of_the_former_one(restart: bool, manager: Manager) -> None:
    log = create(manager)
    fill(log, 10)
    log.flush(NOW_MS)
    manager.delete_records(log, 8)
    manager.checkpoint()
    manager.delete("topic", 0)
    if restart:
        manager = restarted(manager, clean=False)
    fill(create(manager), 3)
    again = restarted(manager, clean=False).get("topic", 0)
    assert again is not None
    assert (again.log_start_offset, again.log_end_offset, again.recovery_point) == (0, 3, 0)


# Maintenance


def test_maintenance_applies_retention_to_every_log(manager: Manager) -> None:
    config = CONFIG._replace(segment_bytes=2 * SIZE, retention_bytes=0)
    logs = [manager.create("topic", TOPIC_ID, number, config) for number in range(3)]
    for log in logs:
        fill(log, 5)
    assert manager.run_maintenance() == []
    assert [log.log_start_offset for log in logs] == [5, 5, 5]


def test_idle_producers_expire(manager: Manager) -> None:
    log = create(manager)
    log.append_as_leader(batch(producer_id=1, producer_epoch=0, base_sequence=0), 0, NOW_MS)
    assert list(manager.expire_producers(NOW_MS + 999, 1000)) == [None]
    assert list(log.producers.producers) == [1]
    assert list(manager.expire_producers(NOW_MS + 1000, 1000)) == [None]
    assert list(log.producers.producers) == []


def test_maintenance_continues_past_a_failing_log(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path / "a", tmp_path / "b", disk=disk)
    manager.start()
    config = CONFIG._replace(segment_bytes=2 * SIZE, retention_bytes=0)
    logs = [manager.create("topic", TOPIC_ID, number, config) for number in range(4)]
    for log in logs:
        fill(log, 5)
    disk.arm("rename")
    assert [error.code for error in manager.run_maintenance()] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert [log.log_start_offset for log in logs] == [0, 5, 0, 5]


def test_log_may_be_deleted_and_recreated_during_maintenance(manager: Manager) -> None:
    for partition in range(3):
        manager.create("t", TOPIC_ID, partition, CONFIG)
    steps = manager.apply_retention(manager.now)
    next(steps)
    manager.delete("t", 1)
    manager.delete("t", 2)
    manager.create("t", TOPIC_ID, 2, CONFIG)
    assert list(steps) == []


def test_failed_deletion_of_a_log_is_retried_later(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk=disk)
    manager.start()
    create(manager)
    manager.delete("topic", 0)
    manager.now += CONFIG.file_delete_delay_ms
    disk.arm("remove_tree", errno.EMFILE)
    assert [error.code for error in manager.run_maintenance()] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert list(tmp_path.glob("*-delete"))
    assert manager.run_maintenance() == []
    assert not list(tmp_path.glob("*-delete"))


def test_directory_that_fails_during_deletion_is_reported_once(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk=disk)
    manager.start()
    create(manager)
    manager.delete("topic", 0)
    manager.now += CONFIG.file_delete_delay_ms
    disk.arm("remove_tree")
    assert len(manager.run_maintenance()) == 1
    assert manager.online == []
    assert manager.run_maintenance() == []


def test_a_log_that_is_deleted_while_it_is_synced_is_no_error(manager: Manager) -> None:
    log = create(manager)
    fill(log, 1)
    flush = log.begin_flush(manager.now)
    assert flush is not None
    manager.delete("topic", 0)
    flush.run()
    assert flush.error is None  # its directory is renamed, which is no failure
    assert len(manager.online) == 2


def test_flushes_are_due_for_rolled_logs(manager: Manager) -> None:
    config = CONFIG._replace(segment_bytes=2 * SIZE)
    logs = [manager.create("topic", TOPIC_ID, number, config) for number in range(3)]
    fill(logs[0], 1)
    fill(logs[1], 5)
    for flush in manager.due_flushes(NOW_MS):
        present(flush).sync()
        present(flush).finish()
    assert [log.recovery_point for log in logs] == [0, 4, 0]
    manager.checkpoint()
    again = restarted(manager, clean=False).get("topic", 1)
    assert again is not None
    assert again.recovery.scanned_bytes == SIZE
    assert len(headers(again)) == 5


def test_failed_flush_on_a_full_disk_does_not_block_other_logs(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path / "a", disk=disk)
    manager.start()
    for name in ("one", "other"):
        fill(manager.create(name, TOPIC_ID, 0, CONFIG._replace(segment_bytes=2 * SIZE)), 5)
    disk.arm("replace", errno.ENOSPC)
    assert len([flush.run() for flush in manager.due_flushes(NOW_MS) if flush]) == 1  # type: ignore[func-returns-value]  # called for its effect
    assert len([flush.run() for flush in manager.due_flushes(NOW_MS) if flush]) == 1  # type: ignore[func-returns-value]  # the deferred one; called for its effect


@pytest.mark.parametrize("text", ["", "?"])
def test_without_a_valid_cleaner_checkpoint_all_logs_may_be_compacted(
    manager: Manager, tmp_path: Path, text: str
) -> None:
    for directory in manager.directories:
        fill(manager.create(Path(directory.path).name, TOPIC_ID, 0, CONFIG, directory.directory_id), 1)
    manager.close()
    (tmp_path / "a" / CLEANED_TO).write_text(text)
    restarted = Manager(tmp_path / "a", tmp_path / "b")
    assert {log.topic: log.cleaned_to for log in restarted.start()} == {"a": 0, "b": None}
    restarted.close()
    assert (tmp_path / "a" / CLEANED_TO).read_text() == "0\n1\na 0 0\n"
