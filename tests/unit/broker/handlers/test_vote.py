"""Vote, sent by another node."""

from __future__ import annotations

from typing import Any

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.controllers import ask_quorum
from tests.unit.broker.whole_cluster import WholeCluster

VOTE = ApiKey.VOTE


def vote(three: WholeCluster, node: int, candidate: int, epoch: int, last_offset: int, **of: int | str) -> Any:
    return ask_quorum(
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
    epoch = three.broker(voter).controller.epoch + 5
    assert not vote(three, voter, candidate, epoch, last_offset=0).vote_granted


def test_vote_with_another_cluster_id_is_refused(three: WholeCluster) -> None:
    answer = vote(three, three.active, three.follower(), 9, 0, cluster_id="of-another-cluster")
    assert answer is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_vote_request_for_another_voter_is_refused(three: WholeCluster) -> None:
    answer = vote(three, three.active, three.follower(), 9, 0, voter_id=77)
    assert answer.error_code == ErrorCode.INVALID_VOTER_KEY
