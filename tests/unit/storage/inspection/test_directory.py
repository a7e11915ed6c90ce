"""Intact directories as brokers leave them; damage is in `tests/corruption/`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.disk import OsDisk
from storage.inspection.directory import check_directory
from storage.inspection.findings import Finding
from storage.log_directory import CLEANED_TO
from tests.compacted import COMPACTED, compact, offsets, put
from tests.logs import NOW_MS, fill
from tests.unit.storage.moving import Manager


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    Manager.made = []
    manager = Manager(tmp_path)
    yield manager
    manager.crash()


def wrong(manager: Manager) -> list[Finding]:
    return [finding for directory in manager.directories for finding in check_directory(OsDisk(), directory.path)]


def compacted(manager: Manager) -> None:
    """Make a log that keeps a record in the middle, but none of the last ones."""
    log = manager.create_log(COMPACTED)
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", None)):
        put(log, (key, value))
    compact(log)
    compact(log, cleaned_to=0, now_ms=NOW_MS + 2 * COMPACTED.delete_retention_ms)
    assert offsets(log) == [1]


def test_high_watermark_may_precede_a_truncation_after_a_kill(manager: Manager) -> None:
    log = manager.create_log()
    fill(log, 10)
    log.update_high_watermark(10)
    manager.checkpoint()
    manager.truncate_to(log, 5)
    assert wrong(manager) == []
    manager.close()
    assert wrong(manager) == []


def test_a_compacted_log_may_end_with_an_empty_segment(manager: Manager) -> None:
    compacted(manager)
    assert wrong(manager) == []
    manager.close()
    assert wrong(manager) == []


def test_gaps_are_allowed_without_a_cleaner_checkpoint(manager: Manager) -> None:
    compacted(manager)
    manager.close()
    file = Path(manager.first.path, CLEANED_TO)
    file.write_text("?")
    assert {finding.path for finding in wrong(manager)} == {str(file)}
