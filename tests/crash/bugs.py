"""Bugs planted in the log to check that power-cut states detect them: a test of the tests.

`python -m tests.crash.bugs [NAME ...]` searches for the states that detect each.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any, TypeAlias

import storage.checkpoint_files
import storage.cleaner.segment_swap
import storage.cleaner.swap_recovery
import storage.log.batch_scanner
import storage.log.log
import storage.log.producer_recovery
import tests.crash.states
import tests.crash.workload
from protocol.record_batch import build_batch
from simulation.memory_disk import MemoryDisk, MemoryFile
from storage.cleaner.cleaner_pass import CleanerPass
from storage.cleaner.segment_swap import SegmentSwap
from storage.log.config import FOREVER, LogConfig
from storage.log.flush import Flush
from storage.log.leader_epochs import LeaderEpochs
from storage.log.log import Log
from storage.log.segment import LogSegment
from storage.log_directory import LogDirectory
from tests.crash import metadata_bugs, metadata_states
from tests.crash.broken import Invariant
from tests.crash.states import Failure, check_states
from tests.crash.workload import Workload
from tests.planting import Bug, Planter, breaks, name_of, planted, unplanted

SEED = 1


def no_sync_before_the_recovery_point_moves(plant: Planter) -> None:
    """A flush syncs no file but advances the recovery point."""
    plant.setattr(Flush, "sync", lambda self: setattr(self, "error", None))


def records_appended_during_a_sync_count_as_synced(plant: Planter) -> None:
    """Records appended during a sync count as synced."""
    finish = Log._finish_flush

    def finish_flush(self: Log, home: LogDirectory, flush: Flush) -> None:
        flush.end_offset = self.log_end_offset
        finish(self, home, flush)

    plant.setattr(Log, "_finish_flush", finish_flush)


def no_sync_of_the_log_directory(plant: Planter) -> None:
    """A flush does not sync the directory entry of a new segment."""

    def sync(self: Flush) -> None:
        for file in self._files:
            file.sync()
        self.error = None

    plant.setattr(Flush, "sync", sync)


def no_sync_of_directories_at_all(plant: Planter) -> None:
    """No directory is ever synced."""
    plant.setattr(MemoryDisk, "sync_dir", lambda self, path: None)


def no_sync_of_indexes(plant: Planter) -> None:
    """The indexes of a rolled segment are not synced."""
    plant.setattr(LogSegment, "unsynced_indexes", property(lambda self: []))


def recovery_point_within_the_active_segment(plant: Planter) -> None:
    """The recovery point is stored as it is instead of as the base offset of the active segment."""
    plant.setattr(storage.checkpoint_files, "_recovery_point", lambda log: max(log.recovery_point, 0))


def no_sync_after_a_truncation(plant: Planter) -> None:
    """A truncation is not synced."""
    plant.setattr(storage.log.log, "sync_truncation", lambda *_: None)


def no_sync_of_what_recovery_truncates(plant: Planter) -> None:
    """Recovery does not sync what it truncates."""
    truncate_file = LogSegment.truncate_file

    def unsynced(self: LogSegment) -> None:
        truncate_file(self)
        file = self.file
        assert isinstance(file, MemoryFile)
        self._file = _NeverSynced(file._disk, file._node, file.path)  # until recovery closes it

    plant.setattr(LogSegment, "truncate_file", unsynced)
    # A stale batch reappears only right behind a new one: each batch fills one page, and few are synced.
    _act(plant, append=90, flush=3)
    plant.tune(tests.crash.states, "ACTIONS", 40)
    plant.tune(tests.crash.states, "ACTIONS_AFTER", 40)
    make = Workload._make

    def make_large(self: Workload, name: str, config: LogConfig) -> None:
        make(self, name, config._replace(flush_messages=FOREVER, segment_bytes=1 << 20))

    plant.tune(Workload, "_make", make_large)
    plant.tune(Workload, "_batch", _page)


class _NeverSynced(MemoryFile):
    """A file whose syncs do nothing."""

    __slots__ = ()

    def sync(self) -> None:
        """Do nothing."""


def _page(self: Workload, **fields: Any) -> bytearray:
    """Return a batch of one record that fills one page of the disk's cache."""
    key = b"k%d" % self.random.randrange(6)
    return build_batch([(key, self.random.randbytes(4024))], timestamp_ms=self.now, **fields)


