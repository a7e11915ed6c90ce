from pathlib import Path
from typing import Any

import pytest

from protocol.compression import Compression
from protocol.errors import KafkaError
from protocol.record_batch import read_header
from storage.cleaner.cleaner_pass import group_segments
from storage.disk import OsDisk
from storage.log.log import Log
from storage.log.transaction_index import AbortedTxn
from storage.log_directory import CLEANED_TO, LogDirectory
from tests.compacted import COMPACTED, begin, compact, end_txn, finish, latest, markers, offsets, put, records
from tests.logs import NOW_MS, content, headers, open_log

HOUR_MS = 3_600_000


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path, COMPACTED)


def test_the_last_record_of_each_key_stays_at_its_offset(log: Log) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    put(log, (b"b", b"2"), (b"c", b"1"))
    assert compact(log) == 5
    assert [(record.offset, record.key, record.value) for record in records(log)] == [
        (2, b"a", b"2"),
        (3, b"b", b"2"),
        (4, b"c", b"1"),
    ]


def test_batches_keep_offsets_sequences_epochs_and_codec(log: Log) -> None:
    fields = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 0, "compression": Compression.LZ4}
    put(log, (b"a", b"1"), (b"b", b"1"), **fields)
    before = headers(log)[0]
    put(log, (b"a", b"2"))
    compact(log)
    after = headers(log)[0]
    assert after.record_count == 1
    assert after._replace(record_count=2, batch_length=before.batch_length, crc=before.crc) == before


@pytest.mark.parametrize("codec", list(Compression))
def test_large_batches_of_each_codec_are_compacted(tmp_path: Path, codec: Compression) -> None:
    log = open_log(tmp_path, COMPACTED._replace(segment_bytes=1 << 20))
    many = [(b"%d" % (number % 700), b"%d" % number * 20) for number in range(2000)]
    put(log, *many, compression=codec)
    compact(log, chunk_bytes=1024)
    assert offsets(log) == list(range(1300, 2000))
    assert headers(log)[0].compression is codec


def test_timestamps_stay_and_the_largest_is_that_of_remaining_records(log: Log) -> None:
    log.append_as_leader(_stamped((b"a", NOW_MS + 9), (b"b", NOW_MS + 5)), 0, NOW_MS)
    put(log, (b"a", b"2"))
    compact(log)
    assert [record.timestamp - NOW_MS for record in records(log)] == [5, 0]
    assert headers(log)[0].max_timestamp == NOW_MS + 5


def _stamped(*records: tuple[bytes, int]) -> bytearray:
    from protocol.record import Record
    from protocol.record_batch import build_batch

    return build_batch([Record(0, timestamp, key, b"1") for key, timestamp in records])


def test_second_pass_removes_records_replaced_since_the_first(log: Log) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    cleaned_to = compact(log)
    put(log, (b"a", b"2"))
    assert compact(log, cleaned_to=cleaned_to) == 3
    assert offsets(log) == [1, 2]


def test_small_segments_are_merged(log: Log) -> None:
    for number in range(100):
        put(log, (b"a", b"%d" % number))
    assert len(log.segments) > 5
    cleaned_to = compact(log)
    compact(log, cleaned_to=cleaned_to)
    assert len(log.segments) == 2
    assert offsets(log) == [99]


class TestTombstones:
    def test_rule_20_tombstone_stays_until_the_horizon_set_by_the_first_pass(self, log: Log) -> None:
        put(log, (b"a", b"1"), (b"b", b"1"), (b"a", None))
        compact(log, now_ms=NOW_MS + HOUR_MS)
        assert offsets(log) == [1, 2]
        assert headers(log)[0].delete_horizon_ms == NOW_MS + HOUR_MS + 1000
        compact(log, now_ms=NOW_MS + HOUR_MS + 999)
        assert offsets(log) == [1, 2]
        compact(log, now_ms=NOW_MS + HOUR_MS + 1000)
        assert offsets(log) == [1]

    def test_tombstone_keeps_its_timestamp(self, log: Log) -> None:
        put(log, (b"a", None), (b"b", b"1"))
        compact(log, now_ms=NOW_MS + HOUR_MS)
        assert [record.timestamp for record in records(log)] == [NOW_MS] * 2

    def test_rule_20_slow_reader_still_reads_the_tombstone(self, log: Log) -> None:
        put(log, (b"a", b"1"))
        put(log, (b"a", None))
        [seen] = log.read(0, 70, limit_offset=log.log_end_offset).slices
        assert read_header(seen.read(0, seen.size_bytes)).base_offset == 0
        for now_ms in (NOW_MS, NOW_MS + 500, NOW_MS + 999):
            compact(log, now_ms=now_ms)
            rest = [record for record in records(log) if record.offset >= 1]
            assert [(record.offset, record.value) for record in rest] == [(1, None)]
        compact(log, now_ms=NOW_MS + 1000)
        assert records(log) == []


