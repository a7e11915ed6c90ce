"""Detection of lost or changed records in a compacted log."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulation.violation import Invariant, Violation
from storage.log.log import Log
from tests.compacted import COMPACTED, Pair, compact, end_txn, put, records
from tests.logs import NOW_MS, open_log
from tests.simulation.committed import Compacted

BEFORE: tuple[Pair, ...] = ((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", None))


def check(invariant: Invariant, condition: object, problem: str) -> None:
    if not condition:
        raise Violation(invariant, problem)


def log_of(folder: Path, *pairs: Pair, delete_retention_ms: int = 86_400_000) -> Log:
    folder.mkdir(exist_ok=True)
    log = open_log(folder, COMPACTED._replace(delete_retention_ms=delete_retention_ms))
    for pair in pairs:
        put(log, pair)
    return log


def committed(log: Log) -> Compacted:
    known = Compacted()
    known.advance(log, 0, log.high_watermark, check, "log")
    return known


def test_correct_compaction_passes(tmp_path: Path) -> None:
    log = log_of(tmp_path, *BEFORE)
    known = committed(log)
    compact(log)
    known.compacted(log, check, "log")


def test_lost_last_record_of_key_is_found(tmp_path: Path) -> None:
    known = committed(log_of(tmp_path / "one", *BEFORE))
    other = log_of(tmp_path / "other", (b"b", b"1"))  # it replaces a=1, and so differs there, too
    with pytest.raises(Violation) as found:
        known.compacted(other, check, "log")
    assert found.value.invariant is Invariant.COMPACTED_KEEPS_OFFSETS


def test_log_compacted_by_uncommitted_record_is_found(tmp_path: Path) -> None:
    """`b` is missing, as if a later record of its key were committed; that record is not below any high watermark."""
    log = log_of(tmp_path, *BEFORE)
    known = committed(log)
    put(log, (b"b", b"2"))
    compact(log)
    log.truncate_to(4)
    with pytest.raises(Violation) as found:
        known.compacted(log, check, "log")
    assert found.value.invariant is Invariant.COMPACTED_KEEPS_LAST


def test_expired_tombstone_may_be_removed(tmp_path: Path) -> None:
    for number, (retention_ms, goes) in enumerate(((0, True), (86_400_000, False))):
        log = log_of(tmp_path / str(number), *BEFORE, (b"d", b"1"), delete_retention_ms=retention_ms)
        known = committed(log)
        cleaned_to = compact(log)
        put(log, (b"e", b"1"), now_ms=NOW_MS + 1)
        compact(log, cleaned_to=cleaned_to, now_ms=NOW_MS + 1000)
        known.compacted(log, check, "log")
        offsets = {record.offset for record in records(log)}
        assert (3 not in offsets) == goes


@pytest.mark.parametrize("commit", [True, False])
def test_aborted_record_replaces_no_other(tmp_path: Path, commit: bool) -> None:
    """A transaction writes `b`; `b` of before must stay if it is aborted, and may go if it is committed."""
    log = log_of(tmp_path / "log", *BEFORE)
    put(log, (b"b", b"2"), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    end_txn(log, 7, commit=commit)
    known = committed(log)
    compact(log)
    known.compacted(log, check, "log")
    log = log_of(tmp_path / "other", *BEFORE)
    put(log, (b"b", b"2"), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    end_txn(log, 7, commit=not commit)
    compact(log)
    with pytest.raises(Violation) as found:
        known.compacted(log, check, "log")
    assert found.value.invariant is Invariant.COMPACTED_KEEPS_LAST
