"""Role transitions of one node driven by timeouts. Several nodes: `tests/scripts/quorum`."""

from __future__ import annotations

from random import Random

import pytest

from controller.raft.messages import Disconnected, Role, Tick
from controller.raft.node import NO_NODE, QuorumState, RaftNode
from controller.raft.voters import Voter, VoterSet
from controller.raft.wire import LeaderAndEpoch, vote_response
from protocol.errors import InvariantError
from protocol.messages.fetch import FetchRequest
from protocol.messages.vote import VoteRequest
from tests.typed import instance, present
from tests.unit.controller.lone_voter import LoneVoter, vote


def test_single_voter_leads_after_its_first_tick() -> None:
    node = RaftNode(1, VoterSet([Voter(1)]), QuorumState(), kraft_version=1, end_offset=0, end_epoch=0, now_ms=70)
    assert node.due_ms == 70
    node.step(Tick(), 70)
    node.advance(present(node.ready()))
    assert node.role is Role.LEADER


def test_new_voter_starts_a_pre_vote_soon_and_keeps_its_epoch() -> None:
    at = LoneVoter(1)
    at.wait(100)
    assert (at.node.role, at.node.epoch) == (Role.PROSPECTIVE, 1)
    asked = [instance(VoteRequest, request.message) for request in at.sent(VoteRequest)]
    assert [request.topics[0].partitions[0].pre_vote for request in asked] == [True, True]
    for _ in range(20):
        at.wait(1000)
    assert (at.node.epoch, at.states) == (1, [])


def test_a_follower_waits_for_a_fetch_time_out() -> None:
    at = LoneVoter(1).follow(2, 3)
    at.wait(1999)
    assert at.node.role is Role.FOLLOWER
    at.wait(1)
    assert at.node.role is Role.PROSPECTIVE  # type: ignore[comparison-overlap]  # a call has changed it since


def test_follower_of_a_lost_leader_waits_a_tenth_of_the_election_timeout() -> None:
    at = LoneVoter(1).follow(2, 3)
    at.node.step(Disconnected(2), 0)
    assert at.node.due_ms == 0 or at.node.due_ms == 100
    at.wait(100)
    assert at.node.role is Role.PROSPECTIVE


def test_leader_that_responds_again_is_not_lost() -> None:
    at = LoneVoter(1).follow(2, 3)
    at.node.step(Disconnected(2), 0)
    at.follow(2, 3)
    at.wait(1999)
    assert at.node.role is Role.FOLLOWER


def test_rejected_prospective_returns_to_its_leader() -> None:
    at = LoneVoter(1).follow(2, 3)
    at.wait(2000)
    for request in at.sent(VoteRequest):
        at.answered(request, vote_response(LeaderAndEpoch(2, 3), granted=False))
    assert (at.node.role, at.node.leader_id, at.node.epoch) == (Role.FOLLOWER, 2, 3)


def test_restarted_follower_fetches_from_its_last_leader() -> None:
    at = LoneVoter(1, state=QuorumState(3, leader_id=2))
    at.wait(0)
    assert at.the_fetch().to == 2


def test_restarted_leader_does_not_lead() -> None:
    at = LoneVoter(1, state=QuorumState(3, leader_id=1))
    assert (at.node.role, at.node.leader_id) == (Role.UNATTACHED, NO_NODE)


def test_epoch_of_the_log_replaces_an_older_quorum_state() -> None:
    at = LoneVoter(7, state=QuorumState())
    at.node.campaign(0)
    assert at.node.epoch == 8


def test_election_timeouts_are_randomized() -> None:
    waits = {LoneVoter(1, random=Random(seed)).node.due_ms for seed in range(20)}
    deadlines = {LoneVoter(1, random=Random(seed)).node._deadline_ms for seed in range(20)}
    assert waits == {0}, "a Fetch that asks who leads is due at once"
    assert len(deadlines) > 10


def test_observer_without_a_leader_keeps_fetching_from_voters() -> None:
    at = LoneVoter(1, node_id=9)
    for _ in range(10):
        at.wait(5000)
        for request in at.sent(FetchRequest):
            at.answered(request, None)
    assert at.node.role is Role.UNATTACHED
    with pytest.raises(InvariantError):
        at.node.campaign()


def test_due_time_is_the_earliest_deadline() -> None:
    at = LoneVoter(1).lead()
    assert at.node.due_ms is not None
    at.asked(vote(3, 9))
    assert at.node.due_ms is not None
    assert at.node.due_ms <= 1000
