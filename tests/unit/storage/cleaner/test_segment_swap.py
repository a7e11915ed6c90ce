"""A crash at each disk call of a pass, and at each of the start after it."""

from pathlib import Path

import pytest

from storage.disk import OsDisk
from storage.log.log import Log
from tests.compacted import COMPACTED, begin, end_txn, finish, latest, put, records
from tests.disks import FaultyDisk
from tests.examples import TIMES
from tests.logs import NOW_MS, content, open_log

CHANGES = ("create", "replace", "rename", "pwrite", "truncate", "sync", "sync_dir", "remove")


class Killed(BaseException):
    """The process died."""


class DyingDisk(FaultyDisk):
    """The process dies before the next change of the disk after `lives` ones, and stays dead."""

    lives = 1 << 30
    changes = 0

    def check(self, kind: str, path: str) -> None:
        super().check(kind, path)
        if kind in CHANGES:
            self.changes += 1
            self.lives -= 1
            if self.lives < 0:
                raise Killed

    def remove(self, path: str) -> None:
        self.check("remove", path)
        super().remove(path)


def written(folder: Path, disk: DyingDisk) -> Log:
    """Return a log of several segments with a compacted beginning, transactions and tombstones."""
    log = open_log(folder, COMPACTED._replace(segment_bytes=700), disk=disk)
    for number in range(12):
        put(log, (b"%d" % (number % 5), b"%d" % number), (b"x", b"%d" % number))
    put(log, (b"4", b"x"), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    end_txn(log, 1, commit=True)
    put(log, (b"0", None), (b"1", b"y"))
    log.roll(NOW_MS)
    return log


def indexes(log: Log) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(log.directory).glob("*index")}


def calls_of_a_pass(folder: Path) -> int:
    disk = DyingDisk()
    log = written(folder, disk)
    before = disk.changes
    finish(begin(log, disk=disk))
    return disk.changes - before


def state(log: Log) -> tuple[object, ...]:
    producer = log.producers.producers[1]
    return latest(records(log)), log.log_end_offset, producer.batches[-1], producer.txn_first_offset


def test_kill_at_any_disk_call_of_a_pass_loses_nothing(tmp_path: Path) -> None:
    calls = calls_of_a_pass(tmp_path / "all")
    assert calls > 20
    for lives in range(calls):
        folder = tmp_path / str(lives)
        disk = DyingDisk()
        log = written(folder, disk)
        before = state(log)
        disk.lives = lives
        with pytest.raises(Killed):
            finish(begin(log, disk=disk))
        again = DyingDisk()
        recovered = open_log(folder, log.config, disk=again, clean=False)
        assert state(recovered) == before
        _check_whole(recovered)
        once = content(recovered), OsDisk().list_dir(recovered.directory)
        twice = open_log(folder, log.config, clean=False)
        assert (content(twice), OsDisk().list_dir(twice.directory)) == once
        twice.update_high_watermark(twice.log_end_offset)
        twice.roll(NOW_MS)
        finish(begin(twice))
        assert state(twice) == before


def test_kill_at_any_disk_call_of_the_next_start_changes_nothing(tmp_path: Path) -> None:
    calls = calls_of_a_pass(tmp_path / "all")
    for lives in range(0, calls, max(1, 3 // TIMES)):
        for second in range(lives // 3 % 3, 40, 3):
            folder = tmp_path / f"{lives}-{second}"
            disk = DyingDisk()
            log = written(folder, disk)
            before = state(log)
            disk.lives = lives
            with pytest.raises(Killed):
                finish(begin(log, disk=disk))
            dying = DyingDisk()
            dying.lives = second
            try:
                open_log(folder, log.config, disk=dying, clean=False)
            except Killed:
                recovered = open_log(folder, log.config, clean=False)
                assert state(recovered) == before
                _check_whole(recovered)
            else:
                break


def _check_whole(log: Log) -> None:
    """Check that offsets rise from batch to batch within their segments, and that no file of a swap is left."""
    last = -1
    for segment, following in zip(log.segments, [*log.segments[1:], None], strict=True):
        for _, header in segment.headers(0):
            assert header.base_offset > last
            last = header.last_offset
            assert header.base_offset >= segment.base_offset
            assert following is None or last < following.base_offset
    names = OsDisk().list_dir(log.directory)
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]


@pytest.mark.parametrize("kind", ["create", "rename", "pwrite", "sync", "sync_dir", "pread", "open"])
@pytest.mark.parametrize("after", range(10))
def test_failing_disk_call_of_a_pass_loses_nothing(tmp_path: Path, kind: str, after: int) -> None:
    from protocol.errors import KafkaError

    disk = DyingDisk()
    log = written(tmp_path, disk)
    before = state(log)
    disk.arm(kind, after=after)
    compaction = begin(log, disk=disk)
    try:
        finish(compaction)
    except KafkaError:
        assert log._directory.failure is not None
        compaction.stop()
    recovered = open_log(tmp_path, log.config, clean=False)
    assert state(recovered) == before
    _check_whole(recovered)


def test_power_cut_during_an_abandoned_pass_keeps_the_indexes(tmp_path: Path) -> None:
    """Deletions reach the disk in their order: the new segment's indexes must not outlast its batches."""
    for lost in range(4):
        folder = tmp_path / str(lost)
        disk = DyingDisk()
        log = written(folder, disk)
        before = state(log)
        compaction = begin(log, disk=disk)
        while not list(Path(log.directory).glob("*.log.swap")):
            call = compaction.step(1 << 20)
            if call is not None and not list(Path(log.directory).glob("*.log.swap")):
                call()
        disk.lives = lost
        with pytest.raises(Killed):
            compaction.stop()
        recovered = open_log(folder, log.config, clean=False, recovery_point=log.segments[-1].base_offset)
        assert state(recovered) == before
        found = indexes(recovered)
        assert indexes(open_log(folder, log.config, clean=False)) == found  # recovered, and rebuilt
