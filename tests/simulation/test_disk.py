"""Data loss and faults of the simulated disk."""

from __future__ import annotations

import asyncio
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


def test_a_directory_that_fails_leaves_the_other_alone() -> None:
    disk = disk_of()
    disk.make_dirs("/one")
    disk.make_dirs("/other")
    disk.broken = "/other"
    disk.open_file("/one/file", create=True).pwrite(b"x", 0)
    with pytest.raises(OSError, match="/other/file"):
        disk.open_file("/other/file", create=True)


def test_syncs_that_take_long_are_waited_for() -> None:
    disk = disk_of()
    file = disk.open_file("/file", create=True)
    file.sync()
    assert disk.take_waits_s() == 0
    disk.slow_sync_s = 2.0
    file.sync()
    assert disk.take_waits_s() > 0
    assert disk.take_waits_s() == 0


def test_a_power_cut_falls_between_two_operations_of_one_callback() -> None:
    """The process ends there: nothing after it in the callback happens, on the disk or elsewhere."""
    schedule = Schedule(Random(1), Trace())
    disk = SimulatedDisk(Random(1), schedule.trace, Network(schedule, Random(1)))
    disk.process = loop = schedule.loop("a")
    seen: list[str] = []

    def write() -> None:
        for name in "abc":
            disk.open_file(f"/{name}", create=True)
            disk.sync_dir("/")
            seen.append(name)

    def cut() -> None:
        loop.die()
        disk.power_cut()

    disk.interrupt(3, cut)  # a and its sync, b
    loop.call_soon(write)
    schedule.run(schedule.loop("b"), asyncio.sleep(1))
    assert seen == ["a"]
    assert "/a" in disk.files()
    assert "/c" not in disk.files()
