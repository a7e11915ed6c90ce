"""Producer snapshots that were taken before the log was compacted."""

from pathlib import Path

from tests.compacted import COMPACTED, begin, end_txn, finish, markers, put
from tests.logs import NOW_MS, open_log


def test_old_snapshot_does_not_reopen_a_compacted_transaction(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACTED)
    put(log, (b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.roll(NOW_MS)
    taken_at = log.log_end_offset
    snapshot = Path(log.directory, f"{taken_at:020}.snapshot")
    before = snapshot.read_bytes()
    end_txn(log, 7, commit=True)
    put(log, (b"a", b"2"), producer_id=7, producer_epoch=0, base_sequence=1)
    log.roll(NOW_MS)
    put(log, (b"b", b"3"))
    log.flush(NOW_MS)
    for now_ms in (NOW_MS, NOW_MS, NOW_MS + 10 * COMPACTED.delete_retention_ms):
        finish(begin(log, now_ms=now_ms))
    assert not markers(log)
    for path in Path(log.directory).glob("*.snapshot"):
        path.unlink()
    snapshot.write_bytes(before)
    recovered = open_log(tmp_path, COMPACTED, clean=False, recovery_point=log.segments[-1].base_offset)
    assert recovered.producers.producers[7].txn_first_offset == -1
    recovered.update_high_watermark(recovered.log_end_offset)
    assert recovered.last_stable_offset == recovered.log_end_offset


def test_snapshot_keeps_a_transaction_open_while_an_earlier_batch_is_left(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACTED._replace(segment_bytes=100))
    fields = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    put(log, (b"a", b"1"), base_sequence=0, **fields)
    log.roll(NOW_MS)
    put(log, (b"b", b"2"), base_sequence=1, **fields)
    log.roll(NOW_MS)
    taken_at = log.log_end_offset
    put(log, (b"c", b"3"), base_sequence=2, **fields)
    marker = end_txn(log, 7, commit=False)
    log.flush(NOW_MS)
    Path(log.directory, "0" * 20 + ".log").write_bytes(b"")  # as an unfinished pass leaves it
    recovered = open_log(tmp_path, log.config, clean=False, recovery_point=taken_at)
    assert [txn[:3] for txn in recovered.segments[-1].transaction_index.entries] == [(7, 0, marker)]


def test_snapshot_keeps_a_compacted_marker_where_later_batches_are_lost(tmp_path: Path) -> None:
    """A power cut took the end of a segment and left the next; the log continues there, since it is compacted."""
    log = open_log(tmp_path, COMPACTED)
    put(log, (b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    end_txn(log, 7, commit=True)
    put(log, (b"a", b"2"), producer_id=7, producer_epoch=0, base_sequence=1)
    log.roll(NOW_MS)
    put(log, (b"b", b"3"))
    log.flush(NOW_MS)
    for now_ms in (NOW_MS, NOW_MS, NOW_MS + 10 * COMPACTED.delete_retention_ms):
        finish(begin(log, now_ms=now_ms))
    assert not markers(log)
    begins, kept = log.segments[-1].base_offset, log.segments[-1].size_bytes
    put(log, (b"c", b"4"), producer_id=7, producer_epoch=0, base_sequence=2)
    log.roll(NOW_MS)
    path = Path(log.directory, f"{begins:020}.log")
    path.write_bytes(path.read_bytes()[:kept])
    (tmp_path / "cleaner-offset-checkpoint").write_text(f"0\n1\ntopic 0 {begins}\n")
    recovered = open_log(tmp_path, COMPACTED, clean=False, recovery_point=begins, high_watermark=begins)
    assert recovered.log_end_offset == log.log_end_offset
    known = recovered.producers.producers[7]
    assert (known.coordinator_epoch, known.txn_first_offset, known.batches[-1].last_sequence) == (0, -1, 1)
    assert recovered.producers.first_unstable_offset is None
