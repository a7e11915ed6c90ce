"""A log on a full or failing disk."""

import errno
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.log.log import Log, LogConfig
from storage.steps import finish
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, TOPIC_ID, bases, batch, content, fill, headers, open_log

SIZE = len(batch())


def test_a_full_disk_fails_the_append_and_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    fill(log, 2)
    disk.arm("pwrite", errno.ENOSPC)
    with pytest.raises(KafkaError) as failed:
        log.append_as_leader(batch(5), 8, NOW_MS)
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.log_end_offset, log.size_bytes) == (2, 2 * SIZE)
    assert (tmp_path / "topic-0" / f"{0:020d}.log").stat().st_size == 2 * SIZE
    assert log.leader_epochs.latest == 0
    fill(log, 1)
    assert [header.base_offset for header in headers(log)] == [0, 1, 2]


def test_a_failed_append_does_not_count_for_its_producer(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    disk.arm("pwrite", errno.ENOSPC)
    with pytest.raises(KafkaError):
        log.append_as_leader(batch(producer_id=1, producer_epoch=0, base_sequence=0), 0, NOW_MS)
    info = log.append_as_leader(batch(producer_id=1, producer_epoch=0, base_sequence=0), 0, NOW_MS)
    assert (info.duplicate, info.base_offset) == (False, 0)


def test_an_io_error_takes_the_directory_offline(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    fill(log, 2)
    disk.arm("pwrite")
    for _ in range(2):
        with pytest.raises(KafkaError) as failed:
            log.append_as_leader(batch(), 0, NOW_MS)
        assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError) as failed:
        log.read(0, 1000, limit_offset=2)
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_failed_truncation_after_a_full_disk_takes_the_directory_offline(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    disk.arm("pwrite", errno.ENOSPC)
    disk.arm("truncate")
    for _ in range(2):
        with pytest.raises(KafkaError):
            log.append_as_leader(batch(), 0, NOW_MS)
    assert disk.called("pwrite") == [f"{0:020d}.log"]


def test_lack_of_descriptors_fails_only_the_calls_that_need_them(tmp_path: Path) -> None:
    fill(open_log(tmp_path), 1)
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    log.roll(NOW_MS)
    log.release()
    for operation in (
        lambda: log.append_as_leader(batch(), 0, NOW_MS),
        lambda: log.read(0, 1000, limit_offset=1),
        lambda: finish(log.offset_for_timestamp(NOW_MS)),
    ):
        disk.arm("open", errno.EMFILE)
        with pytest.raises(KafkaError) as failed:
            operation()
        assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    fill(log, 1)
    assert [header.base_offset for header in headers(log)] == [0, 1]


@pytest.mark.parametrize("after", range(5))
def test_flush_without_descriptors_is_completed_by_the_next(after: int, tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk, topic_id=TOPIC_ID)
    fill(log, 1)
    log.roll(NOW_MS)
    log.release()
    disk.arm("open", errno.EMFILE, after=after)
    with pytest.raises(KafkaError):
        log.flush(NOW_MS)
    log.flush(NOW_MS)
    names = ["leader-epoch-checkpoint", "partition.metadata"]
    kinds = (f"{0:020d}.log", f"{0:020d}.timeindex", f"{1:020d}.snapshot")
    assert sorted(disk.called("sync")) == sorted([*names, *kinds])
    assert sorted(disk.called("sync_dir")) == sorted([tmp_path.name, "topic-0"])


@pytest.mark.parametrize("after", [0, 1])
def test_an_append_that_cannot_read_an_index_leaves_the_log_as_it_was(after: int, tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=SIZE)
    log = open_log(tmp_path, config)
    fill(log, 4)
    log.close(NOW_MS)
    disk = FaultyDisk()
    again = open_log(tmp_path, config, disk=disk)
    disk.arm("read", errno.EMFILE, after=after)
    with pytest.raises(KafkaError):
        again.append_as_leader(batch(), 0, NOW_MS)
    assert disk.disarm("read"), "no index was read"
    fill(again, 3)
    assert [header.base_offset for header in headers(again)] == list(range(7))


def test_lack_of_descriptors_fails_a_search_for_the_largest_timestamp_too(tmp_path: Path) -> None:
    written = open_log(tmp_path)
    fill(written, 1)
    written.roll(NOW_MS)
    written.close(NOW_MS)
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    disk.arm("open", errno.EMFILE)
    with pytest.raises(KafkaError) as failed:
        finish(log.max_timestamp_offset())
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("after", range(3))
def test_failed_roll_on_a_full_disk_leaves_no_segment(after: int, tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, LogConfig(segment_bytes=4 * SIZE), disk=disk)
    fill(log, 2)
    disk.arm("create", errno.ENOSPC, after=after)
    with pytest.raises(KafkaError):
        log.append_as_leader(batch(size=3 * SIZE), 0, NOW_MS)
    fill(log, 1)
    assert bases(log) == (0,)
    again = open_log(tmp_path, clean=False)
    assert [header.base_offset for header in headers(again)] == [0, 1, 2]


@pytest.mark.parametrize("after", range(6))
def test_records_acknowledged_after_a_failed_segment_deletion_are_read(after: int, tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    disk.arm("remove", errno.EDQUOT, after=after)
    with suppress(KafkaError):
        log.truncate_fully_and_start_at(5)
    try:
        fill(log, 1)
    except KafkaError:
        assert log.offline
    else:
        assert [header.base_offset for header in headers(log)] == [log.log_end_offset - 1]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("after", range(4))
def test_segment_with_half_renamed_files_is_not_read(error: int, after: int, tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE, retention_bytes=1), disk=disk)
    fill(log, 5)
    log.update_high_watermark(5)
    disk.arm("rename", error, after=after)
    with pytest.raises(KafkaError):
        log.delete_old_segments(NOW_MS)
    assert log.offline == (error == errno.EIO or after > 0)
    if not log.offline:
        assert len(log.delete_old_segments(NOW_MS)) == 2
        assert [header.base_offset for header in headers(log)] == [4]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_failed_roll_keeps_the_durable_records(error: int, tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE), disk=disk)
    fill(log, 2)
    log.flush(NOW_MS)
    disk.arm("create", error)
    with pytest.raises(KafkaError):
        fill(log, 1)
    assert log.recovery_point == 2


@pytest.mark.parametrize("kind", ["create", "replace"])
@pytest.mark.parametrize("after", range(3))
def test_roll_that_failed_on_a_full_disk_is_done_by_a_later_append(kind: str, after: int, tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE), disk=disk)
    fill(log, 2)
    disk.arm(kind, errno.ENOSPC, after=after)
    acknowledged = 2
    for _ in range(6):
        try:
            fill(log, 1)
        except KafkaError:
            continue
        acknowledged += 1
    assert acknowledged >= 7
    assert [header.base_offset for header in headers(log)] == list(range(acknowledged))
    log.close(NOW_MS)
    again = open_log(tmp_path)
    assert content(again) == content(log)
    assert not again.recovery.changed