class TestTransactions:
    def test_aborted_records_are_removed_and_replace_no_others(self, log: Log) -> None:
        put(log, (b"a", b"1"))
        put(log, (b"a", b"2"), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        end_txn(log, 1, commit=False)
        put(log, (b"b", b"1"))
        compact(log)
        assert offsets(log) == [0, 3]

    def test_transaction_aborted_in_the_active_segment_replaces_nothing(self, log: Log) -> None:
        put(log, (b"a", b"1"))
        put(log, (b"a", b"2"), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        log.roll(NOW_MS)
        end_txn(log, 1, commit=False)
        assert finish(begin(log)).cleaned_to == 2
        assert offsets(log) == [0]

    def test_transaction_index_is_rewritten_with_the_segment(self, tmp_path: Path, log: Log) -> None:
        put(log, (b"a", b"1"))
        put(log, (b"a", b"2"), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        end_txn(log, 1, commit=False)
        put(log, (b"b", b"1"), producer_id=1, producer_epoch=0, base_sequence=1)
        compact(log)
        assert [segment.transaction_index.entries for segment in log.segments] == [[AbortedTxn(1, 1, 2, 3)], []]
        again = open_log(tmp_path, COMPACTED, high_watermark=4)
        assert again.segments[0].transaction_index.entries == [AbortedTxn(1, 1, 2, 3)]
        compact(again)
        names = OsDisk().list_dir(again.directory)
        assert not [name for name in names if name.endswith(".txnindex")]

    def test_the_last_sequence_of_a_producer_stays_in_an_empty_batch(self, log: Log) -> None:
        put(log, (b"a", b"2"), (b"b", b"2"), producer_id=1, producer_epoch=0, base_sequence=5, is_transactional=True)
        end_txn(log, 1, commit=False)
        compact(log)
        first = headers(log)[0]
        assert (first.record_count, first.base_sequence, first.last_sequence, first.producer_id) == (0, 5, 6, 1)

    def test_rule_20_marker_stays_while_its_records_do_and_then_until_its_horizon(self, log: Log) -> None:
        put(log, (b"a", b"1"), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        end_txn(log, 1, commit=True)
        put(log, (b"c", b"1"), producer_id=1, producer_epoch=0, base_sequence=1)
        compact(log, now_ms=NOW_MS)
        assert markers(log) == [1]
        put(log, (b"a", b"2"), (b"z", b"1"))
        compact(log, now_ms=NOW_MS)  # removes the records
        assert markers(log) == [1]
        compact(log, now_ms=NOW_MS)  # sets the delete horizon
        assert markers(log) == [1]
        assert headers(log)[0].delete_horizon_ms == NOW_MS + 1000
        compact(log, now_ms=NOW_MS + 1000)
        assert markers(log) == []

    def test_pass_stops_at_an_open_transaction(self, log: Log) -> None:
        put(log, (b"a", b"1"))
        log.roll(NOW_MS)
        put(log, (b"a", b"2"))
        put(log, (b"a", b"3"), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        log.roll(NOW_MS)
        put(log, (b"a", b"4"))
        assert compact(log) == 1
        assert offsets(log) == [0, 1, 2, 3]


class TestMemory:
    def test_pass_ends_where_the_offset_map_is_full(self, log: Log) -> None:
        put(log, *((b"%d" % number, b"1") for number in range(20)))
        put(log, *((b"%d" % number, b"2") for number in range(20)))
        cleaned_to = compact(log, memory_bytes=24 * 15)
        assert 0 < cleaned_to < 20
        for _ in range(10):
            cleaned_to = compact(log, memory_bytes=24 * 15, cleaned_to=cleaned_to)
        assert cleaned_to == 40
        assert offsets(log) == list(range(20, 40))


class TestSteps:
    def test_step_processes_few_records_even_of_a_large_batch(self, tmp_path: Path) -> None:
        log = open_log(tmp_path, COMPACTED._replace(segment_bytes=1 << 20))
        put(log, *((b"%d" % number, b"v") for number in range(6000)))
        put(log, *((b"%d" % number, None) for number in range(6000)))
        log.roll(NOW_MS)
        compaction, steps = begin(log), 0
        while not compaction.done:
            call = compaction.step(1)
            if call is not None:
                call()
            steps += 1
        # Each record counts once to map its key; tombstones count twice more, to clean and to rewrite their batch.
        assert steps > (12_000 + 6000 + 6000) / 128

    def test_step_reads_at_most_its_budget_and_a_batch(self, tmp_path: Path) -> None:
        log = open_log(tmp_path, COMPACTED._replace(segment_bytes=1 << 20))
        for number in range(300):
            put(log, (b"%d" % (number % 50), bytes(500)))
        log.roll(NOW_MS)
        compaction = begin(log, chunk_bytes=8192)
        while not compaction.done:
            before = compaction.bytes_read, compaction.bytes_written
            call = compaction.step(2000)
            if call is not None:
                call()
            assert compaction.bytes_read - before[0] < 2000 + 600
            assert compaction.bytes_written - before[1] <= 8192  # one chunk is written per step

    def test_step_allocates_few_pages_of_the_offset_map(self, tmp_path: Path) -> None:
        log = open_log(tmp_path, COMPACTED._replace(segment_bytes=16 << 20))
        for first in range(0, 300_000, 5000):
            put(log, *((b"%d" % number, b"") for number in range(first, first + 5000)))
        log.roll(NOW_MS)
        compaction = begin(log, memory_bytes=64 << 20)
        for _ in range(20):
            call = compaction.step(4096)
            if call is not None:
                call()
        pages = [page for page in compaction._offsets._pages if page is not None]
        assert 0 < len(pages) <= 20


class TestChangesDuringAPass:
    def test_appends_and_reads_continue_during_a_pass(self, log: Log) -> None:
        for number in range(50):
            put(log, (b"%d" % (number % 3), b"%d" % number))
        log.roll(NOW_MS)
        pending = [log.read(offset, 1 << 20, limit_offset=50).slices[0] for offset in (0, 20, 40)]
        compaction = begin(log)
        number = 0
        while not compaction.done:
            call = compaction.step(1)
            if call is not None:
                call()
            put(log, (b"n", b"%d" % number))
            number += 1
            assert latest(records(log)).keys() == {b"0", b"1", b"2", b"n"}
        assert [read_header(part.read(0, part.size_bytes)).base_offset for part in pending] == [0, 20, 40]
        assert offsets(log) == [47, 48, 49, *range(50, 50 + number)]

    @pytest.mark.parametrize("steps", range(0, 60, 3))
    @pytest.mark.parametrize("what", ["truncate", "delete", "reconfigure", "restart"])
    def test_a_change_of_the_log_ends_the_pass_and_leaves_no_files(self, tmp_path: Path, what: str, steps: int) -> None:
        log = open_log(tmp_path, COMPACTED)
        for number in range(20):
            put(log, (b"%d" % (number % 3), b"%d" % number), (b"x", b"y"))
        log.roll(NOW_MS)
        compaction = begin(log)
        for _ in range(steps):
            call = compaction.step(1)
            if call is not None:
                call()
        if what == "truncate":
            log.truncate_to(30)
        elif what == "delete":
            log.mark_deleted()
        elif what == "restart":
            log.truncate_fully_and_start_at(100)
        else:
            log.config = log.config._replace(delete_retention_ms=5)
        was_done = compaction.done
        finish(compaction)
        assert was_done or compaction.cleaned_to is None
        names = OsDisk().list_dir(log.directory)
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
        if what == "truncate":
            assert all(offset < 30 for offset in offsets(log))
            reopened = open_log(tmp_path, COMPACTED, clean=False)
            assert content(reopened) == content(log)

    def test_retention_waits_for_the_end_of_the_pass(self, log: Log) -> None:
        for number in range(40):
            put(log, (b"%d" % (number % 3), b"%d" % number))
        log.roll(NOW_MS)
        compaction = begin(log)
        log.advance_log_start(log.segments[1].base_offset)
        while not compaction.done:
            call = compaction.step(1)
            if call is not None:
                call()
            log.release()
            assert compaction.done or not log.delete_old_segments(NOW_MS)
        assert compaction.cleaned_to == 40
        assert offsets(log) == [37, 38, 39]
        log.advance_log_start(40)
        assert log.delete_old_segments(NOW_MS)


def test_a_damaged_batch_ends_the_pass_and_nothing_changes(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll(NOW_MS)
    log.segments[0].file.pwrite(b"\xff", 66)
    before = content(log)
    with pytest.raises(KafkaError, match="no valid record batch at byte 0 of"):
        finish(begin(log))
    assert content(log) == before


def test_reopened_compacted_log_is_unchanged(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACTED)
    for number in range(60):
        put(log, (b"%d" % (number % 7), b"%d" % number), producer_id=5, producer_epoch=0, base_sequence=number)
    compact(log)
    before = records(log), log.log_end_offset, log.producers.producers[5].batches[-1]
    log.close(NOW_MS)
    for clean in (True, False):
        again = open_log(tmp_path, COMPACTED, clean=clean)
        assert (records(again), again.log_end_offset, again.producers.producers[5].batches[-1]) == before


def test_full_disk_ends_the_pass_and_the_log_stays_usable(tmp_path: Path) -> None:
    from tests.disks import FaultyDisk

    disk = FaultyDisk()
    log = open_log(tmp_path, COMPACTED, disk=disk)
    for number in range(60):
        put(log, (b"%d" % (number % 7), b"%d" % number))
    log.roll(NOW_MS)
    before = content(log)
    disk.full = True
    with pytest.raises(KafkaError, match="is full"):
        finish(begin(log, disk=disk))
    disk.full = False
    assert content(log) == before
    assert isinstance(log._directory, LogDirectory)
    assert log._directory.failure is None
    finish(begin(log, disk=disk))
    assert offsets(log) == list(range(53, 60))


def test_pass_opens_merged_segments_one_at_a_time(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACTED)
    for number in range(50):
        put(log, (b"a", b"%d" % number))
        log.roll(NOW_MS)
    log.flush(NOW_MS)
    compaction = begin(log)
    most = 0
    while not compaction.done:
        call = compaction.step(1)
        if call is not None:
            call()
        log.release()
        paths = [Path(f"/proc/self/fd/{name}") for name in OsDisk().list_dir("/proc/self/fd")]
        links = [str(path.readlink()) for path in paths if path.is_symlink()]
        most = max(most, sum(link.startswith(f"{tmp_path}/") and link.endswith(".log") for link in links))
    assert offsets(log) == [49]
    assert most < 5


def test_cleaner_checkpoint_of_other_logs_may_be_damaged(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACTED)
    (tmp_path / CLEANED_TO).write_text("?")
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    assert compact(log) == 2
    assert log._directory.read_offsets(CLEANED_TO) == {("topic", 0): 0}


def test_segments_stay_contiguous_though_their_last_records_are_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACTED._replace(segment_bytes=150))
    for number in range(6):
        put(log, (b"%d" % number, b"1" * 40))
    for number in range(6):
        put(log, (b"%d" % number, b"2" * 40))
    compact(log)
    ends = [header.next_offset for header in headers(log)]
    assert {segment.base_offset for segment in log.segments[1:]} <= set(ends)
    assert offsets(log) == list(range(6, 12))


@pytest.fixture
def small_segments(tmp_path: Path) -> Log:
    log = open_log(tmp_path, COMPACTED._replace(segment_bytes=1 << 20, index_interval_bytes=0))
    for _ in range(6):
        for _ in range(3):
            put(log, (b"k", b"v" * 40))
        log.roll(NOW_MS)
    return log


def groups(log: Log, end_offset: int = 18, **config: Any) -> list[list[int]]:
    found = group_segments(log.segments[:-1], end_offset, log.config._replace(**config))
    return [[segment.base_offset for segment in group] for group in found]


def test_neighbouring_segments_are_grouped_up_to_the_segment_size(small_segments: Log) -> None:
    size = small_segments.segments[0].size_bytes
    assert groups(small_segments, segment_bytes=2 * size) == [[0, 3], [6, 9], [12, 15]]
    assert groups(small_segments, segment_bytes=2 * size - 1) == [[0], [3], [6], [9], [12], [15]]
    assert groups(small_segments) == [[0, 3, 6, 9, 12, 15]]


def test_segment_above_the_segment_size_stays_alone(small_segments: Log) -> None:
    assert groups(small_segments, segment_bytes=14) == [[0], [3], [6], [9], [12], [15]]


def test_index_size_bounds_a_group(small_segments: Log) -> None:
    size = small_segments.segments[0].offset_index.size_bytes
    assert size > 0
    assert groups(small_segments, segment_index_bytes=3 * size) == [[0, 3, 6], [9, 12, 15]]


def test_offset_range_bounds_a_group(small_segments: Log) -> None:
    assert groups(small_segments, end_offset=2**31) == [[0, 3, 6, 9, 12, 15]]
    assert groups(small_segments, end_offset=2**31 + 1) == [[0, 3, 6, 9, 12], [15]]
