"""BeginQuorumEpoch, sent by a quorum leader."""

from __future__ import annotations

from typing import Any

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.controllers import ask_quorum
from tests.unit.broker.whole_cluster import WholeCluster


def begin(three: WholeCluster, node: int, leader: int, epoch: int, **of: str) -> Any:
    key = ApiKey.BEGIN_QUORUM_EPOCH
    return ask_quorum(three, key, 1, node=node, leader_id=leader, leader_epoch=epoch, of={"voter_id": node, **of})


def test_follower_accepts_the_current_leader(three: WholeCluster) -> None:
    follower, leader = three.follower(), three.active
    epoch = three.broker(leader).controller.epoch
    answer = begin(three, follower, leader, epoch)
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (ErrorCode.NONE, leader, epoch)


def test_former_leader_gets_fenced_leader_epoch_and_the_current_leader(three: WholeCluster) -> None:
    follower, leader = three.follower(), three.active
    epoch = three.broker(leader).controller.epoch
    answer = begin(three, follower, 6 - leader - follower, epoch - 1)
    assert (answer.error_code, answer.leader_id) == (ErrorCode.FENCED_LEADER_EPOCH, leader)


def test_leader_with_another_cluster_id_is_refused(three: WholeCluster) -> None:
    assert begin(three, three.follower(), 9, 9, cluster_id="other") is ErrorCode.INCONSISTENT_CLUSTER_ID
