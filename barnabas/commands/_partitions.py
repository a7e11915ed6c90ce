"""Filters for partitions with problems, in topics as returned by `describe_topics`."""

from collections.abc import Iterable, Mapping
from typing import Any

Topics = Iterable[Mapping[str, Any]]


def without_leader(topics: Topics) -> list[str]:
    """Return the partitions without a leader: they can be neither written nor read."""
    return [name for name, partition in _named(topics) if partition["leader_id"] < 0 or partition["error_code"] == 5]


def led_by(topics: Topics, broker: int) -> list[str]:
    """Return the partitions that this broker leads."""
    return [name for name, partition in _named(topics) if partition["leader_id"] == broker]


def under_replicated(topics: Topics) -> list[str]:
    """Return the partitions with a replica outside the ISR."""
    return [name for name, partition in _named(topics) if len(partition["isr_nodes"]) < len(partition["replica_nodes"])]


def under_min_isr(topics: Topics, least: Mapping[str, int]) -> list[str]:
    """Return the partitions whose ISR is smaller than `least` of their topic: writes with acks=all fail.

    More than the number of replicas is not required (Kafka: `Partition.effectiveMinIsr`).
    """
    return [
        _name(topic["name"], partition)
        for topic in topics
        for partition in sorted(topic["partitions"], key=lambda one: int(one["partition_index"]))
        if len(partition["isr_nodes"]) < min(least.get(topic["name"], 0), len(partition["replica_nodes"]))
    ]


def without_log(topics: Topics, described: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the partitions of which a broker that described its log directories does not serve its replica."""
    served = {
        broker["broker"]: {
            _name(topic["name"], partition)
            for directory in broker["log_dirs"]
            for topic in directory["topics"]
            for partition in topic["partitions"]
            if not partition["is_future_key"]
        }
        for broker in described
    }
    return [
        name
        for name, partition in _named(topics)
        if any(broker in served and name not in served[broker] for broker in partition["replica_nodes"])
    ]


def _name(topic: str, partition: Mapping[str, Any]) -> str:
    return f"{topic}-{partition['partition_index']}"


def _named(topics: Topics) -> list[tuple[str, Mapping[str, Any]]]:
    return [
        (_name(topic["name"], partition), partition)
        for topic in topics
        for partition in sorted(topic["partitions"], key=lambda one: int(one["partition_index"]))
    ]
