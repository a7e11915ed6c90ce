from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import crc_matches, iter_records, read_header
from storage.log.log import LogConfig
from storage.steps import finish
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, TOPIC_ID, bases, batch, content, fill, headers, open_log, stamped

SIZE = len(batch())


def names(folder: Path, suffix: str) -> list[str]:
    return sorted(path.name for path in (folder / "topic-0").glob(f"*{suffix}"))


def test_a_new_log_has_kafkas_files(tmp_path: Path) -> None:
    log = open_log(tmp_path, topic_id=TOPIC_ID)
    fill(log, 1, epoch=3)
    log.close(NOW_MS)
    assert {path.name: path.read_bytes() for path in (tmp_path / "topic-0").iterdir() if path.suffix != ".log"} == {
        "00000000000000000000.index": b"",
        "00000000000000000000.timeindex": NOW_MS.to_bytes(8, "big") + bytes(4),
        "00000000000000000001.snapshot": bytes.fromhex("0001 48674bc7 00000000"),
        "leader-epoch-checkpoint": b"0\n1\n3 0\n",
        "partition.metadata": b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
    }


# Appending


def test_leader_sets_offsets_and_epoch_and_keeps_all_other_bytes(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 1, count=3, epoch=4)
    records = batch(2)
    sent = bytes(records)
    info = log.append_as_leader(records, 5, NOW_MS)
    assert (info.base_offset, info.last_offset, info.leader_epoch, info.duplicate) == (3, 4, 5, False)
    assert (info.log_append_time_ms, info.max_timestamp, info.log_start_offset) == (-1, NOW_MS, 0)
    assert log.log_end_offset == 5
    stored = content(log, 3)
    assert stored[16:] == sent[16:]
    assert (read_header(stored).base_offset, read_header(stored).partition_leader_epoch) == (3, 5)
    assert [(entry.epoch, entry.start_offset) for entry in log.leader_epochs.entries] == [(4, 0), (5, 3)]


