"""Construction of the broker's group coordinator from its parts and settings (Kafka: `GroupCoordinatorConfig`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.group.context import GroupSettings
from broker.coordinator.group.group_coordinator import GroupCoordinator
from broker.coordinator.runtime.partition_log import PartitionJournal
from controller.topic_names import CONSUMER_OFFSETS
from protocol.compression import Compression

if TYPE_CHECKING:
    from broker.node import Node
    from broker.settings import Settings


def open_groups(broker: Node) -> GroupCoordinator:
    """Return a coordinator whose groups live in the partitions of `__consumer_offsets` on `broker`."""
    settings = broker.settings

    def partition_count() -> int:
        topic = broker.image.topic(CONSUMER_OFFSETS)
        return settings["offsets.topic.num.partitions"] if topic is None else len(topic.partitions)

    def open_journal(index: int) -> PartitionJournal:
        return PartitionJournal(
            broker.replicas,
            broker.replicas.partition(CONSUMER_OFFSETS, index),
            compression=Compression(settings["offsets.topic.compression.codec"]),
            timeout_ms=settings["offsets.commit.timeout.ms"],
            load_bytes=settings["offsets.load.buffer.size"],
            now_ms=broker.now_ms,
        )

    return GroupCoordinator(
        loop=broker.loop,
        now_ms=broker.now_ms,
        random=broker.random,
        settings=_group_settings(settings),
        partition_count=partition_count,
        open_journal=open_journal,
    )


def _group_settings(settings: Settings) -> GroupSettings:
    return GroupSettings(
        min_session_timeout_ms=settings["group.min.session.timeout.ms"],
        max_session_timeout_ms=settings["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=settings["group.initial.rebalance.delay.ms"],
        max_size=settings["group.max.size"],
        offset_metadata_max_bytes=settings["offset.metadata.max.bytes"],
        offsets_retention_ms=settings["offsets.retention.minutes"] * 60_000,
    )
