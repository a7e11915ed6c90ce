"""Roles of one node, and transitions driven by timeouts. Several nodes: `tests/scripts/quorum`."""

from __future__ import annotations

from random import Random

import pytest

from controller.raft.log import RaftLog
from controller.raft.messages import NO_NODE, Disconnected, ElectionState, Role, Tick
from controller.raft.raft_node import RaftNode
from controller.raft.voter_history import VoterHistory
from controller.raft.voters import Voter, VoterSet
from protocol.errors import InvariantError
from protocol.messages.fetch import FetchRequest
from tests.typed import present
from tests.unit.controller.lone_voter import LoneVoter, granted, vote


def test_single_voter_leads_after_its_first_tick() -> None:
    node = RaftNode(1, VoterHistory(VoterSet([Voter(1)])), ElectionState(), RaftLog(0, 0), now_ms=70)
    assert node.due_ms == 70
    node.step(Tick(), 70)
    node.advance(present(node.ready()))
    assert node.role is Role.LEADER


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


def test_restarted_follower_fetches_from_its_last_leader() -> None:
    at = LoneVoter(1, state=ElectionState(3, leader_id=2))
    at.wait(0)
    assert at.the_fetch().to == 2


def test_restarted_leader_does_not_lead() -> None:
    at = LoneVoter(1, state=ElectionState(3, leader_id=1))
    assert (at.node.role, at.node.leader_id) == (Role.UNATTACHED, NO_NODE)


def test_epoch_of_the_log_replaces_an_older_quorum_state() -> None:
    at = LoneVoter(7, state=ElectionState())
    at.node.campaign(0)
    assert at.node.epoch == 8


def test_election_timeouts_are_randomized() -> None:
    waits = {LoneVoter(1, random=Random(seed)).node.due_ms for seed in range(20)}
    deadlines = {LoneVoter(1, random=Random(seed)).node._quorum.state.deadline_ms for seed in range(20)}
    assert waits == {0}, "a Fetch to find the leader is due at once"
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


def of_role(role: Role) -> LoneVoter:
    """Return node 1 of three in a role; node 2 leads if another node does."""
    at = LoneVoter(1)
    if role is Role.FOLLOWER:
        return at.follow(2, 3)
    if role is Role.PROSPECTIVE:
        at.wait(100)
    elif role is Role.CANDIDATE:
        at.node.campaign(0)
    elif role in (Role.LEADER, Role.RESIGNED):
        at.lead()
        at.wait(3000 if role is Role.RESIGNED else 0)
    return at


@pytest.mark.parametrize(
    ("role", "grants"),
    [
        (Role.LEADER, False),
        (Role.FOLLOWER, False),
        (Role.UNATTACHED, True),
        (Role.PROSPECTIVE, True),
        (Role.CANDIDATE, True),
        (Role.RESIGNED, True),
    ],
)
def test_pre_vote_depends_on_the_role_and_on_contact_with_the_leader(role: Role, grants: bool) -> None:
    at = of_role(role)
    assert at.node.role is role
    assert granted(at.requested(vote(3, at.node.epoch, pre_vote=True))) is grants
    assert at.node.role is role


def test_pre_vote_request_of_the_known_leader_is_granted() -> None:
    assert granted(of_role(Role.FOLLOWER).requested(vote(2, 3, pre_vote=True)))


def test_due_time_is_the_earliest_deadline() -> None:
    at = LoneVoter(1).lead()
    assert at.node.due_ms is not None
    at.requested(vote(3, 9))
    assert at.node.due_ms is not None
    assert at.node.due_ms <= 1000