def test_log_append_time_is_set_in_every_record_and_returned(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(timestamp_type="LogAppendTime"))
    info = log.append_as_leader(stamped([1, 2**60]), 0, NOW_MS)
    assert (info.log_append_time_ms, info.max_timestamp) == (NOW_MS, NOW_MS)
    stored = content(log)
    assert crc_matches(stored, read_header(stored))
    assert [record.timestamp for record in iter_records(stored)] == [NOW_MS, NOW_MS]
    found = finish(log.offset_for_timestamp(NOW_MS))
    assert found is not None
    assert (found.timestamp, found.offset) == (NOW_MS, 0)


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (LogConfig(max_message_bytes=SIZE - 1), ErrorCode.MESSAGE_TOO_LARGE),
        (LogConfig(segment_bytes=SIZE - 1), ErrorCode.RECORD_LIST_TOO_LARGE),
        (LogConfig(message_timestamp_after_max_ms=-1), ErrorCode.INVALID_TIMESTAMP),
        (LogConfig(message_timestamp_before_max_ms=-1), ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_batch_against_the_configuration_is_rejected(config: LogConfig, code: ErrorCode, tmp_path: Path) -> None:
    log = open_log(tmp_path, config)
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(batch(), 0, NOW_MS)
    assert refused.value.code is code
    assert (log.log_end_offset, log.size_bytes) == (0, 0)


def test_duplicate_batch_returns_its_first_offsets(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(0, 14, 2):
        log.append_as_leader(batch(2, producer_id=9, producer_epoch=0, base_sequence=sequence), 0, NOW_MS)
    for sequence in (4, 6, 8, 10, 12):
        again = batch(2, producer_id=9, producer_epoch=0, base_sequence=sequence)
        info = log.append_as_leader(again, 0, NOW_MS + 1)
        assert (info.duplicate, info.base_offset, info.last_offset) == (True, sequence, sequence + 1)
    assert log.log_end_offset == 14
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(batch(2, producer_id=9, producer_epoch=0, base_sequence=2), 0, NOW_MS)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_follower_keeps_offsets_and_epochs(tmp_path: Path) -> None:
    leader, follower = open_log(tmp_path / "a"), open_log(tmp_path / "b")
    fill(leader, 2, count=3, epoch=1)
    fill(leader, 2, count=3, epoch=4)
    follower.append_as_follower(content(leader), 4, NOW_MS)
    assert follower.log_end_offset == 12
    assert content(follower) == content(leader)
    assert follower.leader_epochs.entries == leader.leader_epochs.entries


def test_compacted_epoch_starts_at_its_first_remaining_batch_on_a_follower(tmp_path: Path) -> None:
    leader, follower = open_log(tmp_path / "a"), open_log(tmp_path / "b")
    fill(leader, 3, epoch=0)
    fill(leader, 3, epoch=1)
    copied = content(leader)
    follower.append_as_follower(
        b"".join(copied[at : at + SIZE] for at in range(0, 6 * SIZE, SIZE) if at != 3 * SIZE), 1, NOW_MS
    )
    assert leader.end_offset_for_epoch(0).end_offset == 3
    assert follower.end_offset_for_epoch(0).end_offset == 4


def test_follower_segments_are_contiguous_where_the_leader_compacted(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=SIZE))
    sent = [bytes(batch(base_offset=offset)) for offset in (0, 7)]
    for each in sent:
        log.append_as_follower(each, 0, NOW_MS)
    assert bases(log) == (0, 1)
    assert content(log, 1) == sent[1]


def test_follower_skips_a_partial_batch_and_newer_epochs(tmp_path: Path) -> None:
    leader, follower = open_log(tmp_path / "a"), open_log(tmp_path / "b")
    fill(leader, 2, epoch=1)
    fill(leader, 2, epoch=4)
    for offset, sent, epoch, end_offset in ((0, SIZE * 4, 3, 2), (2, SIZE * 2 - 1, 4, 3), (3, SIZE - 1, 4, 3)):
        follower.append_as_follower(content(leader, offset)[:sent], epoch, NOW_MS)
        assert follower.log_end_offset == end_offset
    assert content(follower) == content(leader)[: 3 * SIZE]


@pytest.mark.parametrize("damage", ["crc", "order"])
def test_a_follower_appends_nothing_of_damaged_bytes(damage: str, tmp_path: Path) -> None:
    leader, follower = open_log(tmp_path / "a"), open_log(tmp_path / "b")
    fill(leader, 3)
    sent = bytearray(content(leader))
    if damage == "crc":
        sent[-1] ^= 1
    else:
        sent += sent[:SIZE]
    with pytest.raises(KafkaError) as refused:
        follower.append_as_follower(sent, 9, NOW_MS)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert (follower.log_end_offset, follower.size_bytes) == (0, 0)


def test_full_segment_rolls_to_one_named_after_the_next_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE))
    fill(log, 5)
    assert bases(log) == (0, 2, 4)
    assert names(tmp_path, ".log") == [f"{offset:020d}.log" for offset in (0, 2, 4)]
    assert names(tmp_path, ".snapshot") == [f"{offset:020d}.snapshot" for offset in (2, 4)]
    assert [header.base_offset for header in headers(log)] == [0, 1, 2, 3, 4]


def test_rolling_an_empty_log_does_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.roll(NOW_MS)
    fill(log, 1)
    log.roll(NOW_MS)
    log.roll(NOW_MS)
    assert bases(log) == (0, 1)


# Reading


