"""The producer state of a log after a start, the files that it is read from, and the files that are corrected."""

from pathlib import Path
from typing import Any

import pytest

from protocol.record_batch import ControlType, assign, build_batch, control_record_key
from storage.log.log import Log, LogConfig
from storage.log.transaction_index import AbortedTxn, decode_entries
from tests.logs import NOW_MS, batch, content, headers, open_log

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)


def write(log: Log, producer: int, sequence: int, count: int = 1, *, transactional: bool = True) -> int:
    """Append a batch; return its first offset."""
    fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
    return log.append_as_leader(batch(count, is_transactional=transactional, **fields), 0, NOW_MS).base_offset


def end(log: Log, producer: int, *, commit: bool = False) -> int:
    """Append the marker that ends a producer's transaction, as a follower does; return its offset."""
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    fields: dict[str, Any] = {
        "producer_id": producer,
        "producer_epoch": 0,
        "is_control": True,
        "is_transactional": True,
    }
    marker = build_batch([(control_record_key(kind), bytes(6))], timestamp_ms=NOW_MS, **fields)
    offset = log.log_end_offset
    assign(marker, offset, 0)
    log.append_as_follower(marker, 0, NOW_MS)
    return offset


def indexes(log: Log) -> dict[int, list[AbortedTxn]]:
    """Return the entries of every transaction index on disk by base offset."""
    paths = sorted(Path(log.directory).glob("*.txnindex"))
    return {int(path.stem): decode_entries(path.read_bytes(), int(path.stem)) for path in paths}


