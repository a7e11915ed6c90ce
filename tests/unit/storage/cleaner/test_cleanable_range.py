from pathlib import Path

import pytest

from storage.cleaner.cleanable_range import LogToClean, cleanable_range
from storage.log.log import Log
from tests.compacted import COMPACTED, put
from tests.logs import NOW_MS, open_log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Return a log of three segments of ten offsets and an active one of one."""
    log = open_log(tmp_path, COMPACTED._replace(segment_bytes=1 << 20))
    for segment in range(3):
        for number in range(10):
            put(log, (b"%d" % number, b"v"), now_ms=NOW_MS + segment * 1000)
        log.roll(NOW_MS)
    put(log, (b"a", b"v"), now_ms=NOW_MS + 3000)
    return log


def looked_at(log: Log, cleaned_to: int, now_ms: int) -> LogToClean:
    log.cleaned_to = cleaned_to
    return cleanable_range(log, now_ms)


def bounds(log: Log, cleaned_to: int | None = None, *, now_ms: int = NOW_MS + 3000) -> tuple[int, int]:
    log.cleaned_to = cleaned_to
    to_clean = cleanable_range(log, now_ms)
    return to_clean.first_dirty_offset, to_clean.first_uncleanable_offset


def test_rule_19_all_but_the_active_segment_is_cleanable(log: Log) -> None:
    assert bounds(log) == (0, 30)


def test_segment_of_the_high_watermark_is_not_cleanable(log: Log) -> None:
    log.high_watermark = 15
    assert bounds(log) == (0, 10)
    log.high_watermark = 20
    assert bounds(log) == (0, 20)


def test_open_transaction_is_not_cleanable(log: Log) -> None:
    put(log, (b"a", b"v"), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.roll(NOW_MS)
    put(log, (b"a", b"v"))
    assert bounds(log) == (0, 30)


@pytest.mark.parametrize(("lag_ms", "first"), [(999, 30), (1001, 20), (2001, 10), (9000, 0)])
def test_records_younger_than_the_lag_are_not_cleanable(log: Log, lag_ms: int, first: int) -> None:
    log.config = log.config._replace(min_compaction_lag_ms=lag_ms)
    assert bounds(log) == (0, first)


def test_rule_19_young_record_makes_its_whole_segment_uncleanable(log: Log) -> None:
    put(log, (b"b", b"v"), now_ms=NOW_MS + 9000)
    log.roll(NOW_MS)
    put(log, (b"a", b"v"), now_ms=NOW_MS + 9000)
    log.config = log.config._replace(min_compaction_lag_ms=1000)
    assert bounds(log, now_ms=NOW_MS + 9999) == (0, 30)
    assert bounds(log, now_ms=NOW_MS + 10_000) == (0, 32)


@pytest.mark.parametrize("stale", [None, 32, 1000])
def test_checkpoint_outside_the_log_is_ignored(log: Log, stale: int | None) -> None:
    assert bounds(log, stale) == (0, 30)
    log.advance_log_start(10)
    assert bounds(log, stale) == (10, 30)
    assert bounds(log, 5) == (10, 30)


def test_dirty_ratio_covers_the_cleanable_range(log: Log) -> None:
    assert looked_at(log, 0, NOW_MS).cleanable_ratio == 1
    assert looked_at(log, 20, NOW_MS).cleanable_ratio == pytest.approx(1 / 3)
    assert looked_at(log, 25, NOW_MS).cleanable_ratio == pytest.approx(1 / 6)
    assert looked_at(log, 30, NOW_MS).cleanable_ratio == 0


def test_a_log_is_due_above_its_ratio() -> None:
    assert LogToClean(0, 10, 50, 51, overdue=False).is_due(0.5)
    assert not LogToClean(0, 10, 50, 50, overdue=False).is_due(0.5)


def test_overdue_record_makes_a_log_due_at_any_ratio(log: Log) -> None:
    log.config = log.config._replace(max_compaction_lag_ms=5000)
    assert not looked_at(log, 20, NOW_MS + 7000).is_due(0.5)
    assert looked_at(log, 20, NOW_MS + 7001).is_due(0.5)
    assert not looked_at(log, 30, NOW_MS + 70_000).is_due(0.5)
