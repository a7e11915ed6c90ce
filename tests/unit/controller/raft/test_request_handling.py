"""Validation of a voter's requests, apart from elections. Fetch: `test_leader.py`."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from controller.raft.messages import NO_NODE, Disconnected, Role
from controller.raft.voters import Voter
from controller.raft.wire import begin_request, response_header, vote_request
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from tests.unit.controller.lone_voter import LoneVoter, begin, end, fetch, granted, me, only, vote


@pytest.mark.parametrize("request_", [vote(2, 3), begin(2, 3), end(2, 3, 1), fetch(2, 3, 1, 1)])
def test_request_with_another_cluster_id_is_rejected_and_logged_once(request_: Any) -> None:
    at = LoneVoter(1)
    request_.cluster_id = "other"
    for _ in range(2):
        (answer,) = at.requested(request_)
        assert response_header(answer.response).error == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert at.warnings == ["Refused a request for cluster other: this node is in cluster c"]
    assert at.node.epoch == 1


def test_each_kind_of_warning_is_limited() -> None:
    at = LoneVoter(1)
    for number in range(1000):
        request = vote(2, 3)
        request.cluster_id = str(number)
        at.requested(request)
    for number in range(4, 1000):
        at.requested(vote(number, 3))
    at.requested(vote(1, 3))
    kinds = Counter(re.sub(r"\d+", "N", warning) for warning in at.warnings)
    assert list(kinds.values()) == [10, 10, 1]


@pytest.mark.parametrize("request_", [vote(2, 3), begin(2, 3), end(2, 3, 1), fetch(2, 3, 1, 1)])
def test_request_for_another_partition_is_rejected(request_: Any) -> None:
    request_.topics = request_.topics * 2
    (answer,) = LoneVoter(1).requested(request_)
    assert response_header(answer.response).error == ErrorCode.INVALID_REQUEST


def test_a_request_for_another_node_is_refused() -> None:
    assert only(LoneVoter(1).requested(vote(2, 3, to=3))).error_code == ErrorCode.INVALID_VOTER_KEY
    assert only(LoneVoter(1).requested(begin(2, 3, to=3))).error_code == ErrorCode.INVALID_VOTER_KEY


def test_request_for_a_previous_directory_id_is_rejected() -> None:
    at = LoneVoter(1, node_id=9, directory_id=b"n" * 16)
    other = Voter(9, b"o" * 16)
    for request in (
        vote_request(me(2), other, 3, at.node.log.end, pre_vote=False),
        begin_request(me(2), other, 3, Voter(2)),
    ):
        assert only(at.requested(request)).error_code == ErrorCode.INVALID_VOTER_KEY


@pytest.mark.parametrize("request_", [vote(7, 3), begin(7, 3), end(7, 3, 1)])
def test_vote_and_leadership_of_a_non_voter_are_rejected(request_: Any) -> None:
    at = LoneVoter(1)
    assert only(at.requested(request_)).error_code == ErrorCode.INCONSISTENT_VOTER_SET
    assert at.warnings == ["Nodes have different voters: 7 is not among this node's [1, 2, 3]"]
    assert at.node.epoch == 1


def test_observer_grants_no_vote() -> None:
    assert only(LoneVoter(1, node_id=9).requested(vote(2, 3, to=9))).error_code == ErrorCode.INCONSISTENT_VOTER_SET


def test_request_from_the_own_node_id_is_rejected() -> None:
    at = LoneVoter(1)
    assert only(at.requested(vote(1, 3))).error_code == ErrorCode.INCONSISTENT_VOTER_SET
    assert at.warnings == ["Another node has this node's id 1"]


def test_an_epoch_has_one_leader() -> None:
    at = LoneVoter(1).follow(2, 3)
    assert only(at.requested(begin(3, 3))).error_code == ErrorCode.INVALID_REQUEST
    assert at.node.leader_id == 2
    assert "claims to be the leader of epoch 3" in at.warnings[0]


def test_response_contains_the_leader() -> None:
    answered = only(LoneVoter(1).follow(2, 3).requested(fetch(3, 3, 1, 1)))
    assert answered.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answered.current_leader.leader_id, answered.current_leader.leader_epoch) == (2, 3)


def test_request_with_a_later_epoch_advances_the_epoch() -> None:
    at = LoneVoter(1).follow(2, 3)
    assert granted(at.requested(vote(3, 5, pre_vote=True)))
    assert (at.node.role, at.node.epoch, at.node.leader_id) == (Role.UNATTACHED, 5, NO_NODE)
    assert at.states[-1].voted_id == NO_NODE


def test_pre_vote_is_granted_after_the_leader_is_reported_lost() -> None:
    at = LoneVoter(1).follow(2, 3)
    at.node.step(Disconnected(3), 0)
    assert not granted(at.requested(vote(3, 3, pre_vote=True)))
    at.node.step(Disconnected(2), 0)
    assert granted(at.requested(vote(3, 3, pre_vote=True)))


def test_resigning_node_starts_no_election() -> None:
    at = LoneVoter(1).follow(2, 3)
    at.node.resign(0)
    at.requested(end(2, 3, 1, 3))
    at.wait(60_000)
    assert at.node.role is Role.FOLLOWER
    assert at.sent(FetchRequest)


def test_election_delay_grows_with_the_successor_position() -> None:
    second, third = LoneVoter(1).follow(2, 3), LoneVoter(1).follow(2, 3)
    second.requested(end(2, 3, 3, 1))
    third.requested(end(2, 3, 3))
    assert (second.node.due_ms, second.node.role) == (500, Role.FOLLOWER)
    second.wait(500)
    assert second.node.role is Role.PROSPECTIVE
    third.wait(499)
    assert third.node.role is Role.FOLLOWER
