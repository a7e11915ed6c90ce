"""Votes, majorities and backoff of an election."""

from __future__ import annotations

import pytest

from controller.raft.election import Ballot, Calls, backoff_ms, may_vote, successors, would_vote
from controller.raft.messages import OutboundRequest, Role
from controller.raft.node import QuorumState
from controller.raft.voters import NO_DIRECTORY, Voter, VoterSet
from protocol.messages.vote import VoteRequest

FIVE = VoterSet([Voter(number) for number in range(1, 6)])


def request(to: int) -> OutboundRequest:
    return OutboundRequest(to, VoteRequest(topics=[]))


def test_majority_wins_and_an_unreachable_majority_loses() -> None:
    ballot = Ballot(FIVE, 1, now_ms=0)
    ballot.granted |= {1, 2}
    ballot.refused |= {3, 4}
    assert not ballot.won(FIVE)
    assert not ballot.lost(FIVE)
    ballot.refused.add(5)
    assert ballot.lost(FIVE)
    ballot.granted.add(5)
    assert ballot.won(FIVE)


def test_responses_of_non_voters_do_not_count() -> None:
    ballot = Ballot(FIVE, 1, now_ms=0)
    ballot.granted |= {1, 7, 8}
    ballot.refused |= {9, 10, 11}
    assert not ballot.won(FIVE)
    assert not ballot.lost(FIVE)


def test_vote_is_granted_to_one_candidate_and_repeated_for_it() -> None:
    state = QuorumState(epoch=3, voted_id=2)
    assert may_vote(QuorumState(epoch=3), 2, NO_DIRECTORY)
    assert may_vote(state, 2, NO_DIRECTORY)
    assert not may_vote(state, 3, NO_DIRECTORY)


def test_candidate_with_another_directory_id_is_another_candidate() -> None:
    assert not may_vote(QuorumState(epoch=3, voted_id=2, voted_directory_id=b"a" * 16), 2, b"b" * 16)


def test_vote_is_refused_in_an_epoch_with_a_leader() -> None:
    assert not may_vote(QuorumState(epoch=3, leader_id=2), 2, NO_DIRECTORY)


@pytest.mark.parametrize(
    ("role", "heard", "would"),
    [
        (Role.LEADER, False, False),
        (Role.FOLLOWER, True, False),
        (Role.FOLLOWER, False, True),
        (Role.UNATTACHED, False, True),
        (Role.PROSPECTIVE, False, True),
        (Role.CANDIDATE, False, True),
        (Role.RESIGNED, False, True),
    ],
)
def test_pre_vote_depends_on_the_role_and_on_contact_with_the_leader(role: Role, heard: bool, would: bool) -> None:
    assert would_vote(role, QuorumState(3, leader_id=2), 3, leader_heard=heard) is would


def test_vote_request_of_the_known_leader_is_granted() -> None:
    assert would_vote(Role.FOLLOWER, QuorumState(3, leader_id=2), 2, leader_heard=True)


def test_each_voter_has_one_request_in_flight() -> None:
    calls = Calls([2, 3], now_ms=5)
    assert (calls.due_ms, calls.due(4), calls.due(5)) == (5, [], [2, 3])
    calls.sent(first := request(2))
    assert calls.due(5) == [3]
    assert not calls.ended(request(2))
    assert calls.ended(first)
    assert not calls.ended(first)
    calls.again(2, 30)
    assert calls.due(29) == [3]
    assert calls.due(30) == [3, 2]


def test_election_backoff_grows_up_to_the_limit() -> None:
    assert [backoff_ms(losses, 1000, 1.0) for losses in (1, 2, 3, 9)] == [125, 225, 425, 1025]
    assert backoff_ms(9, 1000, 0.0) == 25
    assert backoff_ms(1, 10, 0.0) == 10


def test_successors_are_ordered_by_log_end() -> None:
    assert successors([(2, 5), (3, 9), (4, 9), (5, -1)]) == [3, 4, 2, 5]
