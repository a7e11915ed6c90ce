"""The disks that `Platter` generates for a power cut: all that is durable, and of the rest what real disks leave."""

from __future__ import annotations

from errno import EIO
from random import Random

import pytest

from simulation.memory_disk import Effect, MemoryDisk, MemoryFile
from simulation.power_cut import PAGE_BYTES, Platter

OLD, NEW, NEWER = (bytes([mark]) * PAGE_BYTES for mark in b"onN")


class Disk(MemoryDisk):
    """A disk with switchable sync failures, and the state after a power cut now."""

    def __init__(self) -> None:
        super().__init__()
        self.failing = False
        self.effects: list[Effect] = []
        self.trace = self.effects
        self.platter = Platter(self)
        self.file: MemoryFile = self.open_file("/file", create=True)
        self.sync_dir("/")

    def before(self, kind: str, path: str) -> None:
        if self.failing and kind == "sync":
            raise OSError(EIO, "sync", path)

    def fail_sync(self) -> None:
        self.failing = True
        with pytest.raises(OSError, match="sync"):
            self.file.sync()
        self.failing = False

    def left(self) -> set[bytes]:
        """Return every content of the file that many power cuts leave."""
        for effect in self.effects:
            self.platter.follow(effect)
        self.effects.clear()
        return {self.platter.cut(Random(seed)).files()["/file"] for seed in range(400)}


@pytest.fixture
def disk() -> Disk:
    disk = Disk()
    disk.file.pwrite(OLD, 0)
    disk.file.sync()
    return disk


def test_synced_content_survives(disk: Disk) -> None:
    assert disk.left() == {OLD}


def test_unsynced_content_may_survive_or_not(disk: Disk) -> None:
    disk.file.pwrite(NEW, 0)
    assert {OLD, NEW} <= disk.left()


def test_failed_sync_makes_nothing_durable_and_the_next_sync_skips_dropped_pages(disk: Disk) -> None:
    disk.file.pwrite(NEW, 0)
    disk.fail_sync()
    disk.file.sync()
    assert disk.file.pread(PAGE_BYTES, 0) == NEW
    assert disk.left() == {OLD, NEW}


def test_rewritten_dropped_page_is_durable_after_the_next_sync(disk: Disk) -> None:
    disk.file.pwrite(NEW, 0)
    disk.fail_sync()
    disk.file.pwrite(NEWER[:1], 0)
    disk.file.sync()
    assert disk.left() == {NEWER[:1] + NEW[1:]}


def test_only_dropped_pages_may_be_lost(disk: Disk) -> None:
    disk.file.pwrite(NEW, 0)
    disk.fail_sync()
    disk.file.pwrite(NEWER, PAGE_BYTES)
    disk.file.sync()
    assert disk.left() == {OLD + NEWER, NEW + NEWER}


def test_further_syncs_do_not_make_a_dropped_page_durable(disk: Disk) -> None:
    disk.file.pwrite(NEW, 0)
    disk.fail_sync()
    disk.file.sync()
    disk.file.pwrite(NEWER, PAGE_BYTES)
    disk.file.sync()
    assert disk.left() == {OLD + NEWER, NEW + NEWER}


def test_unwritten_blocks_hold_zeros_or_former_content() -> None:
    zeros, others = False, False
    for mark in range(65, 73):
        disk, data = Disk(), bytes([mark]) * PAGE_BYTES
        disk.file.pwrite(data, 0)
        disk.file.pwrite(data, PAGE_BYTES)
        for content in disk.left():
            page = content[:PAGE_BYTES]
            if page and not data.startswith(page) and not set(page) - {0, mark}:
                zeros = True
            others |= len(set(page)) > 10
    assert zeros
    assert others


def test_power_cut_is_deterministic(disk: Disk) -> None:
    disk.file.pwrite(NEW * 3, 100)
    disk.left()
    assert disk.platter.cut(Random(5)).files() == disk.platter.cut(Random(5)).files()