def test_a_failed_sync_takes_the_directory_offline_and_is_not_retried(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    fill(log, 2)
    disk.arm("sync")
    with pytest.raises(KafkaError) as failed:
        log.flush(NOW_MS)
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.recovery_point == 0
    with pytest.raises(KafkaError):
        log.flush(NOW_MS)
    assert len(disk.called("sync")) == 1


def test_a_read_error_takes_the_directory_offline(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, LogConfig(segment_bytes=3 * SIZE), disk=disk)
    fill(log, 4)
    disk.arm("pread")
    with pytest.raises(KafkaError) as failed:
        log.read(1, 1000, limit_offset=4)
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError):
        log.append_as_leader(batch(), 0, NOW_MS)


def _diverged_log(path: Path, disk: FaultyDisk) -> Log:
    """Return a follower's log that is to be truncated: two producers and two epochs, in three segments."""
    log = open_log(path, LogConfig(segment_bytes=2 * SIZE, index_interval_bytes=1), disk=disk)
    for number in range(5):
        log.append_as_leader(batch(producer_id=number % 2, producer_epoch=0, base_sequence=number // 2), number, NOW_MS)
    log.update_high_watermark(5)
    return log


def _known(log: Log) -> tuple[object, ...]:
    producers = {number: entry.batches for number, entry in log.producers.producers.items()}
    ends = (log.log_start_offset, log.high_watermark, log.log_end_offset)
    return ends, [header.base_offset for header in headers(log)], producers, log.leader_epochs.entries


@pytest.mark.parametrize("cut", [lambda log: log.truncate_to(3), lambda log: log.truncate_fully_and_start_at(9)])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize("kind", ["create", "open", "read", "replace", "pwrite", "truncate"])
def test_failed_truncation_leaves_a_consistent_log(
    kind: str, code: int, cut: Callable[[Log], object], tmp_path: Path
) -> None:
    for after in count():
        disk = FaultyDisk()
        log = _diverged_log(tmp_path / str(after), disk)
        whole = _known(log)
        disk.arm(kind, code, after=after)
        with suppress(KafkaError):
            cut(log)
        if not disk.disarm(kind):
            break
        if log.offline:
            continue
        left = _known(log)
        log.close(NOW_MS)
        again = open_log(tmp_path / str(after), log.config, clean=False)
        again.update_high_watermark(log.high_watermark)
        assert left in (whole, _known(again))
        cut(again)
        again.append_as_leader(batch(producer_id=0, producer_epoch=0, base_sequence=2), 9, NOW_MS)


@pytest.mark.parametrize("cut", [lambda log: log.truncate_to(3), lambda log: log.truncate_fully_and_start_at(9)])
@pytest.mark.parametrize("kind", ["create", "open", "read", "replace", "truncate", "sync", "sync_dir"])
def test_failed_truncation_leaves_the_high_watermark_within_the_log(
    kind: str, cut: Callable[[Log], object], tmp_path: Path
) -> None:
    for after in count():
        disk = FaultyDisk()
        log = _diverged_log(tmp_path / str(after), disk)
        disk.arm(kind, after=after)
        with suppress(KafkaError):
            cut(log)
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        if not disk.disarm(kind):
            break
