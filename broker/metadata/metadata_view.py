"""A partition as a client on one listener may see it: who leads, and which replicas it cannot reach.

A broker is reachable when it is registered, not fenced, and has an address on that listener.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from controller.image import NO_LEADER, MetadataImage, PartitionImage
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from random import Random


class PartitionView(NamedTuple):
    """What to tell of one partition; without a reachable leader `leader_id` is -1 and `error` says why."""

    error: ErrorCode
    leader_id: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


def reachable_brokers(image: MetadataImage, listener: str) -> frozenset[int]:
    """Return the brokers that a client on `listener` can reach."""
    return frozenset(
        broker.broker_id for broker in image.brokers.values() if not broker.fenced and listener in broker.endpoints
    )


def told_controller(reachable: Collection[int], random: Random) -> int:
    """Return whom clients are told as the controller: any broker that they reach, -1 if there is none.

    It passes on what it is asked: clients have no way to controllers themselves (KIP-590).
    """
    return random.choice(sorted(reachable)) if reachable else NO_LEADER


def view_partition(image: MetadataImage, partition: PartitionImage, reachable: Collection[int]) -> PartitionView:
    """Return a partition as a client sees it who can reach the brokers in `reachable`."""
    error, leader = ErrorCode.NONE, partition.leader
    if leader not in reachable:
        broker = image.brokers.get(leader)
        served_elsewhere = broker is not None and not broker.fenced
        error = ErrorCode.LISTENER_NOT_FOUND if served_elsewhere else ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_LEADER
    replicas = list(partition.replicas)
    offline = [replica for replica in replicas if replica not in reachable]
    return PartitionView(error, leader, replicas, list(partition.isr), offline)
