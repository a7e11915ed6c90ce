"""Mistakes that a broker could make, planted to see whether the simulator finds them: a test of the tests.

Each is a patch of the product for the length of a run; nothing of them is in the product. `FOUND` records by which seed
each is found; `make sim-bugs` looks for them anew, among as many seeds as it is told to.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from broker.fetch_sessions import FetchSessions
from broker.groups import shard
from broker.producer_ids import ProducerIds
from broker.quorum.metadata_log import MetadataLog
from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager
from protocol.errors import ErrorCode
from storage.checkpoint_files import CheckpointFiles
from storage.flush import Flush
from storage.log import Log
from storage.log_directory import LOG_STARTS, LogDirectory
from storage.log_manager import LogManager
from storage.producer_state import ProducerState
from tests.simulation import cluster_bugs
from tests.simulation.simulation import run

Plant = Callable[[pytest.MonkeyPatch], None]
EVENTS = 6_000
EVENTS_OF_CLUSTERS = 20_000


def commits_before_the_sync(plant: pytest.MonkeyPatch) -> None:
    def advance(self: Partition) -> bool:
        before = self.log.high_watermark
        return self.log.update_high_watermark(self.log.log_end_offset) > before

    plant.setattr(Partition, "advance_high_watermark", advance)


def acknowledges_before_the_sync(plant: pytest.MonkeyPatch) -> None:
    def committed(self: Partition, end_offset: int) -> ErrorCode:
        return self.unavailable or ErrorCode.NONE

    plant.setattr(Partition, "committed", committed)


def counts_what_came_during_the_sync(plant: pytest.MonkeyPatch) -> None:
    finish = Log._finish_flush

    def finish_flush(self: Log, home: LogDirectory, flush: Flush) -> None:
        flush.end_offset = self.log_end_offset
        finish(self, home, flush)

    plant.setattr(Log, "_finish_flush", finish_flush)


def syncs_nothing(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(Flush, "sync", lambda self: setattr(self, "error", None))


def syncs_no_metadata(plant: pytest.MonkeyPatch) -> None:
    append = MetadataLog.append

    def appended(self: MetadataLog, *args: Any) -> None:
        append(self, *args)

    plant.setattr(MetadataLog, "append", appended)


def forgets_sequences(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(ProducerState, "check", lambda self, header: None)


def remembers_only_the_last_batch(plant: pytest.MonkeyPatch) -> None:
    check = ProducerState.check

    def checked(self: ProducerState, header: Any) -> Any:
        entry = self.producers.get(header.producer_id)
        while entry is not None and len(entry.batches) > 1:
            del entry.batches[0]
        return check(self, header)

    plant.setattr(ProducerState, "check", checked)


def takes_any_epoch_of_a_session(plant: pytest.MonkeyPatch) -> None:
    opened = FetchSessions.open

    def open_session(self: FetchSessions, request: Any, *args: Any) -> Any:
        known = self._sessions.get(request.session_id)
        if known is not None and request.session_epoch > 0:
            request.session_epoch = known.epoch
        return opened(self, request, *args)

    plant.setattr(FetchSessions, "open", open_session)


def takes_commits_of_any_generation(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(shard, "_check_committer", lambda group, who: None)


def keeps_no_log_start_through_a_crash(plant: pytest.MonkeyPatch) -> None:
    offsets = CheckpointFiles._offsets

    def but_starts(self: CheckpointFiles, directory: LogDirectory, name: str) -> Any:
        return {} if name == LOG_STARTS else offsets(self, directory, name)

    plant.setattr(CheckpointFiles, "_offsets", but_starts)


def believes_that_every_stop_was_clean(plant: pytest.MonkeyPatch) -> None:
    opened = LogDirectory.open

    def open_directory(self: LogDirectory) -> None:
        opened(self)
        self.clean = True

    plant.setattr(LogDirectory, "open", open_directory)


def reads_past_the_high_watermark(plant: pytest.MonkeyPatch) -> None:
    read = Log.read

    def read_all(self: Log, offset: int, max_bytes: int, *, limit_offset: int, min_one: bool = True) -> Any:
        return read(self, offset, max_bytes, limit_offset=max(limit_offset, self.log_end_offset), min_one=min_one)

    plant.setattr(Log, "read", read_all)


def gives_producer_ids_twice(plant: pytest.MonkeyPatch) -> None:
    async def next_id(self: ProducerIds) -> int:
        return 7

    plant.setattr(ProducerIds, "next", next_id)


def takes_over_the_log_of_a_namesake(plant: pytest.MonkeyPatch) -> None:
    def stays(self: LogManager, topic: str, partition: int) -> None:
        """It is neither renamed nor forgotten."""

    created = LogManager.create

    def create(self: LogManager, topic: str, topic_id: bytes, partition: int, *args: Any) -> Log:
        log = created(self, topic, topic_id, partition, *args)
        log.topic_id = topic_id
        return log

    plant.setattr(LogManager, "delete", stays)
    plant.setattr(LogManager, "create", create)
    host = ReplicaManager._host

    def hosted(self: ReplicaManager, image: Any, topic: Any, state: Any) -> Partition:
        log = self._logs.get(topic.name, state.partition)
        if log is not None:
            log.topic_id = topic.topic_id
        return host(self, image, topic, state)

    plant.setattr(ReplicaManager, "_host", hosted)


FOUND: dict[Plant, int] = {
    commits_before_the_sync: 4,
    acknowledges_before_the_sync: 4,
    counts_what_came_during_the_sync: 5,
    syncs_nothing: 3,
    syncs_no_metadata: 2,
    forgets_sequences: 1,
    remembers_only_the_last_batch: 1,
    takes_any_epoch_of_a_session: 1,
    takes_commits_of_any_generation: 2,
    keeps_no_log_start_through_a_crash: 2,
    believes_that_every_stop_was_clean: 3,
    reads_past_the_high_watermark: 4,
    gives_producer_ids_twice: 1,
    takes_over_the_log_of_a_namesake: 1,
}
"""Every bug of a broker alone, and the first seed that finds it."""

FOUND_IN_CLUSTERS: dict[Plant, int] = {
    cluster_bugs.cuts_to_its_own_high_watermark: 1,
    cluster_bugs.counts_only_who_is_surely_in_sync: 4,
    cluster_bugs.commits_with_too_few_in_sync: 4,
    cluster_bugs.commits_what_only_the_leader_has: 1,
    cluster_bugs.says_where_it_ends_before_it_knows: 6,
    cluster_bugs.takes_any_broker_epoch_into_sync: 10,
    cluster_bugs.keeps_in_sync_who_may_have_lost_records: 40,
    cluster_bugs.takes_into_sync_who_is_behind: 10,
    cluster_bugs.remembers_the_farthest_that_a_follower_was: 10,
    cluster_bugs.takes_fetches_of_any_leader_epoch: 1,
    cluster_bugs.never_parts_from_another_log: 28,
    cluster_bugs.takes_who_is_in_sync_for_as_far_as_itself: 1,
    cluster_bugs.keeps_epochs_that_begin_where_it_cuts: 2,
    cluster_bugs.acknowledges_what_only_the_leader_has: 1,
    cluster_bugs.deletes_records_on_the_leader_alone: 16,
    cluster_bugs.remembers_no_producers_as_a_follower: 1,
    cluster_bugs.knows_former_topics_by_their_name: 1,
    cluster_bugs.goes_on_with_the_replica_of_a_namesake: 9,
    cluster_bugs.answers_who_creates_topics_at_once: 2,
    cluster_bugs.coordinates_before_it_has_loaded: 4,
    cluster_bugs.answers_groups_before_it_is_committed: 14,
    cluster_bugs.votes_before_that_is_synced: 1,
    cluster_bugs.commits_metadata_before_it_is_synced: 7,
    cluster_bugs.commits_metadata_of_earlier_epochs_by_counting: 1,
}
"""Every bug of several, and the first seed that finds it in a cluster."""


def finds(bug: Plant, seed: int) -> BaseException | None:
    """Return what a seed finds of a bug."""
    with pytest.MonkeyPatch.context() as plant:
        bug(plant)
        return (run(seed, EVENTS_OF_CLUSTERS, 3) if bug in FOUND_IN_CLUSTERS else run(seed, EVENTS)).error


def main() -> int:
    """Look for every bug; the status is 1 if one was not found."""
    parser = argparse.ArgumentParser(prog="make sim-bugs", description=main.__doc__)
    parser.add_argument("bug", nargs="*", help="only these")
    parser.add_argument("--seeds", type=int, default=100)
    options = parser.parse_args()
    missed = 0
    for bug in (*FOUND, *FOUND_IN_CLUSTERS):
        if options.bug and bug.__name__ not in options.bug:
            continue
        started = time.monotonic()
        for seed in range(1, options.seeds + 1):
            error = finds(bug, seed)
            if error is not None:
                print(f"{bug.__name__}: seed {seed}, {time.monotonic() - started:.1f} s: {error!s:.160}", flush=True)
                break
        else:
            missed += 1
            print(f"{bug.__name__}: not found by {options.seeds} seeds", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
