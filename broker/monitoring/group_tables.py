"""Metrics of consumer groups: Apache Kafka's GroupMetadataManager, and kafka_exporter's offsets and lags.

Only groups that this broker coordinates have rows. Lag is the high watermark minus the committed offset, known only for
partitions that this broker leads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.coordinator.group.classic_group import COMPLETING, DEAD, EMPTY, PREPARING, STABLE
from broker.monitoring.exposition import Column, gauge, labels, table

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.coordinator.group.classic_group import ClassicGroup
    from broker.coordinator.group.shard import GroupCoordinatorShard
    from broker.monitoring.monitored import MonitoredNode


class _Offset(NamedTuple):
    """The committed offset and lag of a group in a partition, or their sums over a topic."""

    offset: int
    lag: int | None


def _shards(node: MonitoredNode) -> list[GroupCoordinatorShard]:
    coordinator = None if node.broker is None else node.broker.group_coordinator
    return [] if coordinator is None else coordinator.runtime.active_shards()


def _groups(node: MonitoredNode) -> Iterator[tuple[str, ClassicGroup]]:
    for shard in _shards(node):
        for group in list(shard.groups.values()):
            yield labels(consumergroup=group.group_id), group


def _offsets(node: MonitoredNode) -> Iterator[tuple[str, _Offset]]:
    for group_id, topic, offsets in _by_topic(node):
        for partition, found in offsets:
            yield labels(consumergroup=group_id, topic=topic, partition=partition), found


def _sums(node: MonitoredNode) -> Iterator[tuple[str, _Offset]]:
    for group_id, topic, offsets in _by_topic(node):
        lags = [found.lag for _, found in offsets if found.lag is not None]
        total = _Offset(sum(found.offset for _, found in offsets), sum(lags) if lags else None)
        yield labels(consumergroup=group_id, topic=topic), total


def _by_topic(node: MonitoredNode) -> Iterator[tuple[str, str, list[tuple[int, _Offset]]]]:
    for shard in _shards(node):
        for group_id in list(shard.groups):
            for topic, partitions in list(shard.offsets.of_group(group_id).items()):
                found = [
                    (partition, _Offset(committed.offset, _lag(node.broker, topic, partition, committed.offset)))
                    for partition, committed in partitions.items()
                ]
                yield group_id, topic, found


def _lag(broker: BrokerServer | None, topic: str, partition: int, offset: int) -> int | None:
    hosted = None if broker is None else broker.replicas.find_named(topic, partition)
    return None if hosted is None or not hosted.is_leader else max(0, hosted.high_watermark - offset)


def _states(node: MonitoredNode) -> Iterator[tuple[str, list[Any]]]:
    yield "", [group.state for shard in _shards(node) for group in shard.groups.values()]


def _offset_count(node: MonitoredNode) -> Iterator[tuple[str, int]]:
    yield (
        "",
        sum(
            len(partitions)
            for shard in _shards(node)
            for group_id in shard.groups
            for partitions in shard.offsets.of_group(group_id).values()
        ),
    )


def _in_state(name: str, state: str) -> Column:
    text = f"Groups in the state {state}."
    return gauge(f"kafka_coordinator_group_groupmetadatamanager_numgroups{name}", text, lambda it: it.count(state))


TABLES = (
    table(
        _states,
        gauge("kafka_coordinator_group_groupmetadatamanager_numgroups", "Groups.", len),
        _in_state("preparingrebalance", PREPARING),
        _in_state("completingrebalance", COMPLETING),
        _in_state("stable", STABLE),
        _in_state("empty", EMPTY),
        _in_state("dead", DEAD),
    ),
    table(
        _offset_count,
        gauge("kafka_coordinator_group_groupmetadatamanager_numoffsets", "Offsets that groups have committed."),
    ),
    table(_groups, gauge("kafka_consumergroup_members", "Members.", lambda it: len(it.members)), by="consumergroup"),
    table(
        _offsets,
        gauge("kafka_consumergroup_current_offset", "The committed offset.", "offset"),
        gauge("kafka_consumergroup_lag", "High watermark minus the committed offset.", "lag"),
        by="consumergroup topic partition",
    ),
    table(
        _sums,
        gauge("kafka_consumergroup_current_offset_sum", "Sum of the committed offsets of a topic.", "offset"),
        gauge("kafka_consumergroup_lag_sum", "Sum of the lags of a topic.", "lag"),
        by="consumergroup topic",
    ),
)