def no_check_of_batch_crcs(plant: Planter) -> None:
    """Recovery does not check the CRC of batches."""
    plant.setattr(storage.log.batch_scanner, "crc_matches", lambda *_: True)


def leader_epochs_from_the_checkpoint_only(plant: Planter) -> None:
    """Recovery reads leader epochs from their checkpoint only, not from the batches too."""
    plant.setattr(LeaderEpochs, "correct", lambda *_: None)


def no_sync_of_the_clean_shutdown_file_removal(plant: Planter) -> None:
    """The removal of the clean shutdown file is not synced."""

    def open_directory(self: LogDirectory) -> None:
        sync_dir, self._disk.sync_dir = self._disk.sync_dir, lambda path: None  # type: ignore[method-assign]
        try:
            opened(self)
        finally:
            self._disk.sync_dir = sync_dir  # type: ignore[method-assign]

    opened = LogDirectory.open
    plant.setattr(LogDirectory, "open", open_directory)
    # It syncs the removal too, once all logs are open.
    plant.setattr(LogDirectory, "save_contiguous_from", lambda self, offsets: None)


def no_sync_of_logs_at_clean_shutdown(plant: Planter) -> None:
    """A clean shutdown syncs no log."""
    plant.setattr(Log, "close", lambda self, now_ms: self.begin_close(now_ms))
    plant.setattr(Log, "begin_flush", lambda self, now_ms, end_offset=None: None)


def syncs_that_do_nothing(plant: Planter) -> None:
    """No file is ever synced."""
    plant.setattr(MemoryFile, "sync", lambda self: None)


def segment_swap_renamed_before_it_is_synced(plant: Planter) -> None:
    """A compacted segment is renamed before it is synced."""
    plant.setattr(storage.cleaner.segment_swap, "_sync", lambda *_: None)


def no_sync_of_the_directory_of_a_swap(plant: Planter) -> None:
    """A segment swap does not sync the directory."""

    def begin(self: SegmentSwap, disk: MemoryDisk, *args: Any) -> None:
        begun(self, disk, *args)
        quiet = copy(disk)
        quiet.sync_dir = lambda path: None  # type: ignore[method-assign]
        self._disk = quiet

    begun = SegmentSwap.__init__
    plant.setattr(SegmentSwap, "__init__", begin)
    _compact_often(plant)


def compaction_past_the_synced_end(plant: Planter) -> None:
    """The cleaner reads past the synced end and drops the records that it replaces."""
    plant.setattr(CleanerPass, "_make_durable", lambda self: iter(()))
    _compact_often(plant)


def segment_swaps_deleted_by_recovery(plant: Planter) -> None:
    """Recovery deletes the files of a segment swap that had begun."""

    def drop(disk: MemoryDisk, directory: str) -> None:
        for name in filter(storage.cleaner.swap_recovery.is_leftover, disk.list_dir(directory)):
            disk.remove(f"{directory}/{name}")

    plant.setattr(storage.cleaner.swap_recovery, "finish_swaps", drop)
    _compact_often(plant)


def compacted_transactions_stay_open_after_recovery(plant: Planter) -> None:
    """Recovery does not end transactions whose markers are compacted away."""
    plant.setattr(storage.log.producer_recovery, "_close_compacted", lambda *_: None)
    # Needs three passes over the end of a transaction without a checkpoint in between: rare unless weighted for.
    _act(plant, append=30, end_transaction=20, roll=15, checkpoint=3, compact=50, kill=4, flush=3)
    plant.tune(tests.crash.workload, "DELETE_RETENTION_MS", 1)


def _compact_often(plant: Planter) -> None:
    """Make most of the workload appends to compacted topics and cleaner passes."""
    _act(plant, append=40, end_transaction=8, roll=15, checkpoint=4, compact=50, kill=2, flush=6)


