"""Tests of each safety property of the Raft paper (figure 3), and of the rules of its sections that they rest on.

"section" refers to "In Search of an Understandable Consensus Algorithm", "thesis section" to Ongaro's "Consensus:
Bridging Theory and Practice".
"""

from __future__ import annotations

from typing import Any

import pytest

from controller.raft.log import Entry, RaftEpochEnd
from controller.raft.messages import NO_NODE, ElectionState, RequestReceived, Role
from controller.raft.wire import LeaderAndEpoch, fetch_response, vote_response
from protocol.errors import InvariantError
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from protocol.messages.vote import VoteRequest
from protocol.records.metadata import NoOpRecord
from tests.simulation.raft_nodes import Nodes
from tests.typed import instance, present
from tests.unit.controller.lone_voter import LoneVoter, begin, end, fetch, granted, only, vote


def test_section_5_1_leader_resigns_on_later_epoch() -> None:
    leader = LoneVoter(1).lead()
    leader.requested(vote(2, leader.node.epoch + 1))
    assert leader.node.role is Role.UNATTACHED


def test_section_5_1_requests_with_earlier_epochs_are_rejected() -> None:
    voter = LoneVoter(1, state=ElectionState(epoch=5))
    for request in (vote(2, 4), begin(2, 4), end(2, 4, 1), fetch(2, 4, 1, 1)):
        assert only(voter.requested(request)).error_code == 74
    assert voter.node.epoch == 5


def test_section_5_2_election_safety_voter_votes_once_per_epoch() -> None:
    voter = LoneVoter(1)
    assert granted(voter.requested(vote(2, 7)))
    assert not granted(voter.requested(vote(3, 7)))
    assert granted(voter.requested(vote(2, 7)))
    assert granted(voter.requested(vote(3, 8)))


def test_section_5_2_election_safety_vote_survives_crash() -> None:
    voter = LoneVoter(1)
    voter.requested(vote(2, 7))
    again = LoneVoter(1, state=voter.states[-1])
    assert not granted(again.requested(vote(3, 7)))


def test_section_5_2_election_safety_ready_has_vote_to_store_with_its_response() -> None:
    voter = LoneVoter(1)
    voter.requested(vote(2, 7))
    states = [ready.election_state for ready in voter.readies if ready.responses]
    assert [(state.epoch, state.voted_id) for state in states] == [(7, 2)]


def test_section_5_2_election_safety_candidate_needs_majority_to_lead() -> None:
    candidate = LoneVoter(1, state=ElectionState(1))
    candidate.node.campaign(0)
    candidate.perform()
    to_2, to_3 = candidate.sent(VoteRequest)
    candidate.answered(to_2, vote_response(LeaderAndEpoch(NO_NODE, 2), granted=False))
    assert candidate.node.role is Role.CANDIDATE
    candidate.answered(to_3, vote_response(LeaderAndEpoch(NO_NODE, 2), granted=True))
    assert candidate.node.role is Role.LEADER  # type: ignore[comparison-overlap]  # a call has changed it since


def test_section_5_2_election_safety_two_leaders_have_different_epochs() -> None:
    nodes = Nodes([1, 2, 3])
    nodes.start()
    nodes.lead(1)
    nodes.cut = {(1, 2), (2, 1), (1, 3), (3, 1)}
    nodes.lead(2)
    leaders = [node.epoch for node in nodes.nodes.values() if node.role is Role.LEADER]
    assert leaders == [1, 2]


def test_section_5_3_leader_append_only_leader_keeps_entries_its_followers_lack() -> None:
    nodes = Nodes([1, 2, 3])
    nodes.log(1, 1, 1, 3, 3)
    nodes.log(2, 1, 2)
    nodes.log(3, 1, 1, 1, 1, 1)
    nodes.start()
    before = list(nodes.disks[1].batches)
    nodes.lead(1)
    assert nodes.disks[1].batches[: len(before)] == before
    assert not [reported for reported in nodes.reported if reported.startswith("1: cuts")]


@pytest.mark.parametrize(
    "theirs",
    # Figure 7: followers of a leader that has 1 1 1 4 4 5 5 6 6 6.
    [
        (1, 1, 1, 4, 4, 5, 5, 6, 6),
        (1, 1, 1, 4),
        (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6),
        (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7),
        (1, 1, 1, 4, 4, 4, 4),
        (1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3),
    ],
    ids=list("abcdef"),
)
def test_section_5_3_log_matching_figure_7(theirs: tuple[int, ...]) -> None:
    nodes = Nodes([1, 2, 3])
    for node_id, epochs in ((1, (1, 1, 1, 4, 4, 5, 5, 6, 6, 6)), (2, (1,)), (3, theirs)):
        nodes.log(node_id, *epochs)
    nodes.disks[1].quorum_state = ElectionState(7)
    nodes.start(1, 2)
    nodes.lead(1)
    nodes.start(3)
    nodes.wait(50)
    assert nodes.disks[3].batches == nodes.disks[1].batches
    assert nodes.disks[2].batches == nodes.disks[1].batches


