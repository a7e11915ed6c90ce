"""Construction of the broker's group coordinator from its parts and settings (Kafka: `GroupCoordinatorConfig`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.group.context import GroupSettings
from broker.coordinator.group.group_coordinator import GroupCoordinator
from broker.coordinator.runtime.partition_journal import PartitionJournal
from controller.topic_names import CONSUMER_OFFSETS
from protocol.compression import Compression

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from random import Random

    from broker.replication.replica_manager import ReplicaManager
    from broker.settings import Settings
    from controller.image import MetadataImage


def new_group_coordinator(
    replicas: ReplicaManager,
    settings: Settings,
    *,
    image: Callable[[], MetadataImage],
    loop: asyncio.AbstractEventLoop,
    now_ms: Callable[[], int],
    random: Random,
) -> GroupCoordinator:
    """Return the coordinator of the groups in the partitions of `__consumer_offsets` in `replicas`."""

    def partition_count() -> int:
        topic = image().topic(CONSUMER_OFFSETS)
        return settings["offsets.topic.num.partitions"] if topic is None else len(topic.partitions)

    def open_journal(index: int) -> PartitionJournal:
        return PartitionJournal(
            replicas,
            replicas.partition(CONSUMER_OFFSETS, index),
            compression=Compression(settings["offsets.topic.compression.codec"]),
            timeout_ms=settings["offsets.commit.timeout.ms"],
            load_bytes=settings["offsets.load.buffer.size"],
            now_ms=now_ms,
        )

    return GroupCoordinator(
        loop=loop,
        now_ms=now_ms,
        random=random,
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
