"""Data directories in which another program has made segments: gaps between these are no losses."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from storage.log_directory import CLEANED_TO, CONTIGUOUS_FROM
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, TOPIC_ID, fill, headers
from tests.unit.storage.test_log_manager import CONFIG, SIZE, Manager, _closed, create

__all__ = ["_closed"]


def test_gaps_between_segments_that_another_program_made_are_no_losses(tmp_path: Path) -> None:
    """As a follower of Apache Kafka leaves them, also above its cleaner checkpoint."""
    manager = Manager(tmp_path)
    manager.start()
    log = manager.create("topic", TOPIC_ID, 0, CONFIG)
    for base in (0, 20, 40):
        log.truncate_fully_and_start_at(base)
        fill(log, 2)
        log.flush(NOW_MS)
        for path in Path(log.directory).glob(f"{base:020d}.*"):
            shutil.copy(path, tmp_path / path.name)
    manager.close()
    for path in tmp_path.glob("0*"):
        shutil.move(path, tmp_path / "topic-0" / path.name)
    for path in tmp_path.glob("*checkpoint"):
        path.unlink()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    (tmp_path / CLEANED_TO).write_text("0\n1\ntopic 0 5\n")
    for _ in range(3):  # which it also is after crashes of ours
        manager = Manager(tmp_path)
        [log] = manager.start()
        assert [header.base_offset for header in headers(log)] == [0, 1, 20, 21, 40, 41]
        assert (log.log_end_offset, log.recovery.removed_segments) == (42, 0)
        manager.crash()
    manager = Manager(tmp_path)
    [log] = manager.start()
    log.roll(NOW_MS)
    fill(log, 2)
    log.roll(NOW_MS)
    fill(log, 2)
    manager.crash()
    torn = tmp_path / "topic-0" / f"{42:020d}.log"
    torn.write_bytes(torn.read_bytes()[:SIZE])
    manager = Manager(tmp_path)
    [log] = manager.start()
    assert log.log_end_offset == 43  # but this one was


def test_only_the_segments_made_since_the_last_stop_in_order_are_known_to_be_contiguous(tmp_path: Path) -> None:
    manager = Manager(tmp_path)
    manager.start()
    assert (tmp_path / CONTIGUOUS_FROM).read_text() == "0\n0\n"
    log = create(manager)
    fill(log, 3)
    log.roll(NOW_MS)
    manager.close()
    assert not (tmp_path / CONTIGUOUS_FROM).exists()
    for _ in range(2):
        manager = Manager(tmp_path)
        [log] = manager.start()
        assert (tmp_path / CONTIGUOUS_FROM).read_text() == "0\n1\ntopic 0 3\n"
        fill(log, 3)
        log.roll(NOW_MS)
        manager.crash()
    (tmp_path / CONTIGUOUS_FROM).write_text("?")
    manager = Manager(tmp_path)
    manager.start()
    assert (tmp_path / CONTIGUOUS_FROM).read_text() == "0\n1\ntopic 0 9\n"


def test_where_segments_are_not_known_to_be_contiguous_a_full_disk_keeps_no_broker_from_starting(
    tmp_path: Path,
) -> None:
    manager = Manager(tmp_path)
    manager.start()
    manager.crash()
    (tmp_path / CONTIGUOUS_FROM).unlink()
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk=disk)
    manager.open()
    disk.arm("replace", errno.ENOSPC)
    list(manager.load())
    assert manager.online
    assert not (tmp_path / CONTIGUOUS_FROM).exists()
