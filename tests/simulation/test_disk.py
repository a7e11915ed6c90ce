"""What a simulated disk loses, and how it fails."""

from __future__ import annotations

import errno
from random import Random

import pytest

from tests.simulation.disk import SimulatedDisk
from tests.simulation.loop import Schedule, Trace
from tests.simulation.network import Network


def disk_of(seed: int = 1) -> SimulatedDisk:
    schedule = Schedule(Random(seed), Trace())
    return SimulatedDisk(Random(seed), schedule.trace, Network(schedule, Random(seed)))


def test_what_is_synced_outlasts_every_power_cut() -> None:
    for seed in range(30):
        disk = disk_of(seed)
        file = disk.open_file("/kept", create=True)
        file.pwrite(b"kept", 0)
        file.sync()
        disk.sync_dir("/")
        file.pwrite(b"lost", 4)
        disk.power_cut()
        assert disk.read_file("/kept")[:4] == b"kept"


def test_what_is_not_synced_is_lost_at_times() -> None:
    sizes = set()
    for seed in range(30):
        disk = disk_of(seed)
        file = disk.open_file("/file", create=True)
        disk.sync_dir("/")
        file.pwrite(b"gone", 0)
        disk.power_cut()
        sizes.add(disk.file_size("/file"))
    assert {0, 4} <= sizes


def test_the_call_that_is_to_fail_fails_once() -> None:
    disk = disk_of()
    file = disk.open_file("/file", create=True)
    disk.fail("sync", errno.EIO, after=1)
    file.sync()
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()


def test_a_full_disk_takes_nothing_more_and_gives_all_it_has() -> None:
    disk = disk_of()
    file = disk.open_file("/file", create=True)
    file.pwrite(b"before", 0)
    disk.full = True
    with pytest.raises(OSError, match="No space left"):
        file.pwrite(b"after", 6)
    assert disk.free_bytes("/") == 0
    assert file.pread(6, 0) == b"before"
