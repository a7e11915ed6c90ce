"""A test of the tests: mistakes that a log could make are found, nearly all in the states that `make test` tries."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import copy
from typing import Any

import pytest

import storage.checkpoint_files
import storage.compaction.leftovers
import storage.compaction.swap
import storage.log
import storage.opening
import storage.producer_recovery
import tests.crash.workload
from storage.compaction.compaction import Compaction
from storage.compaction.swap import Swap
from storage.flush import Flush
from storage.log import Log
from storage.log_directory import LogDirectory
from storage.producer_recovery import recover_producers
from storage.segment import Segment
from storage.whole_batches import valid_batches
from tests.crash.memory_disk import MemoryDisk, MemoryFile
from tests.crash.states import check_states
from tests.crash.workload import Workload

Plant = Callable[[pytest.MonkeyPatch], None]
STATES = 5000
FULL = "BARNABAS_TEST_STATES" in os.environ


def no_sync_before_the_recovery_point_moves(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(Flush, "sync", lambda self: setattr(self, "error", None))


def no_sync_of_the_names(plant: pytest.MonkeyPatch) -> None:
    def sync(self: Flush) -> None:
        for file in self._files:
            file.sync()
        self.error = None

    plant.setattr(Flush, "sync", sync)


def no_sync_of_directories_at_all(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(MemoryDisk, "sync_dir", lambda self, path: None)


def no_sync_of_indexes(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(Segment, "unsynced_indexes", [])


def a_recovery_point_within_the_segment_that_is_appended_to(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(storage.checkpoint_files, "_recovery_point", lambda log: max(log.recovery_point, 0))


def no_sync_after_a_truncation(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(storage.log, "sync_cut", lambda *_: None)


def checksums_unread(plant: pytest.MonkeyPatch) -> None:
    plant.setitem(valid_batches.__globals__, "crc_matches", lambda *_: True)


def snapshots_believed_past_the_recovery_point(plant: pytest.MonkeyPatch) -> None:
    def believe(*args: object, **known: object) -> object:
        return recover_producers(*args, **{**known, "believed_to": None})  # type: ignore[arg-type]

    plant.setattr(storage.opening, "recover_producers", believe)


def a_mark_of_a_clean_stop_that_may_come_back(plant: pytest.MonkeyPatch) -> None:
    def open_directory(self: LogDirectory) -> None:
        sync_dir, self._disk.sync_dir = self._disk.sync_dir, lambda path: None  # type: ignore[method-assign]
        try:
            opened(self)
        finally:
            self._disk.sync_dir = sync_dir  # type: ignore[method-assign]

    opened = LogDirectory.open
    plant.setattr(LogDirectory, "open", open_directory)


def closing_without_a_sync(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(Log, "close", lambda self, now_ms: self.begin_close(now_ms))
    plant.setattr(Log, "begin_flush", lambda self, now_ms, end_offset=None: None)


def syncs_that_do_nothing(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(MemoryFile, "sync", lambda self: None)


def a_swap_that_is_named_before_it_is_synced(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(storage.compaction.swap, "_sync", lambda *_: None)


def no_sync_of_the_names_of_a_swap(plant: pytest.MonkeyPatch) -> None:
    def begin(self: Swap, disk: MemoryDisk, *args: Any) -> None:
        begun(self, disk, *args)
        quiet = copy(disk)
        quiet.sync_dir = lambda path: None  # type: ignore[method-assign]
        self._disk = quiet

    begun = Swap.__init__
    plant.setattr(Swap, "__init__", begin)


def compaction_of_what_is_not_synced(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(Compaction, "_make_durable", lambda self: iter(()))


def swaps_dropped_by_recovery(plant: pytest.MonkeyPatch) -> None:
    def drop(disk: MemoryDisk, directory: str) -> None:
        for name in filter(storage.compaction.leftovers.is_leftover, disk.list_dir(directory)):
            disk.remove(f"{directory}/{name}")

    plant.setattr(storage.compaction.leftovers, "finish_swaps", drop)


def transactions_open_for_ever_by_an_old_snapshot(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(storage.producer_recovery, "_close_compacted", lambda *_: None)
    # It takes three passes over the end of a transaction, and no checkpoint meanwhile: seldom, unless one aims at it.
    often = {"append": 30, "end_transaction": 20, "roll": 15, "checkpoint": 3, "compact": 50, "kill": 4, "flush": 3}
    actions = tuple((getattr(Workload, name), weight) for name, weight in often.items())
    plant.setattr(tests.crash.workload, "_ACTIONS", actions)
    plant.setattr(tests.crash.workload, "RETAINED", tests.crash.workload.COMPACTED)
    plant.setattr(tests.crash.workload, "DELETE_RETENTION_MS", 1)


# With the seed and the first state that finds each, as of lately; only one is past what `make test` tries.
FAULTS: list[tuple[Plant, int, int]] = [
    (no_sync_before_the_recovery_point_moves, 1, 0),
    (no_sync_of_the_names, 1, 3),
    (no_sync_of_directories_at_all, 1, 0),
    (no_sync_of_indexes, 1, 0),
    (a_recovery_point_within_the_segment_that_is_appended_to, 1, 248),
    (no_sync_after_a_truncation, 1, 18),
    (checksums_unread, 1, 45),
    (snapshots_believed_past_the_recovery_point, 2, 2304),
    (a_mark_of_a_clean_stop_that_may_come_back, 1, 111),
    (closing_without_a_sync, 1, 0),
    (syncs_that_do_nothing, 1, 0),
    (a_swap_that_is_named_before_it_is_synced, 1, 31),
    (no_sync_of_the_names_of_a_swap, 1, 771),
    (compaction_of_what_is_not_synced, 1, 16),
    (swaps_dropped_by_recovery, 1, 189),
    (transactions_open_for_ever_by_an_old_snapshot, 1, 2720),
]


@pytest.mark.parametrize(("fault", "seed", "state"), FAULTS, ids=[fault.__name__ for fault, _, _ in FAULTS])
def test_a_planted_fault_is_found(fault: Plant, seed: int, state: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """First where it was found the last time; everywhere if it is not there any more, or all is tried."""
    fault(monkeypatch)
    found = None if FULL else next(check_states(seed, [state]), None)
    assert found or next(check_states(seed, range(max(STATES, state + 1))), None)
