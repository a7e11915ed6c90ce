"""Vote, BeginQuorumEpoch and EndQuorumEpoch, sent by another node."""

from __future__ import annotations

from typing import Any

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.controllers import query_quorum
from tests.unit.broker.whole_cluster import WholeCluster

VOTE = ApiKey.VOTE


def vote(three: WholeCluster, node: int, candidate: int, epoch: int, last_offset: int, **of: int | str) -> Any:
    return query_quorum(
        three,
        VOTE,
        2,
        node=node,
        replica_epoch=epoch,
        replica_id=candidate,
        last_offset_epoch=0,
        last_offset=last_offset,
        of={"voter_id": node, **of},
    )


def test_candidate_with_a_shorter_log_gets_no_vote(three: WholeCluster) -> None:
    voter, candidate = (node for node in three.running if node != three.active)
    epoch = three.raft(voter).epoch + 5
    assert not vote(three, voter, candidate, epoch, last_offset=0).vote_granted


def test_vote_with_another_cluster_id_is_refused(three: WholeCluster) -> None:
    answer = vote(three, three.active, three.follower(), 9, 0, cluster_id="of-another-cluster")
    assert answer is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_vote_request_for_another_voter_is_refused(three: WholeCluster) -> None:
    answer = vote(three, three.active, three.follower(), 9, 0, voter_id=77)
    assert answer.error_code == ErrorCode.INVALID_VOTER_KEY


def begin(three: WholeCluster, node: int, leader: int, epoch: int, **of: str) -> Any:
    key = ApiKey.BEGIN_QUORUM_EPOCH
    return query_quorum(three, key, 1, node=node, leader_id=leader, leader_epoch=epoch, of={"voter_id": node, **of})


def test_follower_accepts_the_current_leader(three: WholeCluster) -> None:
    follower, leader = three.follower(), three.active
    epoch = three.raft(leader).epoch
    answer = begin(three, follower, leader, epoch)
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (ErrorCode.NONE, leader, epoch)


def test_former_leader_gets_fenced_leader_epoch_and_the_current_leader(three: WholeCluster) -> None:
    follower, leader = three.follower(), three.active
    epoch = three.raft(leader).epoch
    answer = begin(three, follower, 6 - leader - follower, epoch - 1)
    assert (answer.error_code, answer.leader_id) == (ErrorCode.FENCED_LEADER_EPOCH, leader)


def test_leader_with_another_cluster_id_is_refused(three: WholeCluster) -> None:
    assert begin(three, three.follower(), 9, 9, cluster_id="other") is ErrorCode.INCONSISTENT_CLUSTER_ID


def end(three: WholeCluster, node: int, leader: int, epoch: int, **of: str) -> Any:
    key = ApiKey.END_QUORUM_EPOCH
    fields = {"leader_id": leader, "leader_epoch": epoch, "preferred_candidates": []}
    return query_quorum(three, key, 1, node=node, **fields, of=of)


def test_another_leader_is_elected_after_resignation(three: WholeCluster) -> None:
    follower, leader = three.follower(), three.active
    epoch = three.raft(leader).epoch
    assert end(three, follower, leader, epoch).error_code == ErrorCode.NONE
    three.until(lambda: three.raft(leader).epoch > epoch and three.active)


def test_stale_leader_epoch_is_fenced(three: WholeCluster) -> None:
    follower, leader = three.follower(), three.active
    answer = end(three, follower, 6 - leader - follower, three.raft(leader).epoch - 1)
    assert (answer.error_code, answer.leader_id) == (ErrorCode.FENCED_LEADER_EPOCH, leader)


def test_request_with_another_cluster_id_is_refused(three: WholeCluster) -> None:
    assert end(three, three.follower(), 9, 9, cluster_id="other") is ErrorCode.INCONSISTENT_CLUSTER_ID
