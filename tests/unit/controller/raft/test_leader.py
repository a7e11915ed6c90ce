"""A leader's Fetch responses, commits, and follower states. The voter under test leads epoch 2."""

from __future__ import annotations

from typing import Any

import pytest

from controller.raft.log import SnapshotId
from controller.raft.messages import LogRead, Role, SnapshotRead
from controller.raft.voters import NO_DIRECTORY, Voter, VoterSet
from controller.raft.wire import snapshot_request
from protocol.errors import ErrorCode
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from protocol.messages.fetch import FetchResponse
from protocol.records.metadata import NoOpRecord
from tests.typed import instance
from tests.unit.controller.lone_voter import TIMING, LoneVoter, fetch, me, only, vote

# One record of epoch 1, and the LeaderChangeMessage of epoch 2.
END = 2


def leader() -> LoneVoter:
    return LoneVoter(1).lead()


def test_fetch_below_the_log_end_is_answered_immediately() -> None:
    (answer,) = leader().requested(fetch(2, 2, 1, 1), token="t")
    assert (answer.token, answer.read) == ("t", LogRead(1, TIMING.fetch_max_bytes))


def test_fetch_at_the_log_end_is_parked_until_an_append() -> None:
    at = leader()
    assert not at.requested(fetch(2, 2, 2, END, high_watermark=END))
    at.node.propose([NoOpRecord()])
    at.perform()
    (answer,) = at.answers
    assert answer.read == LogRead(END, TIMING.fetch_max_bytes)


def test_parked_fetch_expires_after_max_wait() -> None:
    at = leader()
    at.requested(fetch(2, 2, 2, END, high_watermark=END))
    at.wait(499)
    assert not at.answers
    at.wait(1)
    (answer,) = at.answers
    assert answer.read is None


def test_max_wait_of_a_fetch_is_capped() -> None:
    at = leader()
    patient = fetch(4, 2, 2, END, high_watermark=END)
    patient.max_wait_ms = 1 << 30
    at.requested(patient, token="patient")
    for _ in range(4):
        at.requested(fetch(2, 2, 2, END), token="voter")
        at.wait(1250)
    assert [answer.token for answer in at.answers] == ["voter", "patient"]
    assert at.now_ms == 5000


def test_parked_fetch_is_answered_when_the_high_watermark_advances() -> None:
    at = leader()
    assert not at.requested(fetch(4, 2, 2, END), token="observer")
    answers = at.requested(fetch(2, 2, 2, END), token="voter")
    assert {answer.token for answer in answers} == {"observer", "voter"}
    responses = [instance(FetchResponse, answer.response) for answer in answers]
    assert all(response.responses[0].partitions[0].high_watermark == END for response in responses)


def test_second_fetch_of_a_replica_replaces_the_parked_one() -> None:
    at = leader()
    at.requested(fetch(2, 2, 2, END, high_watermark=END), token="first")
    (answer,) = at.requested(fetch(2, 2, 2, END, high_watermark=END), token="second")
    assert answer.token == "first"