def test_section_5_3_follower_never_truncates_committed_entries() -> None:
    follower = LoneVoter(1, 1, 1, high_watermark=3)
    follower.follow(2, 2)
    diverging = only_diverging(follower, epoch=1, end_offset=2)
    with pytest.raises(InvariantError, match="committed"):
        follower.answered(*diverging)


def only_diverging(follower: LoneVoter, epoch: int, end_offset: int) -> tuple[Any, Any]:
    response = fetch_response(
        LeaderAndEpoch(2, 2), high_watermark=0, log_start_offset=0, divergence=RaftEpochEnd(epoch, end_offset)
    )
    return follower.the_fetch(), response


def test_section_5_4_1_leader_completeness_candidate_with_outdated_log_gets_no_vote() -> None:
    voter = LoneVoter(1, 1, 3, state=ElectionState(3))
    assert not granted(voter.requested(vote(2, 4, end=(2, 9))))
    assert not granted(voter.requested(vote(2, 5, end=(3, 2))))
    assert granted(voter.requested(vote(2, 6, end=(3, 3))))


def test_section_5_4_1_leader_completeness_new_leader_has_all_committed_entries() -> None:
    nodes = Nodes([1, 2, 3])
    nodes.start()
    nodes.lead(1)
    nodes.cut = {(1, 3), (3, 1)}
    nodes.propose(1, 4)
    committed = list(nodes.disks[1].batches)
    nodes.crash(1)
    nodes.lead(3)
    assert nodes.nodes[3].role is not Role.LEADER
    nodes.wait(6000)
    assert nodes.nodes[2].role is Role.LEADER
    assert nodes.disks[2].batches[: len(committed)] == committed


def test_section_5_4_2_entries_of_earlier_epochs_are_not_committed_by_counting() -> None:
    leader = LoneVoter(1, 2, state=ElectionState(3))
    leader.lead()
    assert leader.node.epoch == 4
    leader.requested(fetch(2, 4, 2, 2))
    assert leader.node.high_watermark == 0
    # With its own first entry, all before are committed.
    leader.requested(fetch(2, 4, 4, 3))
    assert leader.node.high_watermark == 3


def test_section_5_4_3_state_machine_safety_all_nodes_apply_the_same_entries() -> None:
    nodes = Nodes([1, 2, 3])
    nodes.log(1, 1, 2, 2)
    nodes.log(2, 1, 3)
    nodes.log(3, 1, 2)
    nodes.start()
    nodes.lead(2)
    nodes.propose(2, 3)
    nodes.crash(2)
    nodes.wait(5000)
    nodes.start(2)
    nodes.wait(500)
    assert len(set(nodes.applied.values())) == 1
    assert nodes.disks[1].batches == nodes.disks[2].batches == nodes.disks[3].batches
    assert [batch.epoch for batch in nodes.disks[1].batches][:2] == [1, 3]


def test_section_5_5_lost_request_is_sent_again() -> None:
    candidate = LoneVoter(1)
    candidate.node.campaign(0)
    candidate.perform()
    lost, _ = candidate.sent(VoteRequest)
    candidate.answered(lost, None)
    candidate.wait(20)
    (again,) = candidate.sent(VoteRequest)
    assert again.to == lost.to


def test_thesis_section_3_10_preferred_successor_of_stopping_leader_starts_election_at_once() -> None:
    leader = LoneVoter(1).lead()
    leader.requested(fetch(3, 2, 2, 2))
    leader.node.resign(0)
    leader.perform()
    (request, _) = leader.sent(EndQuorumEpochRequest)
    message = instance(EndQuorumEpochRequest, request.message)
    assert message.topics[0].partitions[0].preferred_successors == [3, 2]
    successor = LoneVoter(1, node_id=3).follow(1, 2)
    successor.requested(request.message)
    assert (successor.node.role, successor.node.epoch) == (Role.CANDIDATE, 3)


def test_thesis_section_6_2_leader_without_majority_resigns() -> None:
    leader = LoneVoter(1).lead()
    leader.wait(2999)
    assert leader.node.role is Role.LEADER
    leader.wait(1)
    assert leader.node.role is Role.RESIGNED  # type: ignore[comparison-overlap]  # a call has changed it since


def test_thesis_section_9_6_follower_with_live_leader_grants_no_pre_vote() -> None:
    follower = LoneVoter(1).follow(2, 2)
    assert not granted(follower.requested(vote(3, 2, pre_vote=True)))
    assert follower.node.epoch == 2


def test_thesis_section_10_2_1_leader_may_count_others_before_itself() -> None:
    leader = LoneVoter(1).lead()
    leader.node.propose([NoOpRecord()])
    ready = leader.node.ready()
    assert present(ready).entries == (Entry(2, 2, (NoOpRecord(),)),)
    leader.node.step(vote_request_of(2), 0)
    leader.node.step(vote_request_of(3), 0)
    assert leader.node.high_watermark == 3


def vote_request_of(node_id: int) -> RequestReceived:
    return RequestReceived(node_id, fetch(node_id, 2, 2, 3))
