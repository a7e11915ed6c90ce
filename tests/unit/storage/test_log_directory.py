import errno
from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.checkpoint import CheckpointError, MetaProperties
from storage.disk import AlreadyLocked, OsDisk
from storage.log_directory import CLEANED_TO, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, LogDirectory
from tests.disks import FaultyDisk

META = MetaProperties("WV5yoIVIQ7q2wIB0pOwZQg", 3, bytes(range(16)))


def opened(path: Path) -> LogDirectory:
    directory = LogDirectory(OsDisk(), str(path))
    directory.open()
    return directory


def test_new_directory_is_created_without_meta_properties(tmp_path: Path) -> None:
    directory = opened(tmp_path / "a" / "b")
    assert (directory.meta, directory.directory_id, directory.clean) == (None, bytes(16), False)
    directory.close(clean=False)


def test_the_name_of_a_new_directory_is_durable_with_those_of_its_parents(tmp_path: Path) -> None:
    disk = FaultyDisk()
    LogDirectory(disk, str(tmp_path / "new" / "data")).open()
    assert disk.called("sync_dir") == ["new", tmp_path.name, "data"]


def test_meta_properties_are_kept(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    directory.format(META)
    directory.close(clean=False)
    again = opened(tmp_path)
    assert (again.meta, again.directory_id) == (META, bytes(range(16)))
    again.close(clean=False)


def test_a_second_broker_is_refused_until_the_first_has_closed(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    with pytest.raises(AlreadyLocked):
        opened(tmp_path)
    directory.close(clean=True)
    opened(tmp_path).close(clean=True)


@pytest.mark.parametrize("mark", [b"", b"\xff", b"{}", b'{"version":1,"brokerEpoch":42}'])
def test_unreadable_clean_shutdown_file_is_ignored(mark: bytes, tmp_path: Path) -> None:
    opened(tmp_path).close(clean=True)
    (tmp_path / ".kafka_cleanshutdown").write_bytes(mark)
    directory = opened(tmp_path)
    directory.close(clean=False)
    assert (directory.clean, directory.previous_broker_epoch) == (False, -1)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_clean_shutdown_file_counts_once(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    directory.close(clean=True, broker_epoch=42)
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":42}'
    again = opened(tmp_path)
    assert (again.clean, again.previous_broker_epoch) == (True, 42)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    again.close(clean=False)
    assert not opened(tmp_path).clean


def test_run_without_broker_role_keeps_the_former_broker_epoch(tmp_path: Path) -> None:
    opened(tmp_path).close(clean=True, broker_epoch=42)
    opened(tmp_path).close(clean=True)
    directory = opened(tmp_path)
    assert directory.previous_broker_epoch == 42
    directory.close(clean=False)
    opened(tmp_path).close(clean=True)
    assert opened(tmp_path).previous_broker_epoch == -1


def test_clean_shutdown_file_is_durably_removed_before_any_write(tmp_path: Path) -> None:
    disk = FaultyDisk()
    directory = LogDirectory(disk, str(tmp_path))
    directory.open()
    directory.close(clean=True)
    disk.calls.clear()
    LogDirectory(disk, str(tmp_path)).open()
    assert disk.calls == [("sync_dir", str(tmp_path))]


def test_a_failed_directory_is_not_marked_clean(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    directory.give_up(OSError(errno.EIO, "broken"))
    directory.close(clean=True)
    assert not opened(tmp_path).clean


@pytest.mark.parametrize(
    ("name", "file"),
    [
        (RECOVERY_POINTS, "recovery-point-offset-checkpoint"),
        (LOG_STARTS, "log-start-offset-checkpoint"),
        (HIGH_WATERMARKS, "replication-offset-checkpoint"),
    ],
)
def test_offsets_are_kept_in_kafkas_files(name: str, file: str, tmp_path: Path) -> None:
    directory = LogDirectory(OsDisk(), str(tmp_path))
    assert directory.read_offsets(name) == {}
    directory.write_offsets(name, {("a-topic", 3): 42})
    assert (tmp_path / file).read_bytes() == b"0\n1\na-topic 3 42\n"
    assert directory.read_offsets(name) == {("a-topic", 3): 42}


def test_unchanged_offsets_are_rewritten_only_to_be_durable(tmp_path: Path) -> None:
    directory = LogDirectory(OsDisk(), str(tmp_path))
    path = tmp_path / HIGH_WATERMARKS
    directory.write_offsets(HIGH_WATERMARKS, {("t", 0): 1})
    path.write_bytes(b"")
    directory.write_offsets(HIGH_WATERMARKS, {("t", 0): 1})
    assert path.read_bytes() == b""
    directory.write_offsets(HIGH_WATERMARKS, {("t", 0): 1}, sync=True)
    assert path.read_bytes() == b"0\n1\nt 0 1\n"
    directory.write_offsets(HIGH_WATERMARKS, {("t", 0): 2})
    assert path.read_bytes() == b"0\n1\nt 0 2\n"


@pytest.mark.parametrize(("name", "durable"), [(CLEANED_TO, True), (RECOVERY_POINTS, False)])
def test_cleaner_checkpoint_is_always_written_durably(name: str, durable: bool, tmp_path: Path) -> None:
    disk = FaultyDisk()
    LogDirectory(disk, str(tmp_path)).write_offsets(name, {("topic", 0): 7})
    assert bool(disk.called("sync_dir")) is durable


def test_possible_checkpoint_content_is_known_once_it_is_synced(tmp_path: Path) -> None:
    disk = FaultyDisk()
    directory, log = LogDirectory(disk, str(tmp_path)), ("t", 0)

    def may_exceed(offset: int | None) -> bool:
        return directory.may_exceed(LOG_STARTS, log, offset)

    directory.write_offsets(LOG_STARTS, {log: 1})
    assert may_exceed(9), "an earlier process may have written anything"
    directory.write_offsets(LOG_STARTS, {log: 5}, sync=True)
    assert (may_exceed(4), may_exceed(5), may_exceed(None)) == (True, False, True)
    assert not directory.may_exceed(LOG_STARTS, ("t", 1), None)
    directory.write_offsets(LOG_STARTS, {log: 7})
    directory.write_offsets(LOG_STARTS, {log: 6})
    assert (may_exceed(6), may_exceed(7)) == (True, False)
    directory.write_offsets(LOG_STARTS, {}, sync=True)
    assert not may_exceed(None)
    disk.arm("replace", errno.ENOSPC)
    with pytest.raises(KafkaError):
        directory.write_offsets(LOG_STARTS, {log: 8})
    assert (may_exceed(7), may_exceed(8)) == (True, False), "the write may have got there"
    assert not directory.may_exceed(LOG_STARTS, ("t", 1), None), "neither of the two names this one"


def test_checkpoint_content_is_made_durable_by_a_sync_after_a_full_disk(tmp_path: Path) -> None:
    """Syncing the unchanged file takes no space."""
    LogDirectory(OsDisk(), str(tmp_path)).write_offsets(LOG_STARTS, {("t", 0): 5})
    disk = FaultyDisk()
    directory = LogDirectory(disk, str(tmp_path))
    disk.full = True
    for name in (LOG_STARTS, RECOVERY_POINTS):
        with pytest.raises(KafkaError):
            directory.write_offsets(name, {("t", 1): 3}, sync=True)
        assert not directory.may_exceed(name, ("t", 2), None)
    assert (disk.called("sync"), disk.called("sync_dir")) == ([LOG_STARTS], [tmp_path.name] * 2)
    assert directory.may_exceed(LOG_STARTS, ("t", 0), None)
    assert directory.may_exceed(LOG_STARTS, ("t", 1), None)


def test_checkpoint_content_is_unknown_if_neither_written_nor_synced(tmp_path: Path) -> None:
    LogDirectory(OsDisk(), str(tmp_path)).write_offsets(LOG_STARTS, {("t", 0): 5})
    disk = FaultyDisk()
    directory = LogDirectory(disk, str(tmp_path))
    disk.full = True
    disk.arm("sync")
    with pytest.raises(KafkaError):
        directory.write_offsets(LOG_STARTS, {}, sync=True)
    assert directory.may_exceed(LOG_STARTS, ("t", 2), None)


@pytest.mark.parametrize(("kind", "code", "fails"), [("sync", errno.EIO, True), ("open", errno.EMFILE, False)])
def test_a_checkpoint_whose_sync_fails_takes_the_directory_offline_unless_descriptors_are_out(
    kind: str, code: int, fails: bool, tmp_path: Path
) -> None:
    LogDirectory(OsDisk(), str(tmp_path)).write_offsets(LOG_STARTS, {("t", 0): 5})
    disk = FaultyDisk()
    directory = LogDirectory(disk, str(tmp_path))
    disk.full = True
    disk.arm(kind, code)
    with pytest.raises(KafkaError, match="is full"):
        directory.write_offsets(LOG_STARTS, {}, sync=True)
    assert (directory.failure is not None) is fails


def test_checkpoint_is_rewritten_after_a_failed_write_even_if_unchanged(tmp_path: Path) -> None:
    disk = FaultyDisk()
    directory = LogDirectory(disk, str(tmp_path))
    directory.write_offsets(HIGH_WATERMARKS, {("t", 0): 1})
    disk.arm("sync_dir", errno.EMFILE)
    with pytest.raises(KafkaError):
        directory.write_offsets(HIGH_WATERMARKS, {("t", 0): 2}, sync=True)
    directory.write_offsets(HIGH_WATERMARKS, {("t", 0): 1})
    assert directory.read_offsets(HIGH_WATERMARKS) == {("t", 0): 1}


def test_damaged_checkpoint_is_an_error(tmp_path: Path) -> None:
    (tmp_path / RECOVERY_POINTS).write_bytes(b"0\n1\n\xff 0 1\nx")
    with pytest.raises(CheckpointError):
        LogDirectory(OsDisk(), str(tmp_path)).read_offsets(RECOVERY_POINTS)


def test_first_failure_is_reported_by_all_later_calls(tmp_path: Path) -> None:
    directory = LogDirectory(OsDisk(), str(tmp_path))
    with pytest.raises(KafkaError, match="first"), directory.storage_errors():
        raise OSError(errno.EIO, "first")
    with pytest.raises(KafkaError, match="first") as refused, directory.storage_errors():
        raise OSError(errno.EIO, "never run")
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_lack_of_space_fails_the_operation_and_not_the_directory(tmp_path: Path) -> None:
    directory = LogDirectory(OsDisk(), str(tmp_path))
    with pytest.raises(KafkaError) as failed, directory.storage_errors():
        raise OSError(errno.ENOSPC, "full")
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert directory.failure is None


def test_failed_atomic_operation_takes_the_directory_offline(tmp_path: Path) -> None:
    directory = LogDirectory(OsDisk(), str(tmp_path))
    with pytest.raises(KafkaError) as failed, directory.must_succeed():
        raise OSError(errno.EMFILE, "no descriptor")
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert directory.failure is not None


def test_other_errors_are_passed_on(tmp_path: Path) -> None:
    directory = LogDirectory(OsDisk(), str(tmp_path))
    with pytest.raises(ZeroDivisionError), directory.storage_errors():
        _ = 1 // 0
    assert directory.failure is None


def test_lack_of_space_marks_the_directory_full_but_not_offline(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    assert (directory.full, directory.refused_writes) == (False, 0)
    directory.fail(OSError(errno.ENOSPC, "full"))
    assert (directory.full, directory.refused_writes, directory.failure) == (True, 1, None)
    directory.close(clean=False)


def test_a_directory_without_room_is_full_before_a_write_fails(tmp_path: Path) -> None:
    disk = FaultyDisk()
    directory = LogDirectory(disk, str(tmp_path))
    assert directory.has_room()
    disk.full = True
    assert not directory.has_room()
    assert directory.full


def test_volume_space_is_reported_until_the_directory_fails(tmp_path: Path) -> None:
    disk = OsDisk()
    directory = opened(tmp_path)
    assert directory.space().total_bytes == disk.total_bytes(str(tmp_path))
    assert 0 <= directory.space().usable_bytes <= directory.space().total_bytes
    directory.give_up(OSError(errno.EIO, "broken"))
    with pytest.raises(KafkaError) as refused:
        directory.space()
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    directory.close(clean=False)


def test_half_written_checkpoint_file_is_deleted_and_not_overwritten(tmp_path: Path) -> None:
    """A power cut could restore its content under the checkpoint's name once the same file is reused."""
    left = tmp_path / f"{LOG_STARTS}.tmp"
    left.write_text("0\n1\nt 0 52\n")
    (tmp_path / "same").hardlink_to(left)
    directory = LogDirectory(OsDisk(), str(tmp_path))
    directory.write_offsets(LOG_STARTS, {("t", 0): 24})
    assert directory.read_offsets(LOG_STARTS) == {("t", 0): 24}
    assert (tmp_path / "same").read_text() == "0\n1\nt 0 52\n"


def test_nested_data_directories_are_listed(tmp_path: Path) -> None:
    (tmp_path / "letters-0").mkdir()
    inner = opened(tmp_path / "inner")
    inner.format(META)
    inner.close(clean=True)
    outer = opened(tmp_path)
    assert outer.nested() == [f"{tmp_path}/inner"]
    outer.close(clean=False)


def test_atomic_operation_failed_by_damage_takes_the_directory_offline_too(tmp_path: Path) -> None:
    directory = LogDirectory(OsDisk(), str(tmp_path))
    with pytest.raises(KafkaError) as failed, directory.must_succeed():
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "no record batch")
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "no record batch" in str(directory.failure)


def test_an_unclean_directory_on_a_full_disk_is_opened_and_one_that_cannot_be_written_is_not(tmp_path: Path) -> None:
    opened(tmp_path).close(clean=False)
    disk = FaultyDisk()
    disk.full = True
    full = LogDirectory(disk, str(tmp_path))
    full.open()
    assert not full.clean
    full.close(clean=False)
    disk.full = False
    disk.arm("create", errno.EROFS)
    with pytest.raises(OSError, match="Read-only"):
        LogDirectory(disk, str(tmp_path)).open()


def test_contiguous_segments_file_from_before_another_programs_run_is_ignored(
    tmp_path: Path,
) -> None:
    directory = opened(tmp_path)
    directory.save_contiguous_from({("t", 0): 5})
    directory.close(clean=False)
    after_a_crash = opened(tmp_path)
    assert after_a_crash.contiguous_from() == {("t", 0): 5}
    after_a_crash.close(clean=False)
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":42}')
    after_another = opened(tmp_path)
    assert after_another.clean
    assert after_another.contiguous_from() is None
    after_another.close(clean=False)
