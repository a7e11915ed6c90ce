"""Placement of the replicas of new partitions (Kafka: `StripedReplicaPlacer`).

Replicas of one partition are on different brokers. In order of priority, as in Apache Kafka:

- Replicas are spread over racks (KIP-36): no rack gets two more than another with brokers left. Brokers without a rack
  form one rack.
- Within a rack, fenced brokers come last. No fenced broker is the first replica, the preferred leader.
- Leaders and followers are spread over brokers: the first replica advances by one broker from partition to partition,
  in an order that alternates racks. The distance from first to second replica changes after each round, so that the
  partitions led by one broker have their followers on many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from controller.image import BrokerImage
from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from random import Random


class UsableBroker(NamedTuple):
    """A broker that replicas can be placed on."""

    broker_id: int
    rack: str | None
    fenced: bool


def usable_brokers(brokers: Iterable[BrokerImage]) -> list[UsableBroker]:
    """Return the brokers that take new replicas: not shutting down, and not with all directories cordoned."""
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

    KafkaError INVALID_REPLICATION_FACTOR if there are fewer brokers than replicas, or all are fenced.
    """
    if all(broker.fenced for broker in brokers):
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced.")
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only {len(brokers)} "
            "broker(s) are registered.",
        )
    active = _alternate_racks(broker for broker in brokers if not broker.fenced)
    fenced = _alternate_racks(broker for broker in brokers if broker.fenced)
    start, shift = random.randrange(len(active)), random.randrange(len(active))
    leaders, followers, spares = len(active), max(len(active) - 1, 1), max(len(fenced), 1)

    @cache  # few distinct results for many partitions
    def replicas(leader: int, first_follower: int, first_fenced: int) -> tuple[int, ...]:
        others = _rotated(active[leader + 1 :] + active[:leader], first_follower)
        return _spread_over_racks([active[leader], *others, *_rotated(fenced, first_fenced)])[:replication_factor]

    return [
        replicas(
            (start + partition) % leaders, (shift + partition // leaders) % followers, (start + partition) % spares
        )
        for partition in range(first_partition, first_partition + partitions)
    ]


def _alternate_racks(brokers: Iterable[UsableBroker]) -> list[UsableBroker]:
    """Return the brokers in an order in which adjacent ones are in different racks, as far as possible."""
    ranked = [(rank, broker.rack or "", broker) for rank, broker in _ranked(sorted(brokers, key=itemgetter(0)))]
    return [broker for _, _, broker in sorted(ranked)]


def _spread_over_racks(candidates: Sequence[UsableBroker]) -> tuple[int, ...]:
    """Return the ids with the first candidate of each rack before the second of each, and so on."""
    ranked = sorted(_ranked(candidates), key=itemgetter(0))
    return tuple(broker.broker_id for _, broker in ranked)


def _ranked(brokers: Iterable[UsableBroker]) -> Iterator[tuple[int, UsableBroker]]:
    """Yield the brokers, each with the number of earlier ones in its rack."""
    passed: Counter[str | None] = Counter()
    for broker in brokers:
        yield passed[broker.rack], broker
        passed[broker.rack] += 1


def _rotated(brokers: list[UsableBroker], start: int) -> list[UsableBroker]:
    """Return the brokers rotated to start at index `start`, modulo their number."""
    start = start % len(brokers) if brokers else 0
    return brokers[start:] + brokers[:start]
