"""Which brokers get the replicas of new partitions, and which replica leads.

Replicas of one partition lie on different brokers, on different racks while there are racks left (KIP-36), and on
brokers that are fenced only when there are not enough others. Leaders and followers of a topic's partitions are spread
evenly: the first replica moves on by one broker from partition to partition, and how far the second is from the first
changes each time the first has gone round, so that no broker inherits all of another's partitions.

The leader is the first replica, in the order of assignment, that is in sync and whose broker is active.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from controller.image import NO_LEADER, BrokerImage
from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from random import Random


class UsableBroker(NamedTuple):
    """A broker that replicas may be placed on."""

    broker_id: int
    rack: str | None
    fenced: bool


def usable_brokers(brokers: Iterable[BrokerImage]) -> list[UsableBroker]:
    """Return the brokers that take new replicas: not those that are shutting down, or have every directory cordoned."""
    return [
        UsableBroker(broker.broker_id, broker.rack, broker.fenced)
        for broker in brokers
        if not broker.in_controlled_shutdown and (broker.open_directories or not broker.directories)
    ]


def place_replicas(
    brokers: Sequence[UsableBroker],
    partitions: int,
    replication_factor: int,
    random: Random,
    *,
    first_partition: int = 0,
) -> list[tuple[int, ...]]:
    """Return the replicas of `partitions` new partitions, numbered from `first_partition` on.

    KafkaError INVALID_REPLICATION_FACTOR if there are too few brokers, or none that could lead.
    """
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only {len(brokers)} "
            "broker(s) are registered.",
        )
    if all(broker.fenced for broker in brokers):
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced.")
    ring = _alternate_racks(broker for broker in brokers if not broker.fenced)
    reserve = tuple(broker.broker_id for broker in _alternate_racks(broker for broker in brokers if broker.fenced))
    start, shift = random.randrange(len(ring)), random.randrange(len(ring))
    placed = []
    for partition in range(first_partition, first_partition + partitions):
        leader = (start + partition) % len(ring)
        others = ring[leader + 1 :] + ring[:leader]
        if others:
            turn = (shift + partition // len(ring)) % len(others)
            others = others[turn:] + others[:turn]
        placed.append((_spread_over_racks([ring[leader], *others]) + reserve)[:replication_factor])
    return placed


def _alternate_racks(brokers: Iterable[UsableBroker]) -> list[UsableBroker]:
    """Return the brokers in an order in which neighbours are of different racks, as far as that goes."""
    racks: dict[str | None, list[UsableBroker]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.broker_id):
        racks.setdefault(broker.rack, []).append(broker)
    ranked = [(rank, rack or "", broker) for rack, members in racks.items() for rank, broker in enumerate(members)]
    return [broker for _, _, broker in sorted(ranked)]


def _spread_over_racks(candidates: Sequence[UsableBroker]) -> tuple[int, ...]:
    """Return the candidates with the first of each rack before all others."""
    chosen: list[int] = []
    used_racks: set[str] = set()
    passed_over: list[int] = []
    for broker in candidates:
        if broker.rack is not None and broker.rack in used_racks:
            passed_over.append(broker.broker_id)
            continue
        if broker.rack is not None:
            used_racks.add(broker.rack)
        chosen.append(broker.broker_id)
    return tuple(chosen + passed_over)


def choose_leader(
    replicas: Iterable[int], isr: Collection[int], active: Callable[[int], bool], *, unclean: bool = False
) -> int:
    """Return who leads a partition: a replica in sync; if `unclean`, any active one rather than none; or NO_LEADER."""
    living = [replica for replica in replicas if active(replica)]
    in_sync = [replica for replica in living if replica in isr]
    if in_sync:
        return in_sync[0]
    return living[0] if unclean and living else NO_LEADER
