"""The metadata view: a partition as clients on one listener see it, with its leader and its offline replicas.

A broker is reachable for them if it is registered, not fenced, and has an address on that listener.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from controller.image import NO_LEADER, MetadataImage, PartitionImage
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from random import Random


class PartitionView(NamedTuple):
    """One partition for a Metadata response; without a reachable leader `leader_id` is -1 and `error` is set."""

    error: ErrorCode
    leader_id: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


def reachable_brokers(image: MetadataImage, listener: str) -> frozenset[int]:
    """Return the ids of the brokers that clients on `listener` can reach."""
    return frozenset(
        broker.broker_id for broker in image.brokers.values() if not broker.fenced and listener in broker.endpoints
    )


def controller_for_clients(reachable: Collection[int], random: Random) -> int:
    """Return the controller id for clients: a random reachable broker, -1 if there is none.

    Brokers forward to the active controller, since clients cannot connect to controllers (KIP-590).
    """
    return random.choice(sorted(reachable)) if reachable else NO_LEADER


def view_partition(image: MetadataImage, partition: PartitionImage, reachable: Collection[int]) -> PartitionView:
    """Return a partition as seen by clients that can reach the brokers in `reachable`."""
    error, leader = ErrorCode.NONE, partition.leader
    if leader not in reachable:
        broker = image.brokers.get(leader)
        served_elsewhere = broker is not None and not broker.fenced
        error = ErrorCode.LISTENER_NOT_FOUND if served_elsewhere else ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_LEADER
    replicas = list(partition.replicas)
    offline = [replica for replica in replicas if replica not in reachable]
    return PartitionView(error, leader, replicas, list(partition.isr), offline)


class LeaderHint(NamedTuple):
    """A partition's leader (-1: unknown), and its address on the client's listener if it has one (KIP-951).

    A client that gets it with NOT_LEADER_OR_FOLLOWER can retry without a Metadata request.
    """

    leader: int = -1
    leader_epoch: int = -1
    host: str | None = None
    port: int = -1
    rack: str | None = None


def current_leader(image: MetadataImage, topic: str, index: int, listener: str) -> LeaderHint:
    """Return the leader of a partition according to `image`."""
    partition = image.partition(topic, index)
    if partition is None:
        return LeaderHint()
    broker = image.brokers.get(partition.leader)
    endpoint = broker.endpoints.get(listener) if broker is not None else None
    if broker is None or endpoint is None:
        return LeaderHint(partition.leader, partition.leader_epoch)
    return LeaderHint(partition.leader, partition.leader_epoch, endpoint.host, endpoint.port, broker.rack)
