from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from protocol.errors import KafkaError
from storage.cleaner.cleaner_manager import CleanerConfig, CleanerManager
from storage.cleaner.cleaner_pass import CleanerPass
from storage.disk import OsDisk
from storage.log.log import Log
from storage.log_directory import CLEANED_TO
from storage.log_manager import LogManager
from tests.compacted import COMPACTED, finish, offsets, put
from tests.logs import NOW_MS, TOPIC_ID

CONFIG = CleanerConfig(memory_bytes=1 << 20, buffer_bytes=4096)


def managed(folder: Path) -> LogManager:
    logs = LogManager(OsDisk(), [str(folder)], COMPACTED, now_ms=lambda: NOW_MS, random=Random(1))
    logs.open()
    logs.format("cluster", 1)
    for log in logs.load():
        log.update_high_watermark(log.log_end_offset)
    return logs


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogManager]:
    manager = managed(tmp_path)
    yield manager
    manager.close()


def compactor(logs: LogManager) -> CleanerManager:
    return CleanerManager(OsDisk(), logs, now_ms=lambda: NOW_MS)


def filled(logs: LogManager, topic: str, *, twice: int) -> Log:
    """Return a new log of `twice` records, two of each key."""
    log = logs.create(topic, TOPIC_ID, 0, COMPACTED)
    for number in range(twice):
        put(log, (b"%d" % (number // 2), b"%d" % number))
    log.roll(NOW_MS)
    return log


def next_pass(compactor: CleanerManager) -> CleanerPass | None:
    found = [one for one in compactor.next(CONFIG) if one is not None]
    return found[0] if found else None


def test_logs_are_compacted_one_by_one_by_descending_dirty_ratio(logs: LogManager) -> None:
    at_work = compactor(logs)
    for topic in "ab":
        filled(logs, topic, twice=10)
    for _ in range(2):
        compaction = next_pass(at_work)
        assert compaction is not None
        at_work.finished(finish(compaction))
    assert next_pass(at_work) is None
    for log in logs:
        assert offsets(log) == [1, 3, 5, 7, 9]
    a, b = sorted(logs, key=str)
    for number in range(30):
        put(b, (b"%d" % number, b"new" * 5))
    for number in range(10):
        put(a, (b"%d" % number, b"new" * 5))
    a.roll(NOW_MS)
    b.roll(NOW_MS)
    compaction = next_pass(at_work)
    assert compaction is not None
    assert compaction.log is b
    assert at_work.max_dirty_percent > 70


def test_logs_without_compaction_are_unchanged(logs: LogManager) -> None:
    log = filled(logs, "a", twice=10)
    log.config = COMPACTED._replace(cleanup_policy=frozenset({"delete"}))
    assert next_pass(compactor(logs)) is None


def test_cleaned_offset_is_known_after_a_restart(tmp_path: Path) -> None:
    logs = managed(tmp_path)
    filled(logs, "a", twice=10)
    at_work = compactor(logs)
    compaction = next_pass(at_work)
    assert compaction is not None
    at_work.finished(finish(compaction))
    logs.close()
    assert (tmp_path / CLEANED_TO).read_text() == "0\n1\na 0 10\n"
    logs = managed(tmp_path)
    assert next_pass(compactor(logs)) is None
    logs.close()


def test_cleaned_offset_is_known_after_a_crash(tmp_path: Path) -> None:
    logs = managed(tmp_path)
    filled(logs, "a", twice=10)
    at_work = compactor(logs)
    compaction = next_pass(at_work)
    assert compaction is not None
    at_work.finished(finish(compaction))
    logs.close(clean=False)
    logs = managed(tmp_path)
    assert next_pass(compactor(logs)) is None
    logs.close()


def test_recreated_topic_does_not_count_as_compacted_after_a_crash(tmp_path: Path) -> None:
    logs = managed(tmp_path)
    filled(logs, "a", twice=10)
    at_work = compactor(logs)
    compaction = next_pass(at_work)
    assert compaction is not None
    at_work.finished(finish(compaction))
    logs.delete("a", 0)
    filled(logs, "a", twice=20)
    logs.close(clean=False)
    logs = managed(tmp_path)
    [log] = logs
    log.roll(NOW_MS)
    compaction = next_pass(compactor(logs))
    assert compaction is not None
    finish(compaction)
    assert offsets(log) == list(range(1, 20, 2))
    logs.close()


@pytest.mark.parametrize(("cut", "cleaned_to"), [(5, 4), (0, 0), (10, 10)])
def test_truncation_lowers_the_cleaned_offset(logs: LogManager, cut: int, cleaned_to: int) -> None:
    log = filled(logs, "a", twice=10)
    at_work = compactor(logs)
    compaction = next_pass(at_work)
    assert compaction is not None
    at_work.finished(finish(compaction))
    log.truncate_to(cut)
    assert log.cleaned_to == cleaned_to
    log.truncate_fully_and_start_at(3)
    assert log.cleaned_to is None


def test_truncated_log_is_cleaned_from_the_truncation_on(logs: LogManager) -> None:
    log = filled(logs, "a", twice=10)
    at_work = compactor(logs)
    compaction = next_pass(at_work)
    assert compaction is not None
    at_work.finished(finish(compaction))
    log.truncate_to(5)
    for number in range(4):
        put(log, (b"0", b"%d" % number))
    log.roll(NOW_MS)
    compaction = next_pass(at_work)
    assert compaction is not None
    finish(compaction)
    assert offsets(log) == [3, 7]  # the last batch left ends at 4


def test_recreated_topic_has_no_cleaned_offset(logs: LogManager) -> None:
    filled(logs, "a", twice=10)
    at_work = compactor(logs)
    compaction = next_pass(at_work)
    assert compaction is not None
    at_work.finished(finish(compaction))
    logs.delete("a", 0)
    log = filled(logs, "a", twice=20)
    compaction = next_pass(at_work)
    assert compaction is not None
    finish(compaction)
    assert offsets(log) == list(range(1, 20, 2))


def test_log_with_a_damaged_batch_is_skipped_and_reported(logs: LogManager) -> None:
    bad, good = filled(logs, "bad", twice=10), filled(logs, "good", twice=10)
    bad.segments[0].file.pwrite(b"\xff", 65)
    at_work = compactor(logs)
    for _ in range(2):
        compaction = next_pass(at_work)
        assert compaction is not None
        try:
            at_work.finished(finish(compaction))
        except KafkaError as error:
            at_work.failed(compaction.log, error)
    assert next_pass(at_work) is None
    assert list(at_work.uncleanable) == [bad]
    assert offsets(good) == [1, 3, 5, 7, 9]
    assert any("bad-0 is uncleanable until the next start" in problem for problem in logs.problems)