def _act(plant: Planter, **weights: int) -> None:
    """Restrict the workload to these actions, with these weights, on compacted topics."""
    actions = tuple((getattr(Workload, name), weight) for name, weight in weights.items())
    plant.tune(tests.crash.workload, "_ACTIONS", actions)
    plant.tune(tests.crash.workload, "RETAINED", tests.crash.workload.COMPACTED)


BUGS = (
    Bug(no_sync_before_the_recovery_point_moves, Invariant.SYNCED_STAYS, 26, 19),
    Bug(records_appended_during_a_sync_count_as_synced, Invariant.SYNCED_STAYS, 104, 3),
    Bug(no_sync_of_the_log_directory, Invariant.SYNCED_STAYS, 26, 0),
    Bug(no_sync_of_directories_at_all, Invariant.LOGS_OPEN, 104, 0),
    Bug(no_sync_of_indexes, Invariant.OFFSET_INDEX, 250, 14),
    Bug(recovery_point_within_the_active_segment, Invariant.TIME_INDEX, 264, 0),
    Bug(no_sync_after_a_truncation, Invariant.BATCHES_WERE_WRITTEN, 303, 5),
    Bug(no_sync_of_what_recovery_truncates, Invariant.BATCHES_WERE_WRITTEN, 10480, 0),
    Bug(no_check_of_batch_crcs, Invariant.BATCHES_WERE_WRITTEN, 135, 0),
    Bug(leader_epochs_from_the_checkpoint_only, Invariant.LEADER_EPOCHS, 26, 0),
    Bug(no_sync_of_the_clean_shutdown_file_removal, Invariant.OFFSET_INDEX, 139, 1),
    Bug(no_sync_of_logs_at_clean_shutdown, Invariant.SYNCED_STAYS, 26, 0),
    Bug(syncs_that_do_nothing, Invariant.STARTS, 25, 22),
    Bug(segment_swap_renamed_before_it_is_synced, Invariant.OFFSET_INDEX, 781, 1),
    Bug(no_sync_of_the_directory_of_a_swap, Invariant.COMPACTION_KEEPS_KEYS, 8, 0),
    Bug(compaction_past_the_synced_end, Invariant.COMPACTION_KEEPS_KEYS, 324, 1),
    Bug(segment_swaps_deleted_by_recovery, Invariant.COMPACTION_KEEPS_KEYS, 250, 0),
    Bug(compacted_transactions_stay_open_after_recovery, Invariant.PRODUCER_STATE, 2720, 1),
)
"""Every bug with the state that detects it (`Bug.seed`)."""

Check: TypeAlias = Callable[[int, Iterable[int]], Iterator[Failure]]


def outcome_of(bug: Bug, state: int) -> BaseException | None:
    """Return the error of a state with the bug planted; raise `NeverCalledError` if the patched code does not run."""
    with planted(bug.plant) as planter:
        error = _error(bug, state)
    planter.require_calls()
    return error


def control_of(bug: Bug, state: int) -> BaseException | None:
    """Return the error of the same state of the same workload without the bug."""
    with unplanted(bug.plant):
        return _error(bug, state)


def _error(bug: Bug, state: int) -> BaseException | None:
    check: Check = metadata_states.check_states if bug in metadata_bugs.BUGS else check_states
    return next((failure.error for failure in check(SEED, [state])), None)


def main() -> int:
    """Run states with each bug; print those that detect it and other broken invariants. Exit 1 if a bug is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.bugs", description=main.__doc__)
    parser.add_argument("bug", nargs="*", help="only these")
    parser.add_argument("--states", type=int, default=5000)
    options = parser.parse_args()
    missed = 0
    for bugs, check in ((BUGS, check_states), (metadata_bugs.BUGS, metadata_states.check_states)):
        for bug in bugs:
            if options.bug and bug.name not in options.bug:
                continue
            found, broken = [], Counter[str]()
            with planted(bug.plant) as planter:
                for failure in check(SEED, range(options.states)):
                    broken[name_of(failure.error)] += 1
                    if breaks(failure.error, bug.invariant):
                        found.append(failure.state)
                planter.require_calls()
            print(f"{bug.name}: found by {len(found)}, {found[:40]}: {dict(broken.most_common())}", flush=True)
            missed += not found
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
