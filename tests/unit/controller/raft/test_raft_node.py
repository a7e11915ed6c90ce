"""Requests and proposals that a voter refuses. Elections and commits: `tests/scripts/raft`."""

from __future__ import annotations

from random import Random

import pytest

from controller.raft.log import Entry, RaftLog
from controller.raft.messages import ElectionState, OutboundRequest, Ready, ReplicaProgress, ResponseReceived
from controller.raft.raft_node import RaftNode
from controller.raft.voter_history import VoterHistory
from controller.raft.voters import NO_DIRECTORY, Voter, VoterSet
from controller.raft.wire import LeaderAndEpoch, vote_response
from protocol.errors import ErrorCode, InvariantError, KafkaError
from protocol.messages.vote import VoteRequest
from protocol.records.control import KRaftVersionRecord
from protocol.records.metadata import NoOpRecord
from tests.typed import present
from tests.unit.controller.lone_voter import LoneVoter


def voter(node_id: int = 1) -> RaftNode:
    return RaftNode(node_id, VoterHistory(VoterSet([Voter(1)])), ElectionState(), RaftLog(0, 0))


def leader() -> RaftNode:
    node = voter()
    node.campaign()
    node.advance(present(node.ready()))
    return node


def test_observer_does_not_start_an_election() -> None:
    with pytest.raises(InvariantError, match="node 2 is not one of the voters"):
        voter(2).campaign()


def test_node_is_a_stranger_while_most_voters_return_inconsistent_cluster_id() -> None:
    voters = VoterSet([Voter(number) for number in (1, 2, 3)])
    node = RaftNode(4, VoterHistory(voters), ElectionState(), RaftLog(0, 0), cluster_id="c", random=Random(1))

    def answered(by: int, error: ErrorCode) -> bool:
        request = OutboundRequest(by, VoteRequest(topics=[]))
        node.step(ResponseReceived(request, vote_response(LeaderAndEpoch(-1, 1), granted=False, error=error)), now_ms=0)
        return node.is_in_other_cluster

    assert not answered(1, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert not answered(1, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert answered(3, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert not answered(1, ErrorCode.NONE)
    warnings = present(node.ready()).warnings
    assert [warning.partition(":")[0] for warning in warnings] == [
        "Node 1 is not in this node's cluster c",
        "Node 3 is not in this node's cluster c",
    ]
    assert "the same controller.quorum.voters" in warnings[0]


def test_only_a_leader_proposes() -> None:
    with pytest.raises(KafkaError) as refused:
        voter().propose([NoOpRecord()])
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


def test_storing_records_that_were_not_proposed_is_refused() -> None:
    with pytest.raises(InvariantError):
        leader().advance(Ready(None, (Entry(50, 1, (NoOpRecord(),)),), 0))


def test_vote_of_a_previous_epoch_does_not_count() -> None:
    node = voter()
    node.campaign()
    first = node.ready()
    node.campaign()
    node.advance(present(first))
    assert node.role.value == "candidate"


def working_leader() -> RaftNode:
    node = leader()
    for _ in range(2):
        node.advance(present(node.ready()))
    return node


def test_latest_proposals_can_be_retracted() -> None:
    node = working_leader()
    node.propose([NoOpRecord()])
    again = node.propose([NoOpRecord()])
    assert node.withdraw(present(node.ready()).entries)
    assert node.end_offset == again.base_offset - 1
    assert node.propose([NoOpRecord()]).base_offset == again.base_offset - 1


def test_proposals_sent_to_other_voters_cannot_be_retracted() -> None:
    node = LoneVoter(1).lead().node
    node.propose([NoOpRecord()])
    assert not node.withdraw(present(node.ready()).entries)


def test_retracted_voters_are_replaced_by_the_earlier_ones() -> None:
    node = working_leader()
    node.propose([KRaftVersionRecord(version=0, kraft_version=1), VoterSet([Voter(1, b"d" * 16)]).to_record()])
    assert (node.voters.by_id[1].directory_id, node.kraft_version) == (b"d" * 16, 1)
    assert node.withdraw(present(node.ready()).entries)
    assert (node.voters.by_id, node.kraft_version) == ({1: Voter(1)}, 0)


def test_first_entry_of_an_epoch_cannot_be_retracted() -> None:
    node = leader()
    assert not node.withdraw(present(node.ready()).entries)


def test_proposals_followed_by_newer_ones_cannot_be_retracted() -> None:
    node = working_leader()
    node.propose([NoOpRecord()])
    given = present(node.ready()).entries
    node.propose([NoOpRecord()])
    assert not node.withdraw(given)


def test_leader_describes_the_log_end_of_each_voter() -> None:
    node = working_leader()
    node.propose([NoOpRecord()])
    node.advance(present(node.ready()))
    quorum = node.quorum()
    assert (quorum.leader_id, quorum.epoch, quorum.high_watermark) == (1, 1, node.end_offset)
    assert quorum.voters == (ReplicaProgress(1, NO_DIRECTORY, node.end_offset, 0, 0),)


def test_only_the_leader_describes_the_quorum() -> None:
    with pytest.raises(KafkaError) as refused:
        voter().quorum()
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
