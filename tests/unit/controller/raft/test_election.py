"""Votes, majorities and backoff of an election."""

from __future__ import annotations

from controller.raft.election import Ballot, RequestManager, backoff_ms
from controller.raft.messages import ElectionState, OutboundRequest
from controller.raft.voters import NO_DIRECTORY, Voter, VoterSet
from protocol.messages.vote import VoteRequest

FIVE = VoterSet([Voter(number) for number in range(1, 6)])


def request(to: int) -> OutboundRequest:
    return OutboundRequest(to, VoteRequest(topics=[]))


def test_majority_wins_and_an_unreachable_majority_loses() -> None:
    ballot = Ballot([2, 3, 4, 5], now_ms=0)
    ballot.granted |= {1, 2}
    ballot.refused |= {3, 4}
    assert not ballot.won(FIVE)
    assert not ballot.lost(FIVE)
    ballot.refused.add(5)
    assert ballot.lost(FIVE)
    ballot.granted.add(5)
    assert ballot.won(FIVE)


def test_responses_of_non_voters_do_not_count() -> None:
    ballot = Ballot([2, 3, 4, 5], now_ms=0)
    ballot.granted |= {1, 7, 8}
    ballot.refused |= {9, 10, 11}
    assert not ballot.won(FIVE)
    assert not ballot.lost(FIVE)


def test_vote_is_granted_to_one_candidate_and_repeated_for_it() -> None:
    state = ElectionState(epoch=3, voted_id=2)
    assert ElectionState(epoch=3).may_vote_for(2, NO_DIRECTORY)
    assert state.may_vote_for(2, NO_DIRECTORY)
    assert not state.may_vote_for(3, NO_DIRECTORY)


def test_candidate_with_another_directory_id_is_another_candidate() -> None:
    assert not ElectionState(epoch=3, voted_id=2, voted_directory_id=b"a" * 16).may_vote_for(2, b"b" * 16)


def test_vote_is_refused_in_an_epoch_with_a_leader() -> None:
    assert not ElectionState(epoch=3, leader_id=2).may_vote_for(2, NO_DIRECTORY)


def test_each_voter_has_one_request_in_flight() -> None:
    requests = RequestManager([2, 3], now_ms=5)
    assert (requests.due_ms, requests.due(4), requests.due(5)) == (5, [], [2, 3])
    requests.sent(first := request(2))
    assert requests.due(5) == [3]
    assert not requests.request_ended(request(2))
    assert requests.request_ended(first)
    assert not requests.request_ended(first)
    requests.schedule(2, 30)
    assert requests.due(29) == [3]
    assert requests.due(30) == [3, 2]


def test_election_backoff_grows_up_to_the_limit() -> None:
    assert [backoff_ms(losses, 1000, 1.0) for losses in (1, 2, 3, 9)] == [125, 225, 425, 1025]
    assert backoff_ms(9, 1000, 0.0) == 25
    assert backoff_ms(1, 10, 0.0) == 10
