"""Pre-votes and votes of one node. Elections of several nodes: `tests/scripts/quorum`."""

from __future__ import annotations

from controller.raft.messages import NO_NODE, ElectionState, ResponseReceived, Role
from controller.raft.wire import LeaderAndEpoch, vote_response
from protocol.messages.vote import VoteRequest
from tests.typed import instance, present
from tests.unit.controller.lone_voter import LoneVoter


def test_new_voter_starts_a_pre_vote_soon_and_keeps_its_epoch() -> None:
    at = LoneVoter(1)
    at.wait(100)
    assert (at.node.role, at.node.epoch) == (Role.PROSPECTIVE, 1)
    requested = [instance(VoteRequest, request.message) for request in at.sent(VoteRequest)]
    assert [request.topics[0].partitions[0].pre_vote for request in requested] == [True, True]
    for _ in range(20):
        at.wait(1000)
    assert (at.node.epoch, at.states) == (1, [])


def test_rejected_prospective_returns_to_its_leader() -> None:
    at = LoneVoter(1).follow(2, 3)
    at.wait(2000)
    for request in at.sent(VoteRequest):
        at.answered(request, vote_response(LeaderAndEpoch(2, 3), granted=False))
    assert (at.node.role, at.node.leader_id, at.node.epoch) == (Role.FOLLOWER, 2, 3)


def test_candidate_counts_its_own_vote_once_it_is_stored() -> None:
    at = LoneVoter(1)
    at.node.campaign(0)
    ready = present(at.node.ready())
    assert (ready.election_state, at.node.role) == (ElectionState(2, voted_id=1), Role.CANDIDATE)
    granted = vote_response(LeaderAndEpoch(NO_NODE, 2), granted=True)
    at.node.step(ResponseReceived(ready.requests[0], granted), 0)
    assert at.node.role is Role.CANDIDATE
    at.node.advance(ready)
    assert at.node.role is Role.LEADER  # type: ignore[comparison-overlap]  # a call has changed it since


def test_candidate_without_a_majority_left_requests_pre_votes_after_the_backoff() -> None:
    at = LoneVoter(1)
    at.node.campaign(0)
    at.perform()
    for request in at.sent(VoteRequest):
        at.answered(request, vote_response(LeaderAndEpoch(NO_NODE, 2), granted=False))
    assert (at.node.role, at.node.due_ms) == (Role.CANDIDATE, 25)
    at.wait(25)
    assert (at.node.role, at.node.epoch) == (Role.PROSPECTIVE, 2)
