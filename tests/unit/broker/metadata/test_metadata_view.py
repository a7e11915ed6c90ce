"""Partition metadata as returned to a client on one listener."""

from __future__ import annotations

import pytest

from broker.metadata.metadata_view import LeaderHint, current_leader, reachable_brokers, view_partition
from controller.image import NO_LEADER, BrokerImage, Endpoint, MetadataImage, PartitionImage
from protocol.errors import ErrorCode
from tests.unit.broker.node import LISTENER, Node


def broker(broker_id: int, *listeners: str, fenced: bool = False) -> BrokerImage:
    endpoints = {listener: Endpoint("host", 1) for listener in listeners}
    return BrokerImage(broker_id, 0, bytes(16), endpoints, {}, None, fenced, False, (bytes(16),))


IMAGE = MetadataImage(
    cluster_id="c",
    brokers={1: broker(1, "IN", "OUT"), 2: broker(2, "IN"), 3: broker(3, "IN", "OUT", fenced=True)},
)


def partition(leader: int) -> PartitionImage:
    return PartitionImage(0, (1, 2, 3), (1, 2), leader, 5, 6, (bytes(16),) * 3)


def test_unfenced_brokers_with_address_on_listener_are_reachable() -> None:
    assert reachable_brokers(IMAGE, "OUT") == {1}
    assert reachable_brokers(IMAGE, "IN") == {1, 2}
    assert reachable_brokers(IMAGE, "OTHER") == set()


@pytest.mark.parametrize(
    ("leader", "error", "reported"),
    [
        (1, ErrorCode.NONE, 1),
        (2, ErrorCode.LISTENER_NOT_FOUND, NO_LEADER),
        (3, ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER),
        (9, ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER),
        (NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER),
    ],
)
def test_unreachable_leader_is_no_leader(leader: int, error: ErrorCode, reported: int) -> None:
    view = view_partition(IMAGE, partition(leader), reachable_brokers(IMAGE, "OUT"))
    assert (view.error, view.leader_id) == (error, reported)


def test_unreachable_replicas_are_offline() -> None:
    view = view_partition(IMAGE, partition(1), reachable_brokers(IMAGE, "IN"))
    assert (view.replicas, view.isr, view.offline) == ([1, 2, 3], [1, 2], [3])


def test_current_leader_has_epoch_and_address_on_requesting_listener(node: Node) -> None:
    node.register(2, "two.example", 9092)
    node.create("t", replicas=(1, 2))
    node.elect("t", 2)
    assert current_leader(node.image, "t", 0, LISTENER) == LeaderHint(2, 1, "two.example", 9092, None)


def test_a_leader_without_that_listener_has_no_address(node: Node) -> None:
    node.register(2, "two.example", 9092)
    node.create("t", replicas=(2,), leader=2)
    assert current_leader(node.image, "t", 0, "INTERNAL") == LeaderHint(2, 0)


def test_a_leader_that_is_not_registered_has_no_address(node: Node) -> None:
    node.create("t", replicas=(2,), leader=2)
    assert current_leader(node.image, "t", 0, LISTENER) == LeaderHint(2, 0)


def test_unknown_partition_has_no_current_leader(node: Node) -> None:
    node.create("t")
    assert current_leader(node.image, "t", 1, LISTENER) == current_leader(node.image, "u", 0, LISTENER) == LeaderHint()
