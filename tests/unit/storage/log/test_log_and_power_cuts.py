"""The order in which the parts of a log become durable, where a power cut would otherwise lose data."""

from pathlib import Path

import pytest

from tests.disks import FaultyDisk
from tests.logs import DEFAULT, NOW_MS, bases, batch, content, fill, open_log

SIZE = len(batch())


def test_flush_that_ends_after_a_roll_does_not_cover_the_rolled_indexes(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 3)
    flush = log.begin_flush(NOW_MS)
    assert flush is not None
    flush.sync()
    log.roll(NOW_MS)
    flush.finish()
    assert log.recovery_point < log.segments[-1].base_offset
    later = log.due_flush(NOW_MS)
    assert later is not None
    later.run()
    assert log.recovery_point == 3


@pytest.mark.parametrize("synced_before", [True, False])
def test_a_roll_leaves_no_recovery_point_inside_a_batch(tmp_path: Path, synced_before: bool) -> None:
    """The high watermark of a leader that syncs each batch follows the recovery point."""
    log = open_log(tmp_path)
    fill(log, 1, count=3)
    flush = log.begin_flush(NOW_MS)
    assert flush is not None
    flush.sync()
    if synced_before:
        flush.finish()
    log.roll(NOW_MS)
    if not synced_before:
        flush.finish()
    assert log.recovery_point == 0


def test_segments_behind_the_lost_end_of_a_segment_are_deleted(tmp_path: Path) -> None:
    """All remaining batches are whole, but the end of a segment, whose sync was not awaited, is lost."""
    log = open_log(tmp_path)
    for _ in range(3):
        fill(log, 4)
        log.roll(NOW_MS)
    before = content(log)
    path = tmp_path / "topic-0" / f"{4:020d}.log"
    path.write_bytes(path.read_bytes()[: 2 * SIZE])
    recovered = open_log(tmp_path, clean=False)
    assert bases(recovered) == (0, 4)
    assert content(recovered) == before[: 6 * SIZE]


def test_new_segment_name_is_durable_before_retention_deletes_all_others(tmp_path: Path) -> None:
    """Otherwise the log might start again at 0."""
    disk = FaultyDisk()
    log = open_log(tmp_path, DEFAULT._replace(retention_ms=1), disk=disk)
    fill(log, 3)
    disk.calls.clear()
    log.delete_old_segments(NOW_MS + 10)
    assert bases(log) == (3,)
    made = disk.calls.index(("create", f"{log.directory}/{3:020d}.log"))
    durable = disk.calls.index(("sync_dir", log.directory))
    assert made < durable < min(number for number, (kind, _) in enumerate(disk.calls) if kind == "rename")


def test_clean_shutdown_syncs_indexes_emptied_by_truncation(tmp_path: Path) -> None:
    """Otherwise a power cut might restore their entries, and the start after a clean shutdown would trust them."""
    disk = FaultyDisk()
    log = open_log(tmp_path, DEFAULT._replace(index_interval_bytes=1), disk=disk)
    fill(log, 3)
    log.close(NOW_MS)
    log = open_log(tmp_path, DEFAULT, disk=disk)
    log.truncate_to(0)
    disk.calls.clear()
    log.close(NOW_MS)
    assert {f"{0:020}.index", f"{0:020}.timeindex"} <= {*disk.called("sync")}
