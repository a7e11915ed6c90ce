"""Data loss and faults of the simulated disk."""

from __future__ import annotations

import asyncio
import errno
from random import Random

import pytest

from simulation.disk import SimulatedDisk
from simulation.loop import Schedule, Trace
from simulation.network import Network


def disk_of(seed: int = 1) -> SimulatedDisk:
    schedule = Schedule(Random(seed), Trace())
    return SimulatedDisk(Random(seed), schedule.trace, Network(schedule, Random(seed)))


def test_synced_data_survives_every_power_cut() -> None:
    for seed in range(30):
        disk = disk_of(seed)
        file = disk.open_file("/kept", create=True)
        file.pwrite(b"kept", 0)
        file.sync()
        disk.sync_dir("/")
        file.pwrite(b"lost", 4)
        disk.power_cut()
        assert disk.read_file("/kept")[:4] == b"kept"


def test_unsynced_data_is_sometimes_lost() -> None:
    sizes = set()
    for seed in range(30):
        disk = disk_of(seed)
        file = disk.open_file("/file", create=True)
        disk.sync_dir("/")
        file.pwrite(b"gone", 0)
        disk.power_cut()
        sizes.add(disk.file_size("/file"))
    assert {0, 4} <= sizes


def test_injected_failure_occurs_once() -> None:
    disk = disk_of()
    file = disk.open_file("/file", create=True)
    disk.fail("sync", errno.EIO, after=1)
    file.sync()
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()


def test_full_disk_rejects_writes_and_serves_reads() -> None:
    disk = disk_of()
    file = disk.open_file("/file", create=True)
    file.pwrite(b"before", 0)
    disk.full = True
    with pytest.raises(OSError, match="No space left"):
        file.pwrite(b"after", 6)
    assert disk.free_bytes("/") == 0
    assert file.pread(6, 0) == b"before"


def test_failed_directory_does_not_affect_the_other() -> None:
    disk = disk_of()
    disk.make_dirs("/one")
    disk.make_dirs("/other")
    disk.broken = "/other"
    disk.open_file("/one/file", create=True).pwrite(b"x", 0)
    with pytest.raises(OSError, match="/other/file"):
        disk.open_file("/other/file", create=True)


def test_disk_counts_duration_of_slow_syncs() -> None:
    disk = disk_of()
    file = disk.open_file("/file", create=True)
    file.sync()
    assert disk.pop_sync_waits_s() == 0
    disk.slow_sync_s = 2.0
    file.sync()
    assert disk.pop_sync_waits_s() > 0
    assert disk.pop_sync_waits_s() == 0


def test_syncs_of_one_callback_wait_for_a_bounded_time() -> None:
    disk = disk_of()
    file = disk.open_file("/file", create=True)
    disk.slow_sync_s = 2.0
    for _ in range(100):
        file.sync()
    assert disk.pop_sync_waits_s() == 15


def test_power_cut_occurs_between_two_operations_of_one_callback() -> None:
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
