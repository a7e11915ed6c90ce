"""Whatever a power cut leaves of the metadata log, nothing that was synced is lost; and mistakes are found.

A tenth of the states that topics' logs are tried in; ``make crash METADATA=1`` tries others, and replays one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice

import pytest

from broker.quorum import metadata_log
from broker.quorum.metadata_log import MetadataLog
from broker.quorum.snapshot_files import SnapshotFiles
from controller.snapshot import Snapshot, SnapshotId
from storage.flush import Flush
from storage.log import Log
from tests import proofs
from tests.crash.memory_disk import MemoryDisk, MemoryFile
from tests.crash.metadata_states import check_states

Plant = Callable[[pytest.MonkeyPatch], None]
STATES = int(os.environ.get("BARNABAS_TEST_STATES", "5000")) // 10
FULL = "BARNABAS_TEST_STATES" in os.environ


def test_every_state_that_a_power_cut_may_leave_of_the_metadata_log_is_recovered() -> None:
    failures = [str(failure) for failure in islice(check_states(1, range(STATES)), 5)]
    assert not failures, "\n".join(failures)
    proofs.count("states of a power cut of the metadata log", STATES)


def entries_acknowledged_before_they_are_synced(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(Flush, "sync", lambda self: setattr(self, "error", None))


def a_snapshot_that_is_named_before_it_is_synced(plant: pytest.MonkeyPatch) -> None:
    def write(self: MetadataLog, snapshot: SnapshotId, data: bytes) -> None:
        self._disk.replace_file(f"{self._log.directory}/{snapshot.file_name}", data, sync=False)

    plant.setattr(MetadataLog, "write_snapshot", write)


def a_vote_that_is_not_synced(plant: pytest.MonkeyPatch) -> None:
    def replace(self: MemoryDisk, path: str, data: bytes, sync: bool = True) -> None:
        replace_file(self, path, data, sync and not path.endswith("quorum-state"))

    replace_file = MemoryDisk.replace_file
    plant.setattr(MemoryDisk, "replace_file", replace)


def entries_dropped_that_no_snapshot_holds(plant: pytest.MonkeyPatch) -> None:
    def advance(self: Log, offset: int) -> bool:
        return advance_log_start(self, self.high_watermark)

    advance_log_start = Log.advance_log_start
    plant.setattr(Log, "advance_log_start", advance)


def an_end_that_is_cut_off_and_not_synced(plant: pytest.MonkeyPatch) -> None:
    plant.setattr("storage.log.sync_cut", lambda *_: None)


def a_received_snapshot_that_is_named_before_it_is_synced(plant: pytest.MonkeyPatch) -> None:
    def finish(self: SnapshotFiles, snapshot: SnapshotId) -> Snapshot:
        with plant.context() as within:
            within.setattr(MemoryFile, "sync", lambda self: None)
            return finish_part(self, snapshot)

    finish_part = SnapshotFiles.finish_part
    plant.setattr(SnapshotFiles, "finish_part", finish)


def a_log_that_is_dropped_before_the_snapshot_has_its_name(plant: pytest.MonkeyPatch) -> None:
    def begin(self: MetadataLog, snapshot: SnapshotId) -> Snapshot:
        self._log.truncate_fully_and_start_at(snapshot.end_offset)
        return begin_behind(self, snapshot)

    begin_behind = MetadataLog.begin_behind
    plant.setattr(MetadataLog, "begin_behind", begin)


def a_log_that_parted_from_a_received_snapshot_and_stays(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(metadata_log, "_is_behind", lambda log, snapshot: log.log_end_offset < snapshot.end_offset)


# With the first state that finds each, as of lately.
FAULTS: list[tuple[Plant, int]] = [
    (entries_acknowledged_before_they_are_synced, 32),
    (a_snapshot_that_is_named_before_it_is_synced, 32),
    (a_vote_that_is_not_synced, 11),
    (entries_dropped_that_no_snapshot_holds, 32),
    (an_end_that_is_cut_off_and_not_synced, 16),
    (a_received_snapshot_that_is_named_before_it_is_synced, 71),
    (a_log_that_is_dropped_before_the_snapshot_has_its_name, 8),
    (a_log_that_parted_from_a_received_snapshot_and_stays, 280),
]


@pytest.mark.parametrize(("fault", "state"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
def test_a_planted_fault_is_found(fault: Plant, state: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """First where it was found the last time; everywhere if it is not there any more, or all is tried."""
    fault(monkeypatch)
    found = None if FULL else next(check_states(1, [state]), None)
    assert found or next(check_states(1, range(STATES)), None)
