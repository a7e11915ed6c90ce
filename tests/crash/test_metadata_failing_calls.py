"""The n-th disk call of the metadata log fails, for every n, and the node stops: the next start finds what was known.

The same workload runs once on a disk that never fails, for what is known before and after each step.
"""

from __future__ import annotations

import errno
import os
from random import Random

import pytest

from protocol.errors import InvariantError, KafkaError
from simulation.memory_disk import Mark, MemoryDisk
from tests import proofs
from tests.crash.metadata_workload import DIRECTORY, NOW_MS, Known, Workload, check, start
from tests.crash.test_failing_calls import FailingDisk

ACTIONS = 60
RUNS = int(os.environ.get("BARNABAS_TEST_STATES", "5000")) // 150
FAILURES = [(errno.EIO, False), (errno.EIO, True), (errno.ENOSPC, False), (errno.ENOSPC, True)]


def live(disk: MemoryDisk) -> Workload:
    disk.make_dirs(DIRECTORY)
    life = Workload(disk, Random("failing calls"))
    life.run(ACTIONS)
    return life


def marks(disk: MemoryDisk) -> list[Known]:
    return [effect.known for effect in disk.trace or [] if isinstance(effect, Mark)]


@pytest.mark.parametrize(("code", "lasting"), FAILURES)
def test_failing_disk_call_loses_no_known_metadata(code: int, lasting: bool) -> None:
    whole = FailingDisk(-1, code, lasting=False)
    whole.trace = []
    life = live(whole)
    known = marks(whole)
    failed = 0
    for at in Random(f"{code} {lasting}").choices(range(whole.calls), k=RUNS):
        disk = FailingDisk(at, code, lasting)
        disk.trace = []
        try:
            live(disk)
        except (KafkaError, OSError, InvariantError):
            failed += 1
        steps = len(marks(disk))
        sound = MemoryDisk(disk.root)
        sound.make_dirs(DIRECTORY)
        _, log = start(sound, NOW_MS)
        before = known[steps - 1] if steps else None
        check(sound, log, life.contents, before, known[min(steps, len(known) - 1)])
    assert failed > RUNS * 0.9
    proofs.count("failing calls of the metadata log", RUNS)
