"""The checkpoint files of a directory after truncation of a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.errors import KafkaError
from storage.checkpoint_files import CHECKPOINTS
from storage.log_directory import LOG_STARTS, RECOVERY_POINTS
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, TOPIC_ID, fill
from tests.unit.storage.test_log_manager import CONFIG, Manager, _closed, create

__all__ = ["_closed"]


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def manager(tmp_path: Path, disk: FaultyDisk) -> Manager:
    manager = Manager(tmp_path, disk=disk)
    manager.start()
    return manager


def recovery_points(manager: Manager) -> str:
    return (Path(manager.directories[0].path) / RECOVERY_POINTS).read_text()


def test_truncation_is_durable_and_stored_in_the_checkpoints(manager: Manager, disk: FaultyDisk) -> None:
    log = create(manager)
    for _ in range(3):
        fill(log, 2)
        log.roll(NOW_MS)
    log.flush(NOW_MS)
    manager.checkpoint()
    assert recovery_points(manager) == "0\n1\ntopic 0 6\n"
    disk.calls.clear()
    assert manager.truncate_to(log, 3)
    assert disk.called("sync") == ["00000000000000000002.log"]
    assert "topic-0" in disk.called("sync_dir")
    assert recovery_points(manager) == "0\n1\ntopic 0 2\n"
    manager.truncate_fully_and_start_at(log, 0)
    assert recovery_points(manager) == "0\n1\ntopic 0 0\n"


def test_truncation_writes_only_checkpoints_beyond_the_new_end(manager: Manager, disk: FaultyDisk) -> None:
    logs = [manager.create("topic", TOPIC_ID, index, CONFIG) for index in range(3)]
    for log in logs:
        fill(log, 3)
        log.roll(NOW_MS)
        fill(log, 3)
        log.flush(NOW_MS)
    manager.truncate_to(logs[0], 5)
    disk.calls.clear()
    for log in logs:
        manager.truncate_to(log, 4)
        assert log.log_end_offset == 4
    assert not set(disk.called("replace")) & set(CHECKPOINTS)
    manager.truncate_to(logs[1], 2)
    assert disk.called("replace").count(RECOVERY_POINTS) == 1


def test_crash_during_truncation_leaves_no_recovery_point_in_the_active_segment(
    manager: Manager, disk: FaultyDisk
) -> None:
    log = create(manager)
    for _ in range(2):
        fill(log, 3)
        log.roll(NOW_MS)
    log.flush(NOW_MS)
    manager.checkpoint()
    disk.arm("truncate")
    with pytest.raises(KafkaError):
        manager.truncate_to(log, 5)
    # At 5, the segment that begins at 3 would pass for synced as soon as a segment begins behind it.
    assert recovery_points(manager) == "0\n1\ntopic 0 3\n"


def test_log_start_within_a_truncated_batch_is_durable_before_the_truncation(
    manager: Manager, disk: FaultyDisk
) -> None:
    """Only deleted records would remain, and all of them go: in two steps, with a possible power cut between them."""
    log = create(manager)
    fill(log, 2)
    fill(log, 1, count=6)
    manager.truncate_to(log, 7)  # so that the checkpoint files are known to be low enough
    fill(log, 1, count=6)
    manager.delete_records(log, 4)
    disk.calls.clear()
    assert manager.truncate_to(log, 5)
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    changed = [(kind, Path(path).name) for kind, path in disk.calls]
    durable = changed.index(
        ("sync_dir", Path(manager.directories[0].path).name), changed.index(("replace", LOG_STARTS))
    )
    assert durable < changed.index(("truncate", "00000000000000000000.log"))


def test_a_log_start_is_written_for_a_truncation_unless_it_is_durable_already(
    manager: Manager, disk: FaultyDisk
) -> None:
    log = create(manager)
    fill(log, 9)
    log.flush(NOW_MS)
    log.update_high_watermark(9)
    written = []
    for start, end in ((2, 8), (2, 7), (3, 6), (3, 5)):
        manager.delete_records(log, start)
        manager.save_log_starts()  # not synced
        disk.calls.clear()
        manager.truncate_to(log, end)
        written.append(disk.called("replace").count(LOG_STARTS))
    assert written == [1, 0, 1, 0]
