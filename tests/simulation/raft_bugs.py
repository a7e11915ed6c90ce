"""Planted bugs of Raft: each disables one rule, and tests whether the simulation finds that.

`python -m tests.simulation.raft_bugs [NAME ...]` searches for seeds; `BUGS` records one of each, which
`test_raft_cluster.py` replays.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from controller.raft.election import RequestManager
from controller.raft.epoch_state import EpochState
from controller.raft.leader import LeaderState
from controller.raft.log import RaftEpochEnd, RaftLog
from controller.raft.messages import NO_NODE, ElectionState
from controller.raft.nominee import CandidateState, ProspectiveState
from controller.raft.quorum_state import QuorumState
from controller.raft.raft_node import RaftNode
from controller.raft.voters import VoterSet
from protocol.errors import InvariantError
from simulation.violation import InvariantBroken
from tests.planting import Bug, Planter, planted, survey
from tests.simulation.raft_cluster import simulate
from tests.simulation.raft_promises import Promise
from tests.typed import instance

SIMULATED_MS = 12_000


def votes_twice_in_one_epoch(plant: Planter) -> None:
    """A node votes again in an epoch in which it has voted."""
    plant.setattr(ElectionState, "may_vote_for", lambda state, *_: state.leader_id == NO_NODE)


def votes_for_outdated_logs(plant: Planter) -> None:
    """A node votes for a candidate whose log is behind its own."""
    plant.setattr(RaftLog, "may_be_led_by", lambda *_: True)


def votes_by_log_end_offset_alone(plant: Planter) -> None:
    """A node compares only the offsets of logs for a vote, not their epochs."""
    plant.setattr(RaftLog, "may_be_led_by", lambda log, end: end.end_offset >= log.end_offset)


def does_not_store_votes(plant: Planter) -> None:
    """Votes are not stored."""
    enter = QuorumState._enter

    def unstored(self: QuorumState, state: EpochState) -> None:
        enter(self, state)
        if state.election.voted_id != NO_NODE:
            self._replica.pending.election_state = None

    plant.setattr(QuorumState, "_enter", unstored)


def loses_epoch_at_restart(plant: Planter) -> None:
    """The epoch is not loaded after a restart."""
    begin = RaftNode.__init__

    def forgetful(
        self: RaftNode, node_id: int, voters: Any, _state: ElectionState, log: RaftLog, **others: Any
    ) -> None:
        begin(self, node_id, voters, ElectionState(), log, **others)

    plant.setattr(RaftNode, "__init__", forgetful)


def candidate_does_not_increment_epoch(plant: Planter) -> None:
    """A candidate does not increment its epoch."""
    begin = CandidateState.__init__

    def in_this_epoch(self: CandidateState, replica: Any, election: ElectionState, deadline_ms: int | None) -> None:
        begin(self, replica, election._replace(epoch=max(1, election.epoch - 1)), deadline_ms)

    plant.setattr(CandidateState, "__init__", in_this_epoch)


def half_counts_as_majority(plant: Planter) -> None:
    """Half of the voters count as a majority."""
    plant.setattr(VoterSet, "majority", property(lambda voters: max(1, len(voters.by_id) // 2)))


def counts_responses_to_earlier_requests(plant: Planter) -> None:
    """Responses to earlier requests count."""
    plant.setattr(
        RequestManager, "request_ended", lambda requests, request: [requests._sent.pop(request.to, None)] != []
    )


def counts_pre_votes_as_votes(plant: Planter) -> None:
    """Granted pre-votes count as votes."""
    become_candidate = QuorumState.become_candidate

    def with_the_responses(self: QuorumState) -> None:
        granted = self.state.ballot.granted if isinstance(self.state, ProspectiveState) else set()
        become_candidate(self)
        instance(CandidateState, self.state).ballot.granted |= granted

    plant.setattr(QuorumState, "become_candidate", with_the_responses)


def grants_no_pre_vote(plant: Planter) -> None:
    """A node grants no pre-vote."""
    plant.setattr(EpochState, "grants_pre_vote", lambda *_: False)


def commits_earlier_epochs_by_counting(plant: Planter) -> None:
    """A new leader commits entries of earlier epochs by counting (Raft 5.4.2)."""
    commit = LeaderState.commit

    def at_once(self: LeaderState) -> bool:
        begun, self.epoch_start = self.epoch_start, -1
        try:
            return commit(self)
        finally:
            self.epoch_start = begun

    plant.setattr(LeaderState, "commit", at_once)


def raft_leader_counts_unsynced_entries(plant: Planter) -> None:
    """A leader counts its own entries before they are synced."""
    append = LeaderState.append

    def stored_at_once(self: LeaderState, records: Any) -> Any:
        entry = append(self, records)
        self.count_own(entry.next_offset)
        return entry

    plant.setattr(LeaderState, "append", stored_at_once)


def counts_observers(plant: Planter) -> None:
    """Observers count for the majority."""

    def commit(self: LeaderState) -> bool:
        voters = self._replica.voters
        ends = sorted([self._stored, *(each.end_offset for each in self._progress.values()), *[0] * 5], reverse=True)
        return ends[voters.majority - 1] > self.epoch_start and self._log.commit(ends[voters.majority - 1])

    plant.setattr(LeaderState, "commit", commit)


def raft_leader_does_not_detect_divergence(plant: Planter) -> None:
    """A leader does not compare the log of a follower with its own."""
    plant.setattr(RaftLog, "compare", lambda *_: None)


def raft_high_watermark_passes_log_end(plant: Planter) -> None:
    """The high watermark of a follower passes its log end."""

    def commit(self: RaftLog, end_offset: int) -> bool:
        more = end_offset > self.high_watermark
        self.high_watermark = max(self.high_watermark, end_offset)
        return more

    plant.setattr(RaftLog, "commit", commit)


def raft_follower_truncates_to_high_watermark(plant: Planter) -> None:
    """A follower truncates to its high watermark."""
    become_follower = QuorumState.become_follower

    def cut(self: QuorumState, epoch: int, leader_id: int) -> None:
        become_follower(self, epoch, leader_id)
        log, pending = self._replica.log, self._replica.pending
        if log.end_offset > log.high_watermark and not pending.entries and not pending.received:
            self._replica.withdraw(log.high_watermark)
            pending.truncate_to = log.high_watermark

    plant.setattr(QuorumState, "become_follower", cut)


def raft_follower_truncates_by_offset_alone(plant: Planter) -> None:
    """A follower truncates by offset, not by epoch."""

    def truncate(self: RaftLog, leader_end: RaftEpochEnd) -> int:
        end_offset = min(self.end_offset, leader_end.end_offset)
        self.truncate_to(end_offset)
        return end_offset

    plant.setattr(RaftLog, "truncate", truncate)


def raft_leader_compares_offsets_alone(plant: Planter) -> None:
    """A leader compares only the offsets of a follower, not the epochs."""
    compare = RaftLog.compare

    def without_epochs(self: RaftLog, end_offset: int, end_epoch: int) -> Any:
        different = compare(self, end_offset, end_epoch)
        return None if isinstance(different, RaftEpochEnd) and end_offset <= self.end_offset else different

    plant.setattr(RaftLog, "compare", without_epochs)


def keeps_epochs_before_snapshot(plant: Planter) -> None:
    """A log that starts at a snapshot keeps the epochs of its former entries."""
    reset_to_snapshot = RaftLog.reset_to_snapshot

    def with_epochs(self: RaftLog, snapshot: Any) -> None:
        epochs, starts = self._epochs, self._starts
        reset_to_snapshot(self, snapshot)
        self._epochs, self._starts = epochs, starts

    plant.setattr(RaftLog, "reset_to_snapshot", with_epochs)


def leader_without_quorum_does_not_resign(plant: Planter) -> None:
    """A leader that reaches no majority does not resign, and receives no later epoch."""
    plant.setattr(LeaderState, "check_quorum_due_ms", lambda *_: None)
    plant.setattr(RaftNode, "_learn_leader", lambda *_: None)


BUGS = (
    Bug(votes_twice_in_one_epoch, Promise.ELECTION_SAFETY, 1, 9),
    Bug(votes_for_outdated_logs, Promise.LEADER_COMPLETENESS, 1, 20),
    Bug(votes_by_log_end_offset_alone, Promise.LEADER_COMPLETENESS, 8, 3),
    Bug(does_not_store_votes, Promise.ELECTION_SAFETY, 0, 25),
    Bug(loses_epoch_at_restart, Promise.MONOTONE, 0, 25),
    Bug(candidate_does_not_increment_epoch, Promise.EPOCHS_ARE_NEW, 0, 25),
    Bug(half_counts_as_majority, Promise.DURABILITY, 0, 15),
    Bug(counts_responses_to_earlier_requests, Promise.ELECTION_SAFETY, 11, 4),
    Bug(counts_pre_votes_as_votes, Promise.ELECTION_SAFETY, 0, 11),
    Bug(grants_no_pre_vote, Promise.ELECTS, 0, 25),
    Bug(commits_earlier_epochs_by_counting, Promise.OWN_EPOCH, 0, 20),
    Bug(raft_leader_counts_unsynced_entries, Promise.DURABILITY, 0, 24),
    Bug(counts_observers, Promise.DURABILITY, 1, 16),
    Bug(raft_leader_does_not_detect_divergence, Promise.DURABILITY, 1, 17),
    Bug(raft_high_watermark_passes_log_end, Promise.STATE_MACHINE_SAFETY, 0, 25),
    Bug(raft_follower_truncates_to_high_watermark, Promise.LEADER_COMPLETENESS, 1, 11),
    Bug(raft_follower_truncates_by_offset_alone, Promise.TRUNCATIONS_DROP, 19, 1),
    Bug(raft_leader_compares_offsets_alone, Promise.LOG_MATCHING, 0, 8),
    Bug(keeps_epochs_before_snapshot, Promise.SNAPSHOT_EPOCHS, 9, 19),
    Bug(leader_without_quorum_does_not_resign, Promise.ALL_FOLLOW, 1, 16),
)
"""Every bug, with the promise and the seed that find it."""


def outcome_of(bug: Bug, seed: int) -> BaseException | None:
    """Return the outcome of a run with a bug; `NeverCalledError` if the run does not call a patched function."""
    with planted(bug.plant) as planter:
        error = _run(seed)
    planter.require_calls()
    return error


def control_of(_bug: Bug, seed: int) -> BaseException | None:
    """Return the outcome of the same run without a bug, cached: many bugs share a seed."""
    return _control(seed)


@cache
def _control(seed: int) -> BaseException | None:
    return _run(seed)


def _run(seed: int) -> BaseException | None:
    try:
        simulate(seed, SIMULATED_MS)
    except InvariantError as found:
        return InvariantBroken(Promise.SELF_CHECKS, str(found))
    except Exception as found:
        return found
    return None


def main(names: list[str]) -> int:
    """Try the seeds near the recorded one of each bug; print those that find it, return the number of missed bugs."""
    lines = []
    for bug in BUGS:
        if not names or bug.name in names:
            lines.append(survey(bug, outcome_of, bug.nearby, most=0))
            print(lines[-1], flush=True)
    return sum("found by 0" in line for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