def test_parked_fetches_fail_when_the_leader_resigns() -> None:
    at = leader()
    at.requested(fetch(2, 2, 2, END, high_watermark=END), token="held")
    refused = next(answer for answer in at.requested(vote(3, 9)) if answer.token == "held")
    assert only([refused]).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("epoch", "offset", "error"),
    [
        (1, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (3, 0, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (2, -1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_fetch_with_another_epoch_or_invalid_offsets_is_rejected(epoch: int, offset: int, error: ErrorCode) -> None:
    answered = only(leader().requested(fetch(2, epoch, 1, offset)))
    assert answered.error_code == error
    assert (answered.current_leader.leader_id, answered.current_leader.leader_epoch) == (1, 2)


def test_diverging_fetch_gets_the_diverging_epoch_and_does_not_count() -> None:
    at = leader()
    answered = only(at.requested(fetch(2, 2, 1, 9)))
    assert (answered.diverging_epoch.epoch, answered.diverging_epoch.end_offset) == (1, 1)
    assert at.node.high_watermark == 0


def test_fetch_below_the_log_start_gets_the_snapshot_id() -> None:
    at = leader()
    at.requested(fetch(2, 2, 2, END))
    at.node.snapshot_taken(SnapshotId(END, 2), END)
    answered = only(at.requested(fetch(3, 2, 1, 1)))
    assert (answered.snapshot_id.end_offset, answered.snapshot_id.epoch) == (END, 2)
    (answer,) = at.requested(snapshot_request(me(3), 2, SnapshotId(END, 2), 7, TIMING))
    assert answer.read == SnapshotRead(SnapshotId(END, 2), 7, TIMING.fetch_snapshot_max_bytes)


def test_a_position_before_the_snapshot_is_out_of_range() -> None:
    answered = only(leader().requested(snapshot_request(me(3), 2, SnapshotId(1, 1), -1, TIMING)))
    assert answered.error_code == ErrorCode.POSITION_OUT_OF_RANGE


def test_majority_of_voters_commits_and_observers_do_not_count() -> None:
    at = leader()
    at.requested(fetch(4, 2, 2, END))
    assert at.node.high_watermark == 0
    at.requested(fetch(3, 2, 2, END))
    assert at.node.high_watermark == END


def test_entries_of_earlier_epochs_are_committed_only_with_one_of_the_current_epoch() -> None:
    at = leader()
    at.requested(fetch(3, 2, 1, END - 1))
    assert at.node.high_watermark == 0
    at.requested(fetch(3, 2, 2, END))
    assert at.node.high_watermark == END


def test_leader_of_three_needs_fetches_of_one_voter_not_of_an_observer() -> None:
    at, lonely = leader(), leader()
    for _ in range(3):
        at.wait(1500)
        at.requested(fetch(2, 2, 2, END, high_watermark=END))
    assert at.node.role is Role.LEADER
    for _ in range(2):
        lonely.wait(1500)
        lonely.requested(fetch(4, 2, 2, END, high_watermark=END))
    assert lonely.node.role is Role.RESIGNED


class TestFiveVoters:
    """A quorum of five: the leader needs two other voters for a majority."""

    @pytest.fixture
    def at(self) -> LoneVoter:
        return LoneVoter(1, voters=VoterSet([Voter(voter_id) for voter_id in range(1, 6)])).lead()

    @pytest.mark.parametrize(("fetching", "role"), [((2,), Role.RESIGNED), ((2, 3), Role.LEADER)])
    def test_leader_of_five_resigns_without_fetches_of_a_majority(
        self, at: LoneVoter, fetching: tuple[int, ...], role: Role
    ) -> None:
        for _ in range(2):
            at.wait(1500)
            for voter_id in fetching:
                at.requested(fetch(voter_id, 2, 2, END, high_watermark=END))
        assert at.node.role is role

    def test_voter_with_a_new_directory_id_does_not_inherit_its_old_log_end(self, at: LoneVoter) -> None:
        at.requested(fetch(2, 2, 2, END, directory_id=b"a" * 16))
        _, answer = at.requested(fetch(2, 2, 1, 9, directory_id=b"b" * 16))
        diverging = only([answer])
        assert diverging.diverging_epoch.end_offset == 1
        at.requested(fetch(3, 2, 2, END))
        assert at.node.high_watermark == 0
        at.requested(fetch(2, 2, 2, END, directory_id=b"b" * 16))
        assert at.node.high_watermark == END


def test_begin_quorum_epoch_is_repeated_to_voters_that_do_not_fetch() -> None:
    at = leader()
    for request in at.sent(BeginQuorumEpochRequest):
        at.answered(request, None)
    at.requested(fetch(2, 2, 2, END, high_watermark=END))
    at.wait(250)
    assert [request.to for request in at.sent(BeginQuorumEpochRequest)] == [3]


def test_leader_tracks_the_log_end_and_fetch_times_of_every_replica() -> None:
    at = leader()
    at.requested(fetch(2, 2, 2, END, high_watermark=END))
    at.requested(fetch(4, 2, 1, 1))
    at.wait(40)
    quorum = at.node.quorum(at.now_ms)
    assert quorum.voters == (
        (1, NO_DIRECTORY, END, 0, 0),
        (2, NO_DIRECTORY, END, 40, 40),
        (3, NO_DIRECTORY, -1, None, None),
    )
    assert quorum.observers == ((4, NO_DIRECTORY, 1, 40, None),)


def test_replica_that_reaches_the_log_end_of_its_previous_fetch_was_caught_up_then() -> None:
    at = leader()
    at.requested(fetch(4, 2, 1, 1))
    at.wait(40)
    at.node.propose([NoOpRecord()])
    at.requested(fetch(4, 2, 2, END))
    assert at.node.quorum(at.now_ms).observers[0].caught_up_age_ms == 40


def test_leader_keeps_only_the_most_recent_observers() -> None:
    at = leader()
    at.requested(fetch(2, 2, 2, END))
    for replica_id in range(10, 1012):
        at.wait(1)
        at.requested(fetch(replica_id, 2, 2, END))
    at.requested(fetch(12, 2, 2, END))
    quorum = at.node.quorum(at.now_ms)
    assert [replica.node_id for replica in quorum.observers] == list(range(12, 1012))
    assert quorum.voters[1].end_offset == END


def test_observers_without_fetches_are_removed() -> None:
    at: Any = leader()
    at.requested(fetch(4, 2, 2, END))
    assert at.node.quorum(300_000).observers
    assert not at.node.quorum(300_001).observers
