"""The aborted transactions that a log returns to read_committed consumers, as its segments and indexes change."""

from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import EndTxnMarker
from storage.log.loader import open_log as open_at
from storage.log.log import Log, LogConfig
from storage.log.transaction_marker import build_marker
from storage.log_directory import LogDirectory
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, append_marker, batch, open_log

CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=1, file_delete_delay_ms=0)


def aborted(log: Log, offset: int, max_bytes: int = 1) -> list[tuple[int, int]]:
    """Return the producer and first offset of each aborted transaction that a read from `offset` returns."""
    [part] = log.read(offset, max_bytes, limit_offset=log.last_stable_offset).slices
    reported = log.aborted_transactions(offset, part)
    return [(one.producer_id, one.first_offset) for one in reported]


def abort(log: Log, producer_id: int, records: int = 1) -> None:
    """Append a transaction of `records` batches, and abort it."""
    for sequence in range(records):
        fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        log.append_as_leader(batch(is_transactional=True, **fields), 0, NOW_MS)
    append_marker(log, build_marker(producer_id, 0, EndTxnMarker(False, 0), NOW_MS), 0, NOW_MS)
    log.update_high_watermark(log.log_end_offset)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Return an aborted transaction of eight batches over several segments, a plain batch, and another aborted one."""
    log = open_log(tmp_path, CONFIG)
    abort(log, 1, records=8)
    log.append_as_leader(batch(), 0, NOW_MS)
    abort(log, 2)
    assert len(log.segments) > 3
    return log


def test_marker_many_segments_later_is_found(log: Log) -> None:
    assert [aborted(log, offset) for offset in range(log.log_end_offset)] == [[(1, 0)]] * 9 + [[], [(2, 10)], [(2, 10)]]


def test_transactions_far_behind_a_read_are_not_returned(log: Log) -> None:
    assert aborted(log, 0, max_bytes=1 << 20) == [(1, 0)]


def test_transactions_that_begin_behind_a_read_are_not_returned(tmp_path: Path) -> None:
    """The offset index has no entry between the end of the read and the next transaction."""
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1 << 20))
    for producer_id in range(4):
        abort(log, producer_id)
    size = log.size_bytes // 4
    assert [aborted(log, 0, max_bytes=number * size) for number in (1, 2)] == [[(0, 0)], [(0, 0), (1, 2)]]


def test_a_first_abort_in_the_active_segment_is_found_after_reads_without_any(log: Log) -> None:
    log.roll(NOW_MS)
    log.append_as_leader(batch(), 0, NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    start = log.log_end_offset
    assert aborted(log, start - 1) == []
    abort(log, 3)
    assert aborted(log, start) == [(3, start)]
    log.truncate_to(start)
    log.append_as_leader(batch(), 0, NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    assert aborted(log, start) == []


def test_aborted_transactions_of_a_read_open_no_file(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, CONFIG, disk=disk)
    abort(log, 1, records=8)
    *before, segment = log.segments[:3]
    [part] = log.read(segment.base_offset, 1, limit_offset=log.last_stable_offset).slices
    for other in before:
        other.close_file()
    disk.calls.clear()
    assert log.aborted_transactions(0, part)
    assert not [name for name in disk.called("open") if name.endswith(".log")]


def test_aborted_transactions_are_found_across_rolled_deleted_and_released_segments(log: Log) -> None:
    assert aborted(log, 8) == [(1, 0)]
    log.roll(NOW_MS)
    log.release()
    abort(log, 3)
    assert [aborted(log, offset) for offset in (8, 10, 12)] == [[(1, 0)], [(2, 10)], [(3, 12)]]
    log.advance_log_start(log.segments[-1].base_offset)
    log.delete_old_segments(NOW_MS)
    log.delete_files(NOW_MS)
    assert aborted(log, 12) == [(3, 12)]
    assert [path.stem for path in Path(log.directory).glob("*.txnindex")] == [f"{12:020}"]


def test_log_without_aborted_transactions_creates_no_transaction_index(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_at(disk, LogDirectory(disk, str(tmp_path)), "topic", 0, CONFIG, now_ms=NOW_MS)
    for _ in range(9):
        log.append_as_leader(batch(), 0, NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    for offset in range(9):
        assert aborted(log, offset) == []
    assert not [path for kind, path in disk.calls if path.endswith(".txnindex") and kind in ("create", "pwrite")]


def test_error_of_an_invalid_transaction_index_names_it(log: Log) -> None:
    log.roll(NOW_MS)
    log.release()
    path = next(iter(sorted(Path(log.directory).glob("*.txnindex"))))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(KafkaError, match=str(path)) as refused:
        aborted(log, 0)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_abort_is_appended_though_its_index_finds_the_disk_full(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_at(disk, LogDirectory(disk, str(tmp_path)), "topic", 0, CONFIG, now_ms=NOW_MS)
    fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    log.append_as_leader(batch(is_transactional=True, **fields), 0, NOW_MS)
    disk.arm("create", 28)
    append_marker(log, build_marker(1, 0, EndTxnMarker(False, 0), NOW_MS), 0, NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    assert aborted(log, 0) == [(1, 0)]
    assert not list(Path(log.directory).glob("*.txnindex"))
    log.close(NOW_MS)
    assert aborted(open_log(tmp_path, CONFIG, high_watermark=2), 0) == [(1, 0)]


def test_truncation_with_an_unreadable_transaction_index_changes_nothing(log: Log) -> None:
    folder, offset = Path(log.directory), log.segments[-1].base_offset - 1
    index = Path(log.segments[-2].transaction_index.path)
    log.release()
    index.write_bytes(b"rotten")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    ends = log.log_start_offset, log.log_end_offset, log.size_bytes, len(log.segments)
    with pytest.raises(KafkaError, match=f"{index}: 6 bytes: not a multiple of the entry size"):
        log.truncate_to(offset)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes, len(log.segments)) == ends
    index.unlink()
    assert log.truncate_to(offset)
