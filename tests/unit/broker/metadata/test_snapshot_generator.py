"""When metadata snapshots are generated, and the effects of a failed write."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.metadata.metadata_log import MetadataLog
from broker.metadata.metadata_recovery import recover_metadata
from broker.metadata.snapshot_generator import SnapshotGenerator
from broker.runtime.executors import thread_pool
from controller.image import MetadataImage
from controller.raft.log import Entry, SnapshotId
from protocol.records.metadata import ConfigRecord
from storage.log.config import LogConfig
from storage.log_directory import LogDirectory
from tests.disks import FaultyDisk
from tests.typed import present
from tests.unit.broker.held_threads import block_default_executor
from tests.unit.broker.node import VirtualLoop
from tests.unit.controller.cluster import Settings

EMPTY = MetadataImage(cluster_id="cluster")
EVERY_BYTE = {"metadata.log.max.record.bytes.between.snapshots": "1"}


class Snapshots:
    """A metadata log on a disk that can fail, and the snapshots generated from it."""

    def __init__(self, disk: FaultyDisk, path: str, settings: dict[str, str]) -> None:
        self.loop = VirtualLoop()
        self.now = 0
        self.stored: list[Any] = []
        self.failed: list[Any] = []
        self.log = MetadataLog.open(
            disk, LogDirectory(disk, path), None, config=LogConfig(cleanup_policy=frozenset()), now_ms=1
        )
        self.snapshots = SnapshotGenerator(
            Settings(settings),
            self.loop,
            thread_pool("raft"),
            lambda: self.now,
            stored=lambda snapshot, _start: self.stored.append(snapshot),
            failed=self.failed.append,
        )

    def append(self, value: str = "1") -> None:
        record = ConfigRecord(resource_type=4, resource_name="", name="log.cleaner.threads", value=value)
        flush = self.log.append([Entry(self.log.end_offset, 1, (record,))], 1000)
        present(flush).sync()
        present(flush).finish()
        self.log.committed(self.log.end_offset)

    def take_if_due(self) -> list[SnapshotId]:
        """Run the check, and wait for a snapshot that is due; return the snapshots so far."""
        self.snapshots.take_if_due(self.log, recover_metadata(self.log, EMPTY).image, None, 1000)
        self.loop.run_until_complete(self.snapshots.stop())
        return self.stored


@pytest.fixture
def make(faulty_disk: FaultyDisk, tmp_path: Path) -> Iterator[Callable[..., Snapshots]]:
    made = []

    def make(settings: dict[str, str] = EVERY_BYTE) -> Snapshots:
        made.append(Snapshots(faulty_disk, str(tmp_path), settings))
        return made[-1]

    yield make
    for one in made:
        one.log.close(1)
        one.loop.close()


def test_snapshot_does_not_wait_for_default_executor(
    make: Callable[..., Snapshots], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make()
    one.append()
    block_default_executor(one.loop, monkeypatch)
    assert len(one.take_if_due()) == 1


def test_snapshot_is_due_after_configured_bytes(make: Callable[..., Snapshots]) -> None:
    one = make({"metadata.log.max.record.bytes.between.snapshots": "300"})
    one.append()
    assert one.take_if_due() == []
    for _ in range(5):
        one.append()
    assert one.take_if_due() == [SnapshotId(6, 1)]
    assert one.take_if_due() == [SnapshotId(6, 1)]
    assert one.log.newest_snapshot == SnapshotId(6, 1)


def test_snapshot_is_due_after_interval_if_log_has_changed(make: Callable[..., Snapshots]) -> None:
    one = make({"metadata.log.max.snapshot.interval.ms": "60000"})
    one.append()
    one.now = 59_999
    assert one.take_if_due() == []
    one.now = 60_000
    assert one.take_if_due() == [SnapshotId(1, 1)]
    one.now = 200_000
    assert one.take_if_due() == [SnapshotId(1, 1)], "there is nothing new"


def test_snapshot_contains_records_of_image(make: Callable[..., Snapshots]) -> None:
    one = make()
    one.append("7")
    one.take_if_due()
    snapshot = one.log.read_snapshot(present(one.log.newest_snapshot))
    assert [record.value for record in snapshot.records if isinstance(record, ConfigRecord)] == ["7"]


def test_snapshots_are_generated_one_at_a_time(make: Callable[..., Snapshots]) -> None:
    one = make()
    one.append()
    for _ in range(3):
        one.snapshots.take_if_due(one.log, recover_metadata(one.log, EMPTY).image, None, 1000)
    one.loop.run_until_complete(asyncio.sleep(0))
    one.loop.run_until_complete(one.snapshots.stop())
    assert one.stored == [SnapshotId(1, 1)]


def test_full_disk_fails_only_snapshot(
    make: Callable[..., Snapshots], faulty_disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    one = make()
    one.append()
    faulty_disk.arm("replace", errno.ENOSPC)
    assert one.take_if_due() == []
    assert one.failed == []
    assert "Metadata snapshot failed" in caplog.text
    assert "[Errno" not in caplog.text


def test_other_snapshot_failure_is_reported(make: Callable[..., Snapshots], faulty_disk: FaultyDisk) -> None:
    one = make()
    one.append()
    faulty_disk.arm("replace", errno.EIO)
    one.take_if_due()
    assert [error.errno for error in one.failed] == [errno.EIO]
