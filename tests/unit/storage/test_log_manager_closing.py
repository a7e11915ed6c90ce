"""The state on disk after all logs are closed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from protocol.errors import KafkaError
from storage.log.flush import Flush
from tests.disks import FaultyDisk
from tests.logs import content, fill
from tests.unit.storage.test_log_manager import Manager, _closed, create, manager, restarted

__all__ = ["_closed", "manager"]


def test_closing_flushes_every_log_and_writes_the_checkpoints(manager: Manager) -> None:
    log = create(manager)
    fill(log, 5)
    before = content(log)
    again = restarted(manager, clean=True).get("topic", 0)
    assert again is not None
    assert (again.recovery_point, again.high_watermark) == (5, 5)
    assert content(again) == before


def test_threads_can_sync_before_closing_what_it_would_sync(tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk=disk)
    manager.start()
    for number in range(3):
        fill(create(manager, partition=number), 2)
    with ThreadPoolExecutor() as threads:
        flushes = list(manager.begin_close())
        list(threads.map(Flush.sync, flushes))
    for flush in flushes:
        flush.finish()
    assert disk.called("sync").count(f"{0:020d}.log") == 3
    disk.calls.clear()
    manager.close()
    assert disk.called("sync") == []
    assert [log.log_end_offset for log in Manager(tmp_path, seed=2).start()] == [2, 2, 2]


def test_failed_directory_does_not_block_the_clean_shutdown_of_others(manager: Manager) -> None:
    """As a directory whose metadata log could not be closed."""
    first, second = manager.directories
    assert not manager.close(broken=[first])
    assert [Path(each.path, ".kafka_cleanshutdown").exists() for each in (first, second)] == [False, True]


@pytest.mark.parametrize("ahead", [True, False])
def test_a_directory_whose_log_cannot_be_closed_is_not_marked_clean(ahead: bool, tmp_path: Path) -> None:
    disk = FaultyDisk()
    manager = Manager(tmp_path / "a", tmp_path / "b", disk=disk)
    manager.start()
    for number in range(2):
        fill(create(manager, partition=number), 1)
    disk.arm("sync")
    for flush in manager.begin_close() if ahead else ():
        flush.sync()
        with suppress(KafkaError):
            flush.finish()
    manager.close()
    assert len(manager.problems) == 1
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()
