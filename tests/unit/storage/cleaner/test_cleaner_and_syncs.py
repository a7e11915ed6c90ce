"""A pass removes only records that a durable record replaces."""

from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.cleaner.cleaner_pass import CleanerPass
from storage.log.log import Log
from tests.compacted import COMPACTED, begin, end_txn, finish, offsets, put
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, content, open_log


def _log(folder: Path, disk: FaultyDisk) -> Log:
    """Return an unsynced log with a key whose value a transaction replaces; its marker is in the active segment."""
    log = open_log(folder, COMPACTED, disk=disk)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.roll(NOW_MS)
    end_txn(log, 7, commit=True)
    return log


def _pass_after_the_sync(log: Log, disk: FaultyDisk) -> CleanerPass:
    compaction = begin(log, disk=disk)
    call = compaction.step(1)
    assert log.recovery_point < log.log_end_offset
    assert not list(Path(log.directory).glob("*.cleaned"))
    assert call is not None
    call()
    return compaction


def test_whole_log_is_durable_before_a_pass_removes_records(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = _log(tmp_path, disk)
    compaction = _pass_after_the_sync(log, disk)
    compaction.step(1)
    assert log.recovery_point == log.log_end_offset == 3
    finish(compaction)
    assert offsets(log) == [1]


def test_pass_that_ends_during_its_sync_leaves_no_pending_flush(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = _log(tmp_path, disk)
    compaction = _pass_after_the_sync(log, disk)
    compaction.interrupt()
    compaction.step(1)
    assert compaction.done
    assert log.recovery_point == 3


def test_failed_sync_takes_the_directory_offline_and_removes_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = _log(tmp_path, disk)
    before = content(log)
    disk.arm("sync")
    compaction = _pass_after_the_sync(log, disk)
    with pytest.raises(KafkaError) as raised:
        compaction.step(1)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.offline
    assert compaction.done
    files = sorted(Path(log.directory).glob("*.log"))
    assert b"".join(file.read_bytes() for file in files) == before
