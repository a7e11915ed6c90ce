"""Partitions that are not as they should be, in topics as they are described."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Topics = Iterable[Mapping[str, Any]]


def without_leader(topics: Topics) -> list[str]:
    """Return the partitions that nobody leads: they can neither be written nor read."""
    return [name for name, partition in _named(topics) if partition["leader_id"] < 0 or partition["error_code"] == 5]


def under_replicated(topics: Topics) -> list[str]:
    """Return the partitions of which a replica is not in sync."""
    return [name for name, partition in _named(topics) if len(partition["isr_nodes"]) < len(partition["replica_nodes"])]


def _named(topics: Topics) -> list[tuple[str, Mapping[str, Any]]]:
    return [
        (f"{topic['name']}/{partition['partition_index']}", partition)
        for topic in topics
        for partition in sorted(topic["partitions"], key=lambda one: int(one["partition_index"]))
    ]
