"""The current leader of a partition, returned along with NOT_LEADER_OR_FOLLOWER (KIP-951).

A client that gets the leader, its epoch and its address can retry without a Metadata request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from controller.image import MetadataImage


class LeaderHint(NamedTuple):
    """A partition's leader (-1: unknown), and its address on the client's listener if it has one."""

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