def test_read_at_the_end_or_limit_returns_nothing_and_opens_no_file(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    fill(log, 3)
    before = len(disk.calls)
    assert log.read(3, 1000, limit_offset=3) == ([], 0)
    assert log.read(2, 1000, limit_offset=2) == ([], 0)
    assert log.read(2, 1000, limit_offset=0) == ([], 0)
    assert len(disk.calls) == before


@pytest.mark.parametrize("offset", [0, 1, 5, 100])
def test_reading_outside_the_log_is_an_error(offset: int, tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 4)
    log.advance_log_start(2)
    with pytest.raises(KafkaError) as refused:
        log.read(offset, 1000, limit_offset=4)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_last_stable_offset_stays_at_the_first_open_transaction(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 2)
    assert log.last_stable_offset == 2
    open_txn = batch(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.append_as_leader(open_txn, 0, NOW_MS)
    fill(log, 1)
    assert (log.last_stable_offset, log.high_watermark) == (2, 4)


@pytest.mark.parametrize(("offset", "expected"), [(-5, 1), (0, 1), (2, 2), (3, 3), (99, 3)])
def test_the_high_watermark_stays_between_the_logs_ends(offset: int, expected: int, tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 3)
    log.advance_log_start(1)
    assert log.update_high_watermark(offset) == log.high_watermark == expected


# Trimming


def test_truncation_removes_epochs_producers_and_the_recovery_point_behind_it(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=3 * SIZE))
    fill(log, 4, epoch=1)
    log.append_as_leader(batch(producer_id=1, producer_epoch=0, base_sequence=0), 2, NOW_MS)
    log.append_as_leader(batch(producer_id=1, producer_epoch=0, base_sequence=1), 2, NOW_MS)
    log.flush(NOW_MS)
    assert log.truncate_to(5)
    assert (log.log_end_offset, log.recovery_point, log.high_watermark) == (5, 5, 4)
    assert [batch_.last_sequence for batch_ in log.producers.producers[1].batches] == [0]
    assert log.truncate_to(2)
    assert [(entry.epoch, entry.start_offset) for entry in log.leader_epochs.entries] == [(1, 0)]
    assert (log.producers.producers, log.high_watermark) == ({}, 2)
    assert names(tmp_path, ".snapshot") == []


def test_truncation_at_the_end_removes_an_epoch_that_began_there(tmp_path: Path) -> None:
    """KAFKA-10706: an epoch without records must not survive into the next leader's history."""
    log = open_log(tmp_path)
    fill(log, 2, epoch=1)
    log.assign_leader_epoch(5)
    assert log.leader_epochs.latest == 5
    assert not log.truncate_to(2)
    assert log.leader_epochs.latest == 1
    assert open_log(tmp_path, clean=False).leader_epochs.latest == 1
    log.close(NOW_MS)
    assert open_log(tmp_path).leader_epochs.latest == 1


def test_truncation_before_the_first_segment_restarts_the_log_there(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE))
    fill(log, 6)
    log.advance_log_start(4)
    log.delete_old_segments(NOW_MS)
    assert bases(log) == (4,)
    assert log.truncate_to(1)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (1, 1, 1)


def test_full_truncation_keeps_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE))
    fill(log, 5, epoch=3)
    log.flush(NOW_MS)
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 100, 100)
    assert (log.recovery_point, log.leader_epochs.entries, log.size_bytes) == (0, (), 0)
    assert {path.name[:20] for path in (tmp_path / "topic-0").glob("0*")} == {f"{100:020d}"}
    assert log.append_as_leader(batch(), 4, NOW_MS).base_offset == 100


def test_the_log_start_moves_forward_only_and_not_past_the_high_watermark(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 5, epoch=2)
    fill(log, 1, epoch=3)
    log.update_high_watermark(4)
    assert log.advance_log_start(3)
    assert not log.advance_log_start(2)
    assert log.log_start_offset == 3
    assert log.leader_epochs.entries[0] == (2, 3)
    with pytest.raises(KafkaError) as refused:
        log.advance_log_start(5)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("stopped", [False, True])
def test_epochs_before_the_logs_start_are_gone_after_a_crash_and_after_a_stop(tmp_path: Path, stopped: bool) -> None:
    log = open_log(tmp_path)
    for epoch in (1, 2, 3):
        fill(log, 2, epoch=epoch)
    log.advance_log_start(3)
    if stopped:
        log.close(NOW_MS)
        assert (tmp_path / "topic-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n2 3\n3 4\n"
    reopened = open_log(tmp_path, clean=stopped, log_start_offset=3)
    assert reopened.leader_epochs.entries == ((2, 3), (3, 4))


def test_deleted_segments_are_renamed_at_once_and_deleted_after_the_delay(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE, retention_bytes=2 * SIZE, file_delete_delay_ms=60))
    fill(log, 7)
    assert len(log.delete_old_segments(NOW_MS)) == 2
    assert (log.log_start_offset, bases(log)) == (4, (4, 6))
    assert names(tmp_path, ".log.deleted") == [f"{offset:020d}.log.deleted" for offset in (0, 2)]
    assert names(tmp_path, ".snapshot") == [f"{offset:020d}.snapshot" for offset in (4, 6)]
    log.delete_files(NOW_MS + 59)
    assert len(names(tmp_path, ".deleted")) == 6
    log.delete_files(NOW_MS + 60)
    assert names(tmp_path, ".deleted") == []


def test_expired_active_segment_is_rolled_and_deleted_too(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(retention_ms=1000))
    fill(log, 3)
    assert len(log.delete_old_segments(NOW_MS + 1000)) == 0
    assert len(log.delete_old_segments(NOW_MS + 1001)) == 1
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (3, 3, (3,))
    assert log.append_as_leader(batch(), 0, NOW_MS).base_offset == 3


