"""A log is never compacted while it moves to another directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.cleaner.cleaner_manager import CleanerConfig, CleanerManager
from storage.cleaner.cleaner_pass import CleanerPass
from storage.log.log import Log
from storage.steps import finish
from tests.compacted import COMPACTED, latest, offsets, put, records
from tests.compacted import finish as carry_out
from tests.logs import NOW_MS, content
from tests.unit.storage.moving import Manager, found, restarted

CONFIG = CleanerConfig(memory_bytes=1 << 20, buffer_bytes=2048)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    Manager.made = []
    manager = Manager(tmp_path)
    yield manager
    manager.crash()


def filled(manager: Manager) -> Log:
    """Return a log of forty records, ten of each key."""
    log = manager.create_log(COMPACTED)
    for number in range(40):
        put(log, (b"%d" % (number % 4), b"%d" % number))
    log.roll(NOW_MS)
    return log


def next_pass(compactor: CleanerManager) -> CleanerPass | None:
    return next((found for found in compactor.next(CONFIG) if found is not None), None)


def files(manager: Manager) -> list[str]:
    """Return the files that unfinished passes left in any directory."""
    return [
        path.name
        for directory in manager.directories
        for path in Path(directory.path).rglob("*")
        if path.name.endswith((".cleaned", ".swap"))
    ]


@pytest.mark.parametrize("steps", range(0, 40, 4))
def test_start_of_a_move_ends_the_pass(manager: Manager, steps: int) -> None:
    log = filled(manager)
    compactor = CleanerManager(manager.disk, manager, now_ms=lambda: NOW_MS)
    compaction = next_pass(compactor)
    assert compaction is not None
    for _ in range(steps):
        call = compaction.step(1)
        if call is not None:
            call()
    over = compaction.done
    move = manager.started(log)
    carry_out(compaction)
    assert files(manager) == []
    assert (compaction.cleaned_to is not None) is over
    compactor.finished(compaction)
    before = content(log)
    finish(manager.moves.steps(move))
    assert content(log) == before
    assert log.directory.startswith(manager.second.path)
    assert latest(records(log)) == {b"%d" % key: b"%d" % (36 + key) for key in range(4)}
    assert log.cleaned_to == (40 if over else None)


def test_moved_log_is_compacted_in_the_new_directory(manager: Manager) -> None:
    log = filled(manager)
    compactor = CleanerManager(manager.disk, manager, now_ms=lambda: NOW_MS)
    move = manager.started(log)
    steps = manager.moves.steps(move)
    for step in steps:
        assert next_pass(compactor) is None
        if step is not None:
            step()
    log.roll(NOW_MS)
    compaction = next_pass(compactor)
    assert compaction is not None
    compactor.finished(carry_out(compaction))
    assert offsets(log) == [36, 37, 38, 39]
    assert log.segments[0].path.startswith(manager.second.path)
    assert next_pass(compactor) is None


def test_log_is_compacted_after_a_cancelled_move(manager: Manager) -> None:
    log = filled(manager)
    compactor = CleanerManager(manager.disk, manager, now_ms=lambda: NOW_MS)
    manager.started(log)
    assert next_pass(compactor) is None
    manager.moves.cancel(log)
    assert next_pass(compactor) is not None


def test_moved_compacted_log_is_known_to_have_gaps(manager: Manager) -> None:
    log = filled(manager)
    compactor = CleanerManager(manager.disk, manager, now_ms=lambda: NOW_MS)
    compaction = next_pass(compactor)
    assert compaction is not None
    compactor.finished(carry_out(compaction))
    manager.moved(log)
    assert found(restarted(manager)).cleaned_to == 40
