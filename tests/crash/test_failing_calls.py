"""The n-th disk call fails, for every n: after a restart all synced records are there, and no record never sent.

Until then the process lives, and with it the page cache: all acknowledged records of an online directory can be
read. A failed sync takes a directory offline and is never repeated; lack of space does not take it offline.
"""

from __future__ import annotations

import errno
import os
from random import Random

import pytest

from protocol.errors import ErrorCode, KafkaError
from simulation.memory_disk import MemoryDisk
from tests import proofs
from tests.crash.broken import Broken, DiskNeeded, Invariant
from tests.crash.checks import stored
from tests.crash.history import lost_keys
from tests.crash.states import check_all
from tests.crash.workload import DIRECTORIES, NOW_MS, Workload, start
from tests.logs import content

ACTIONS = 60
TRIMMING = (
    Workload.truncate,
    Workload.truncate_fully,
    Workload.delete_records,
    Workload.retention,
    Workload.recreate,
    Workload.stop,
    Workload.kill,
)
STARTING = (Workload.stop, Workload.kill)


class FailingDisk(MemoryDisk):
    """Fails call number `at`, and with `lasting` all later ones; half of a failing write is written."""

    def __init__(self, at: int, code: int, lasting: bool) -> None:
        super().__init__()
        self.calls = 0
        self._at = at
        self._code = code
        self._lasting = lasting
        self._not_synced: set[str] = set()
        self.failed: list[tuple[str, str]] = []
        """The kinds and paths of the failed calls."""
        self.mended = False

    @property
    def failing(self) -> bool:
        due = self.calls == self._at or (self._lasting and self.calls > self._at)
        return due and not self.mended

    def before(self, kind: str, path: str) -> None:
        self.calls += 1
        if kind == "sync" and path in self._not_synced and not path.endswith(".tmp"):  # replaced as a whole
            raise Broken(Invariant.NO_SYNC_AFTER_A_FAILED_ONE, f"{path} is synced again though that has failed")
        if self.failing:
            self.failed.append((kind, path))
            if kind == "sync":
                self._not_synced.add(path)
            raise OSError(self._code, os.strerror(self._code), path)

    def room_for(self, size: int, path: str) -> int:
        self.calls += 1
        failing = self.failing
        self.calls -= 1
        return size // 2 if failing else size


def run(at: int, code: int, lasting: bool) -> int:
    """Run the workload until a call fails, restart on a sound disk, and check; return the number of calls."""
    disk = FailingDisk(at, code, lasting)
    workload = None
    try:
        for directory in DIRECTORIES:
            disk.make_dirs(directory)
        workload = Workload(disk, Random("failing calls"))
        workload.run(ACTIONS)
    except KafkaError as error:
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            raise
    except DiskNeeded:
        if not disk.failed:
            raise
    except OSError:
        # A start raises OSError; all other operations raise KAFKA_STORAGE_ERROR.
        if workload is not None and workload.doing not in STARTING:
            raise
    if workload is not None:
        disk.mended = True
        if not lasting:  # else some directories are offline for later failures
            check_offline(workload, disk.failed, code)
        check_alive(workload)
    sound = MemoryDisk(disk.root)
    for directory in DIRECTORIES:
        sound.make_dirs(directory)
    manager = start(sound, lambda: NOW_MS, Random(2))
    check_all(manager, sound, {} if workload is None else workload.known)
    return disk.calls


def check_offline(workload: Workload, failed: list[tuple[str, str]], code: int) -> None:
    """Raise `Broken` unless exactly those directories are offline that have to be."""
    for directory in workload.manager.directories:
        there = [call for call in failed if call[1].startswith(directory.path) and not call[1].endswith(".lock")]
        # A checkpoint that found no space is written again; an unfinished future replica is abandoned alone.
        full = code == errno.ENOSPC and all(
            kind in ("create", "pwrite") or path.endswith(".tmp") for kind, path in there
        )
        if any(kind == "sync" and "-future/" not in path for kind, path in there):
            if directory.failure is None and not full:
                raise Broken(Invariant.DIRECTORIES_GO_OFFLINE, f"{directory.path} is in use after {failed}")
        elif there and full and directory.failure is not None:
            raise Broken(
                Invariant.DIRECTORIES_GO_OFFLINE, f"{directory.path} is offline after {failed}: {directory.failure}"
            )


def check_alive(workload: Workload) -> None:
    """Raise `Broken` unless all acknowledged records can be read in online directories."""
    if workload.doing in TRIMMING:
        return
    for name, life in workload.lives.items():
        log = workload.manager.get(name, 0)
        if log is None or log.offline:
            continue
        acknowledged = life.promise()._replace(
            versions=(life.version,),
            lengths=(len(life.version.batches),),
            durable_end=life.acknowledged_end,
            exists=True,
        )
        found = stored(content(log))
        if lost := [batch[:2] for batch in acknowledged.required() if batch not in found]:
            raise Broken(Invariant.ACKNOWLEDGED_CAN_BE_READ, f"{name}: {lost} cannot be read any more")
        if gone := lost_keys(found, acknowledged):
            raise Broken(Invariant.ACKNOWLEDGED_CAN_BE_READ, f"{name}: {gone} cannot be read any more")


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_failing_disk_call_breaks_no_promise(code: int, lasting: bool) -> None:
    calls = run(0, code, lasting=False)
    assert calls > 200
    for at in range(1, calls + 1):
        run(at, code, lasting)
    proofs.count("calls to the disk that failed", calls)
