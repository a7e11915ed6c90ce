"""Data directories with segments written by another program: gaps between these are no losses."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from storage.log.log import Log
from storage.log_directory import CLEANED_TO, CONTIGUOUS_FROM
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, TOPIC_ID, fill, headers
from tests.unit.storage.test_log_manager import CONFIG, SIZE, Manager, _closed, create

__all__ = ["_closed"]


def with_gaps(log: Log, folder: Path) -> None:
    """Put segments with gaps between them into `folder`; `restore_with_gaps` makes a crashed compacted log of them."""
    for base in (0, 20, 40):
        log.truncate_fully_and_start_at(base)
        fill(log, 2)
        log.flush(NOW_MS)
        for path in Path(log.directory).glob(f"{base:020d}.*"):
            shutil.copy(path, folder / path.name)


def restore_with_gaps(folder: Path) -> None:
    for path in folder.glob("0*"):
        shutil.move(path, folder / "topic-0" / path.name)
    for path in folder.glob("*checkpoint"):
        path.unlink()
    (folder / ".kafka_cleanshutdown").unlink()
    (folder / CLEANED_TO).write_text("0\n1\ntopic 0 5\n")


def test_gaps_between_segments_of_another_program_are_no_losses(tmp_path: Path) -> None:
    """Followers of Apache Kafka leave such gaps, also above the cleaner checkpoint."""
    manager = Manager(tmp_path)
    manager.start()
    log = manager.create("topic", TOPIC_ID, 0, CONFIG)
    with_gaps(log, tmp_path)
    manager.close()
    restore_with_gaps(tmp_path)
    for _ in range(3):  # also after crashes of ours
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
    assert log.log_end_offset == 43  # but this gap was


def test_only_segments_since_the_last_clean_shutdown_are_known_to_be_contiguous(tmp_path: Path) -> None:
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


def test_full_disk_does_not_prevent_a_start_without_a_contiguous_segments_file(
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


def test_gaps_in_a_log_opened_at_a_later_attempt_are_no_losses(tmp_path: Path) -> None:
    manager = Manager(tmp_path)
    manager.start()
    log = create(manager)
    with_gaps(log, tmp_path)
    manager.close()
    restore_with_gaps(tmp_path)
    disk = FaultyDisk()
    manager = Manager(tmp_path, disk=disk)
    disk.arm("open", errno.EMFILE)
    assert manager.start() == []
    assert manager.online
    manager.crash()
    manager = Manager(tmp_path)
    [log] = manager.start()
    assert [header.base_offset for header in headers(log)] == [0, 1, 20, 21, 40, 41]
    assert log.recovery.removed_segments == 0
