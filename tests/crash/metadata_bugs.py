"""Bugs planted in the metadata log, as in `bugs.py`."""

from __future__ import annotations

from typing import Any

import pytest

import storage.log.log
from broker.metadata import metadata_log
from broker.metadata.metadata_log import MetadataLog
from broker.metadata.snapshot_files import SnapshotFiles
from controller.raft.log import SnapshotId
from controller.snapshot import Snapshot
from simulation.memory_disk import MemoryDisk, MemoryFile
from storage.log.flush import Flush
from storage.log.log import Log
from storage.log_directory import LogDirectory
from storage.steps import Steps
from tests.crash.broken import Invariant
from tests.planting import Bug, Planter


def entries_acknowledged_before_they_are_synced(plant: Planter) -> None:
    """A flush of the metadata log syncs nothing."""
    plant.setattr(Flush, "sync", lambda self: setattr(self, "error", None))


def snapshot_renamed_before_it_is_synced(plant: Planter) -> None:
    """A snapshot is renamed before it is synced."""

    def write(self: MetadataLog, snapshot: SnapshotId, data: bytes) -> None:
        self._disk.replace_file(f"{self._log.directory}/{snapshot.file_name}", data, sync=False)

    plant.setattr(MetadataLog, "write_snapshot", write)


def no_sync_of_the_vote(plant: Planter) -> None:
    """The quorum state is written without a sync."""

    def replace(self: MemoryDisk, path: str, data: bytes, sync: bool = True) -> None:
        replace_file(self, path, data, sync and not path.endswith("quorum-state"))

    replace_file = MemoryDisk.replace_file
    plant.setattr(MemoryDisk, "replace_file", replace)


def entries_deleted_beyond_the_newest_snapshot(plant: Planter) -> None:
    """The log start moves past the newest snapshot."""

    def advance(self: Log, offset: int) -> bool:
        return advance_log_start(self, self.high_watermark)

    advance_log_start = Log.advance_log_start
    plant.setattr(Log, "advance_log_start", advance)


def no_sync_of_a_metadata_log_truncation(plant: Planter) -> None:
    """A truncation of the metadata log is not synced."""
    plant.setattr(storage.log.log, "sync_truncation", lambda *_: None)


def received_snapshot_renamed_before_it_is_synced(plant: Planter) -> None:
    """A received snapshot is renamed before it is synced."""

    def finish(self: SnapshotFiles, snapshot: SnapshotId) -> None:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(MemoryFile, "sync", lambda self: None)
            finish_part(self, snapshot)

    finish_part = SnapshotFiles.finish_part
    plant.setattr(SnapshotFiles, "finish_part", finish)


def log_cleared_before_the_received_snapshot_is_renamed(plant: Planter) -> None:
    """The log is cleared before the received snapshot is renamed."""

    def begin(self: MetadataLog, snapshot: SnapshotId) -> Steps[Snapshot]:
        self._log.truncate_fully_and_start_at(snapshot.end_offset)
        return reset_to_snapshot(self, snapshot)

    reset_to_snapshot = MetadataLog.reset_to_snapshot
    plant.setattr(MetadataLog, "reset_to_snapshot", begin)


def diverged_log_kept_beside_a_received_snapshot(plant: Planter) -> None:
    """A log that diverges from a received snapshot is kept."""
    plant.setattr(metadata_log, "_is_behind", lambda log, snapshot: log.log_end_offset < snapshot.end_offset)


def unsynced_vote_trusted_at_start(plant: Planter) -> None:
    """A start relies on a quorum state that a killed process had not synced."""

    def open_log(disk: MemoryDisk, *args: Any, **options: Any) -> MetadataLog:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(disk, "sync_dir", lambda path: None)
            return opened(disk, *args, **options)

    opened = MetadataLog.open
    plant.setattr(MetadataLog, "open", open_log)


def unsynced_entries_trusted_at_start(plant: Planter) -> None:
    """A start relies on entries that a killed process had not synced."""

    def open_log(*args: Any, **options: Any) -> MetadataLog:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(Log, "flush", lambda self, now_ms: None)
            return opened(*args, **options)

    opened = MetadataLog.open
    plant.setattr(MetadataLog, "open", open_log)


def unsynced_meta_properties_trusted_at_start(plant: Planter) -> None:
    """A start relies on a `meta.properties` that a killed process had renamed and not synced."""

    def open_directory(self: LogDirectory) -> None:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(self._disk, "sync_dir", lambda path: None)
            opened(self)

    opened = LogDirectory.open
    plant.setattr(LogDirectory, "open", open_directory)


BUGS = (
    Bug(entries_acknowledged_before_they_are_synced, Invariant.ENTRIES_STAY, 50, 21),
    Bug(snapshot_renamed_before_it_is_synced, Invariant.STARTS, 24, 16),
    Bug(no_sync_of_the_vote, Invariant.STARTS, 50, 20),
    Bug(entries_deleted_beyond_the_newest_snapshot, Invariant.SNAPSHOT_COVERS_THE_START, 119, 0),
    Bug(no_sync_of_a_metadata_log_truncation, Invariant.ENTRIES_STAY, 120, 0),
    Bug(received_snapshot_renamed_before_it_is_synced, Invariant.STARTS, 119, 0),
    Bug(log_cleared_before_the_received_snapshot_is_renamed, Invariant.ENTRIES_STAY, 71, 0),
    Bug(unsynced_vote_trusted_at_start, Invariant.QUORUM_STATE_STAYS, 32, 1),
    Bug(unsynced_entries_trusted_at_start, Invariant.ENTRIES_STAY, 98, 0),
    Bug(diverged_log_kept_beside_a_received_snapshot, Invariant.ENTRIES_STAY, 842, 0),
    Bug(unsynced_meta_properties_trusted_at_start, Invariant.STARTS, 196, 0),
)
"""Every bug with the state that detects it (`Bug.seed`)."""