def snapshots(log: Log) -> list[int]:
    return sorted(int(path.stem) for path in Path(log.directory).glob("*.snapshot"))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Return a log of several segments with two aborted transactions, one of them over segments, and an open one."""
    log = open_log(tmp_path, CONFIG)
    write(log, 1, 0)
    write(log, 2, 0, 2)
    end(log, 2)
    for sequence in range(1, 6):
        write(log, 1, sequence)
    write(log, 3, 0)
    end(log, 1)
    write(log, 4, 0)
    end(log, 4, commit=True)
    assert len(log.segments) > 2
    return log


WANTED = [AbortedTxn(2, 1, 3, 0), AbortedTxn(1, 0, 10, 9)]


def test_an_abort_is_in_the_index_of_the_segment_of_its_marker(log: Log) -> None:
    found = indexes(log)
    assert [entry for entries in found.values() for entry in entries] == WANTED
    for base, entries in found.items():
        following = [segment.base_offset for segment in log.segments if segment.base_offset > base]
        assert all(base <= entry.last_offset < min(following, default=100) for entry in entries)


@pytest.mark.parametrize("damage", ["gone", "torn", "wrong", "stale"])
@pytest.mark.parametrize("synced", [False, True])
def test_recovery_rebuilds_the_transaction_indexes_of_unsynced_segments(
    log: Log, tmp_path: Path, damage: str, synced: bool
) -> None:
    before = indexes(log)
    newest = max(before)
    if synced:
        log.flush(NOW_MS)
    path = Path(log.directory, f"{newest:020}.txnindex")
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        wrong = content[:-1] + bytes([content[-1] ^ 1])
        path.write_bytes({"torn": content[:-3], "wrong": wrong, "stale": content + content}[damage])
    # The segment of the recovery point is scanned too.
    again = open_log(tmp_path, CONFIG, clean=False, recovery_point=newest + 1 if synced else 0)
    assert indexes(again) == before


@pytest.mark.parametrize("damage", ["torn", "stale"])
def test_invalid_transaction_index_is_rebuilt_after_a_clean_shutdown_too(log: Log, tmp_path: Path, damage: str) -> None:
    before = indexes(log)
    log.close(NOW_MS)
    path = Path(log.directory, f"{max(before):020}.txnindex")
    content = path.read_bytes()
    path.write_bytes(content[:-1] if damage == "torn" else content + content)
    again = open_log(tmp_path, CONFIG)
    assert again.recovery.rebuilt_segments == 1
    assert indexes(again) == before


def test_recovering_twice_changes_nothing(log: Log, tmp_path: Path) -> None:
    first = open_log(tmp_path, CONFIG, clean=False, recovery_point=5)
    files = {path.name: path.read_bytes() for path in Path(log.directory).iterdir()}
    open_log(tmp_path, CONFIG, clean=False, recovery_point=5)
    assert {path.name: path.read_bytes() for path in Path(log.directory).iterdir()} == files
    assert indexes(first) == indexes(log)


def test_truncation_removes_aborts_and_reopens_their_transactions(log: Log) -> None:
    log.truncate_to(10)
    assert [entry for entries in indexes(log).values() for entry in entries] == WANTED[:1]
    assert log.producers.first_unstable_offset == 0
    end(log, 1)
    assert [entry for entries in indexes(log).values() for entry in entries] == WANTED


def test_snapshots_past_the_recovery_point_are_rewritten(log: Log, tmp_path: Path) -> None:
    known = snapshots(log)
    contents = {offset: Path(log.directory, f"{offset:020}.snapshot").read_bytes() for offset in known}
    for offset in known[1:]:
        # Complete, but not of this log: as if it were written after batches since truncated.
        Path(log.directory, f"{offset:020}.snapshot").write_bytes(contents[known[0]])
    again = open_log(tmp_path, CONFIG, clean=False, recovery_point=known[0])
    assert {
        offset: Path(log.directory, f"{offset:020}.snapshot").read_bytes() for offset in snapshots(again)
    } == contents


def test_stray_snapshot_is_deleted_unless_it_is_the_newest(log: Log, tmp_path: Path) -> None:
    known = snapshots(log)
    log.close(NOW_MS)
    closed = log.log_end_offset
    stray = Path(log.directory, f"{known[1] + 1:020}.snapshot")
    stray.write_bytes(Path(log.directory, f"{known[1]:020}.snapshot").read_bytes())
    beyond = Path(log.directory, f"{closed + 1:020}.snapshot")
    beyond.write_bytes(Path(log.directory, f"{closed:020}.snapshot").read_bytes())
    assert snapshots(open_log(tmp_path, CONFIG)) == [*known, closed]


def test_snapshot_from_before_the_log_start_is_not_trusted(tmp_path: Path) -> None:
    """The power cut left it, but not the snapshot at the first segment; the batches between the two are deleted."""
    log = open_log(tmp_path, CONFIG)
    write(log, 1, 0, transactional=False)
    write(log, 2, 0, transactional=False)
    log.roll(NOW_MS)
    write(log, 1, 1, transactional=False)
    log.roll(NOW_MS)
    write(log, 2, 1, transactional=False)
    assert snapshots(log) == [2, 3]
    for base in (0, 2):
        for suffix in (".log", ".index", ".timeindex"):
            Path(log.directory, f"{base:020}{suffix}").unlink()
    Path(log.directory, f"{3:020}.snapshot").write_bytes(b"")
    again = open_log(tmp_path, CONFIG, clean=False)
    assert (again.log_start_offset, list(again.producers.producers), snapshots(again)) == (3, [2], [])
    write(again, 1, 2, transactional=False)  # accepted though it continues an unknown sequence


@pytest.mark.parametrize("before", [0, 6])
def test_a_transaction_ended_above_the_high_watermark_is_unstable_after_a_clean_stop_too(
    tmp_path: Path, before: int
) -> None:
    log = open_log(tmp_path, CONFIG)
    for sequence in range(before):
        write(log, 1, sequence, transactional=False)
    first = write(log, 2, 0)
    end(log, 2, commit=True)
    log.update_high_watermark(first + 1)
    assert log.last_stable_offset == first
    log.close(NOW_MS)
    again = open_log(tmp_path, CONFIG, high_watermark=first + 1)
    assert again.last_stable_offset == first
    again.update_high_watermark(again.log_end_offset)
    assert again.last_stable_offset == again.log_end_offset


@pytest.mark.parametrize("is_open", [False, True], ids=["window", "open transaction"])
def test_a_damaged_length_in_the_middle_leaves_the_batches_before_it_readable(tmp_path: Path, is_open: bool) -> None:
    log = open_log(tmp_path, CONFIG._replace(segment_bytes=1 << 20))
    if is_open:
        write(log, 2, 0)
    for sequence in range(8):
        write(log, 1, sequence, transactional=False)
    end_offset, whole = log.log_end_offset, content(log)
    sizes = [header.size_bytes for header in headers(log)]
    log.close(NOW_MS)
    segment = next((tmp_path / "topic-0").glob("*.log"))
    damaged = bytearray(segment.read_bytes())
    damaged[sum(sizes[:3]) + 8] ^= 0x80
    segment.write_bytes(damaged)
    log = open_log(tmp_path, CONFIG, clean=True)
    assert log.log_end_offset == end_offset
    (part,) = log.read(0, sum(sizes[:3]), limit_offset=end_offset).slices
    assert part.read(0, part.size_bytes) == whole[: sum(sizes[:3])]
    assert log.producers.producers[1].batches[-1].last_sequence == 7
    assert (2 in {producer for _, producer in log.producers.open_transactions}) is is_open


def test_a_transaction_that_began_behind_damage_stays_open(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1 << 20, index_interval_bytes=1 << 20)
    log = open_log(tmp_path, config)
    for sequence in range(4):
        write(log, 1, sequence, transactional=False)
    first = write(log, 2, 0)
    size = headers(log)[0].size_bytes
    log.roll(NOW_MS)
    log.close(NOW_MS)
    segment = tmp_path / "topic-0" / f"{0:020d}.log"
    damaged = bytearray(segment.read_bytes())
    damaged[size + 8] ^= 0x80
    segment.write_bytes(damaged)
    log = open_log(tmp_path, config, clean=True)
    log.update_high_watermark(log.log_end_offset)
    assert list(log.producers.open_transactions) == [(first, 2)]
    assert log.last_stable_offset == first < log.high_watermark
