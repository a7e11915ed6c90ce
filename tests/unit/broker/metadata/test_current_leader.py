"""Current leader in Produce and Fetch responses (KIP-951)."""

from __future__ import annotations

from broker.metadata.current_leader import LeaderHint, current_leader
from tests.unit.broker.node import LISTENER, Node


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
