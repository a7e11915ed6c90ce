"""Bugs that are planted in Raft to see whether the simulation finds them: each is a rule of it that is switched off.

`python -m tests.simulation.raft_bugs [NAME ...]` looks for the seeds that find them; the first of each is recorded in
`FOUND_BY`, and replayed by `test_raft_cluster.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from controller import raft_answering
from controller.raft import RaftNode
from controller.raft_election import Calls
from controller.raft_leader import Leadership
from controller.raft_log import EpochEnd, RaftLog
from controller.raft_messages import NOBODY, QuorumState, Role
from controller.raft_roles import Member
from controller.voters import VoterSet
from protocol.errors import InvariantError
from tests.simulation.raft_cluster import simulate
from tests.typed import present

SIMULATED_MS = 12_000
MOST_SEEDS = 500


def votes_for_all_who_ask(planted: pytest.MonkeyPatch) -> None:
    planted.setattr(raft_answering, "may_vote", lambda state, *_: state.leader_id == NOBODY)


def votes_for_logs_that_lack_entries(planted: pytest.MonkeyPatch) -> None:
    planted.setattr(RaftLog, "may_be_led_by", lambda *_: True)


def votes_for_the_longer_log(planted: pytest.MonkeyPatch) -> None:
    planted.setattr(RaftLog, "may_be_led_by", lambda log, end: end.end_offset >= log.end_offset)


def forgets_votes(planted: pytest.MonkeyPatch) -> None:
    set_state = Member._set_state

    def unstored(self: Member, state: QuorumState) -> None:
        set_state(self, state)
        if state.voted_id != NOBODY:
            self._outbox.quorum_state = None

    planted.setattr(Member, "_set_state", unstored)


def forgets_epochs(planted: pytest.MonkeyPatch) -> None:
    begin = RaftNode.__init__

    def forgetful(self, node_id, voters, _state, **others) -> None:
        begin(self, node_id, voters, QuorumState(), **others)

    planted.setattr(RaftNode, "__init__", forgetful)


def stands_in_an_epoch_that_was(planted: pytest.MonkeyPatch) -> None:
    stand = Member._stand

    def in_this_epoch(self: Member) -> None:
        epoch = self.epoch
        stand(self)
        if epoch:
            self._set_state(self.quorum_state._replace(epoch=epoch))

    planted.setattr(Member, "_stand", in_this_epoch)


def half_is_a_majority(planted: pytest.MonkeyPatch) -> None:
    planted.setattr(VoterSet, "majority", property(lambda voters: max(1, len(voters.by_id) // 2)))


def counts_answers_to_earlier_questions(planted: pytest.MonkeyPatch) -> None:
    planted.setattr(Calls, "ended", lambda calls, request: [calls._sent.pop(request.to, None)] != [])


def takes_the_question_for_the_election(planted: pytest.MonkeyPatch) -> None:
    stand = Member._stand

    def with_the_answers(self: Member) -> None:
        granted = present(self._ballot).granted if self.role is Role.PROSPECTIVE else set()
        stand(self)
        present(self._ballot).granted |= granted

    planted.setattr(Member, "_stand", with_the_answers)


def would_never_vote(planted: pytest.MonkeyPatch) -> None:
    planted.setattr(raft_answering, "would_vote", lambda *_, **__: False)


def commits_earlier_epochs_by_counting(planted: pytest.MonkeyPatch) -> None:
    commit = Leadership.commit

    def at_once(self: Leadership, voters: VoterSet) -> bool:
        begun, self.epoch_start = self.epoch_start, -1
        try:
            return commit(self, voters)
        finally:
            self.epoch_start = begun

    planted.setattr(Leadership, "commit", at_once)


def counts_what_is_not_synced(planted: pytest.MonkeyPatch) -> None:
    append = Member._append

    def stored_at_once(self: Member, records):
        entry = append(self, records)
        present(self._leadership).count_own(entry.next_offset)
        return entry

    planted.setattr(Member, "_append", stored_at_once)


def counts_observers(planted: pytest.MonkeyPatch) -> None:
    def commit(self: Leadership, voters: VoterSet) -> bool:
        ends = sorted([self._stored, *(each.end_offset for each in self._progress.values()), *[0] * 5], reverse=True)
        return ends[voters.majority - 1] > self.epoch_start and self._log.commit(ends[voters.majority - 1])

    planted.setattr(Leadership, "commit", commit)


def takes_all_logs_for_the_same(planted: pytest.MonkeyPatch) -> None:
    planted.setattr(RaftLog, "compare", lambda *_: None)


def commits_what_it_has_not(planted: pytest.MonkeyPatch) -> None:
    def commit(self: RaftLog, end_offset: int) -> bool:
        more = end_offset > self.high_watermark
        self.high_watermark = max(self.high_watermark, end_offset)
        return more

    planted.setattr(RaftLog, "commit", commit)


def cuts_to_the_high_watermark(planted: pytest.MonkeyPatch) -> None:
    follow = Member._follow

    def cut(self: Member, epoch: int, leader_id: int) -> None:
        follow(self, epoch, leader_id)
        if self._log.end_offset > self._log.high_watermark and not self._outbox.entries and not self._outbox.received:
            self._log.cut(self._log.high_watermark)
            self._outbox.truncate_to = self._log.high_watermark

    planted.setattr(Member, "_follow", cut)


def cuts_by_offset_alone(planted: pytest.MonkeyPatch) -> None:
    def truncate(self: RaftLog, leaders: EpochEnd) -> int:
        end_offset = min(self.end_offset, leaders.end_offset)
        self.cut(end_offset)
        return end_offset

    planted.setattr(RaftLog, "truncate", truncate)


def compares_offsets_alone(planted: pytest.MonkeyPatch) -> None:
    compare = RaftLog.compare

    def without_epochs(self: RaftLog, end_offset: int, end_epoch: int):
        different = compare(self, end_offset, end_epoch)
        return None if isinstance(different, EpochEnd) and end_offset <= self.end_offset else different

    planted.setattr(RaftLog, "compare", without_epochs)


def keeps_epochs_behind_a_snapshot(planted: pytest.MonkeyPatch) -> None:
    begin_behind = RaftLog.begin_behind

    def with_epochs(self: RaftLog, snapshot) -> None:
        epochs, starts = self._epochs, self._starts
        begin_behind(self, snapshot)
        self._epochs, self._starts = epochs, starts

    planted.setattr(RaftLog, "begin_behind", with_epochs)


def leads_on_without_a_quorum(planted: pytest.MonkeyPatch) -> None:
    """What a later epoch does not end: nobody would tell it."""
    planted.setattr(Leadership, "quorum_until_ms", lambda *_: None)
    planted.setattr(RaftNode, "_learn", lambda *_: None)


# Bug -> the first seed that finds it.
FOUND_BY: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    votes_for_all_who_ask: 1,
    votes_for_logs_that_lack_entries: 1,
    votes_for_the_longer_log: 8,
    forgets_votes: 0,
    forgets_epochs: 0,
    stands_in_an_epoch_that_was: 0,
    half_is_a_majority: 0,
    counts_answers_to_earlier_questions: 11,
    takes_the_question_for_the_election: 0,
    would_never_vote: 0,
    commits_earlier_epochs_by_counting: 0,
    counts_what_is_not_synced: 0,
    counts_observers: 1,
    takes_all_logs_for_the_same: 0,
    commits_what_it_has_not: 0,
    cuts_to_the_high_watermark: 1,
    cuts_by_offset_alone: 19,
    compares_offsets_alone: 0,
    keeps_epochs_behind_a_snapshot: 0,
    leads_on_without_a_quorum: 1,
}


def find(bug: Callable[[pytest.MonkeyPatch], None], seed: int) -> str:
    """Return what a run with the bug in it is found to break; nothing if it is not found."""
    with pytest.MonkeyPatch.context() as planted:
        bug(planted)
        try:
            simulate(seed, SIMULATED_MS)
        except (AssertionError, InvariantError) as error:
            return str(error) or "assertion"
    return ""


def main(names: list[str]) -> int:
    """Search for the first seed of each bug."""
    bugs = [value for name, value in globals().items() if name in names or (not names and _is_bug(value))]
    missed = 0
    for bug in bugs:
        found = next(((seed, what) for seed in range(MOST_SEEDS) if (what := find(bug, seed))), None)
        missed += found is None
        print(f"{bug.__name__}: {found}", flush=True)
    return missed


def _is_bug(value: object) -> bool:
    return callable(value) and getattr(value, "__annotations__", {}).get("planted") == "pytest.MonkeyPatch"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
