"""EndQuorumEpoch, sent by a resigning leader."""

from __future__ import annotations

from typing import Any

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.controllers import ask_quorum
from tests.unit.broker.whole_cluster import WholeCluster


def end(three: WholeCluster, node: int, leader: int, epoch: int, **of: str) -> Any:
    key = ApiKey.END_QUORUM_EPOCH
    fields = {"leader_id": leader, "leader_epoch": epoch, "preferred_candidates": []}
    return ask_quorum(three, key, 1, node=node, **fields, of=of)


def test_another_leader_is_elected_after_resignation(three: WholeCluster) -> None:
    follower, leader = three.follower(), three.active
    epoch = three.broker(leader).controller.epoch
    assert end(three, follower, leader, epoch).error_code == ErrorCode.NONE
    three.until(lambda: three.broker(leader).controller.epoch > epoch and three.active)


def test_stale_leader_epoch_is_fenced(three: WholeCluster) -> None:
    follower, leader = three.follower(), three.active
    answer = end(three, follower, 6 - leader - follower, three.broker(leader).controller.epoch - 1)
    assert (answer.error_code, answer.leader_id) == (ErrorCode.FENCED_LEADER_EPOCH, leader)


def test_request_with_another_cluster_id_is_refused(three: WholeCluster) -> None:
    assert end(three, three.follower(), 9, 9, cluster_id="other") is ErrorCode.INCONSISTENT_CLUSTER_ID