# Durability


def test_nothing_is_synced_by_default(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE), disk=disk)
    fill(log, 5)
    assert disk.called("sync") == []
    assert log.recovery_point == 0


def test_flush_messages_syncs_the_append_that_reaches_it(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, LogConfig(flush_messages=3), disk=disk)
    fill(log, 2)
    assert log.recovery_point == 0
    fill(log, 1)
    assert log.recovery_point == 3
    assert f"{0:020d}.log" in disk.called("sync")


def test_flush_ms_makes_a_flush_due(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(flush_ms=100))
    fill(log, 2)
    assert log.due_flush(NOW_MS + 99) is None
    flush = log.due_flush(NOW_MS + 100)
    assert flush is not None
    flush.sync()
    assert log.recovery_point == 0
    flush.finish()
    assert log.recovery_point == 2
    assert log.due_flush(NOW_MS + 1000) is None


def test_rolled_segments_are_due_and_the_active_one_is_not(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE), disk=disk)
    fill(log, 5)
    flush = log.due_flush(NOW_MS)
    assert flush is not None
    flush.sync()
    flush.finish()
    assert log.recovery_point == 4
    assert f"{4:020d}.log" not in disk.called("sync")
    assert {f"{0:020d}.log", f"{2:020d}.log"} <= set(disk.called("sync"))


def test_a_new_topic_id_is_due_with_the_first_record(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk, topic_id=TOPIC_ID)
    assert log.due_flush(NOW_MS) is None
    fill(log, 1)
    flush = log.due_flush(NOW_MS)
    assert flush is not None
    flush.run()
    assert "partition.metadata" in disk.called("sync")
    assert f"{0:020d}.log" not in disk.called("sync")
    assert disk.called("sync_dir") == ["topic-0", tmp_path.name]
    assert (log.due_flush(NOW_MS), log.recovery_point) == (None, 0)


def test_flush_overtaken_by_a_truncation_makes_nothing_durable(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 5)
    flush = log.begin_flush(NOW_MS)
    assert flush is not None
    flush.sync()
    log.truncate_to(2)
    fill(log, 5)
    flush.finish()
    assert log.recovery_point == 0


def test_a_flush_syncs_small_files_and_directories_only_when_they_changed(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk, topic_id=TOPIC_ID)
    fill(log, 1)
    log.flush(NOW_MS)
    assert disk.called("sync") == ["leader-epoch-checkpoint", "partition.metadata", f"{0:020d}.log"]
    assert disk.called("sync_dir") == ["topic-0", tmp_path.name]
    disk.calls.clear()
    fill(log, 1)
    log.flush(NOW_MS)
    assert disk.called("sync") == [f"{0:020d}.log"]
    assert disk.called("sync_dir") == []


def test_segment_flushed_before_its_roll_is_due_again_for_its_indexes(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    fill(log, 3)
    log.flush(NOW_MS)
    log.roll(NOW_MS)
    assert log.recovery_point == 0
    disk.calls.clear()
    flush = log.due_flush(NOW_MS)
    assert flush is not None
    flush.sync()
    flush.finish()
    assert log.recovery_point == 3
    assert f"{0:020d}.timeindex" in disk.called("sync")
    assert disk.called("sync_dir") == ["topic-0"]


def test_closing_syncs_the_indexes_of_flushed_segments(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    fill(log, 3)
    log.flush(NOW_MS)
    disk.calls.clear()
    log.close(NOW_MS)
    assert f"{0:020d}.timeindex" in disk.called("sync")


def test_closing_an_idle_log_syncs_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 3)
    log.close(NOW_MS)
    disk = FaultyDisk()
    open_log(tmp_path, disk=disk).close(NOW_MS)
    assert disk.called("sync") == disk.called("sync_dir") == disk.called("pwrite") == []


def test_deleted_log_rejects_all_calls_and_completes_reads_in_flight(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 2)
    [part] = log.read(0, 1000, limit_offset=2).slices
    log.mark_deleted()
    for operation in (
        lambda: log.append_as_leader(batch(), 0, NOW_MS),
        lambda: log.read(0, 1000, limit_offset=2),
        lambda: log.flush(NOW_MS),
        lambda: finish(log.offset_for_timestamp(0)),
    ):
        with pytest.raises(KafkaError) as refused:
            operation()
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(part.read(0, part.size_bytes)) == 2 * SIZE
