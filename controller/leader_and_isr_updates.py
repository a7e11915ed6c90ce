"""New leaders and ISRs when brokers are fenced, unfenced, shut down or registered, or lose directories.

The command that changes the broker's registration adds these changes to its own record in Apache Kafka's order: before
the record that removes a broker, after the one that brings it back. Each function takes the image without that record,
and the controller's static settings for configs that are not set. `PartitionChangeBuilder` decides on each partition.
Kafka:
`ReplicationControlManager.generateLeaderAndIsrUpdates`, called by `handleBrokerFenced` and its siblings.

    event                                 change
    fenced, unregistered, registered      removed from every ISR; other replicas become leaders
    again after a clean shutdown
    controlled shutdown                   the same
    registered after an unclean shutdown  removed from ELRs too: it may have lost records
    unfenced                              leads partitions without a leader, if it has every committed record
    directory failed                      as if fenced, for the partitions in that directory

Each function scans all partitions: a few milliseconds for ten thousand. These events are rare.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from controller.configs.effective import StaticSettings
from controller.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from controller.partition_change import DEFAULT_SETTINGS, PartitionChangeBuilder
from protocol.schema import Message


def on_brokers_fenced(
    image: MetadataImage, broker_ids: Collection[int], settings: StaticSettings = DEFAULT_SETTINGS
) -> list[Message]:
    """Remove brokers from ISRs and leadership: fenced, unregistered, or registered again after a clean shutdown."""
    gone = frozenset(broker_ids)
    builder = PartitionChangeBuilder(image, settings, leaving=gone)
    return _changes(builder, gone, lambda partition: not gone.isdisjoint(partition.isr))


def on_controlled_shutdown(
    image: MetadataImage, broker_id: int, settings: StaticSettings = DEFAULT_SETTINGS
) -> list[Message]:
    """Remove a broker from ISRs and leadership; it may stop once it leads nothing (`leads_any`)."""
    return on_brokers_fenced(image, (broker_id,), settings)


def on_unclean_restart(
    image: MetadataImage, broker_id: int, settings: StaticSettings = DEFAULT_SETTINGS
) -> list[Message]:
    """Remove a broker from ISRs, ELRs and leadership: it registers again and may have lost unsynced records.

    Without ELR the last replica in sync stays in the ISR even then: no replica has more.
    """
    builder = PartitionChangeBuilder(image, settings, unclean=(broker_id,))
    if not builder.elr_enabled:
        return on_brokers_fenced(image, (broker_id,), settings)
    return _changes(
        builder,
        (broker_id,),
        lambda partition: broker_id in partition.isr or broker_id in partition.eligible_leader_replicas,
    )


def on_broker_unfenced(
    image: MetadataImage, broker_id: int, settings: StaticSettings = DEFAULT_SETTINGS
) -> list[Message]:
    """Elect leaders for partitions without one, counting a broker that is still fenced in the image as live."""
    return _changes(
        PartitionChangeBuilder(image, settings, joining=(broker_id,)),
        (),
        lambda partition: partition.leader == NO_LEADER,
    )


def on_directory_failure(
    image: MetadataImage,
    broker_id: int,
    directories: Collection[bytes],
    settings: StaticSettings = DEFAULT_SETTINGS,
) -> list[Message]:
    """Remove a broker from ISR and leadership of the partitions in these directories, given by id."""

    def affected(partition: PartitionImage) -> bool:
        replicas = partition.replicas
        return broker_id in replicas and partition.directories[replicas.index(broker_id)] in directories

    return _changes(PartitionChangeBuilder(image, settings, leaving=(broker_id,)), (broker_id,), affected)


def leads_any(image: MetadataImage, broker_id: int) -> bool:
    """Return whether a broker leads a partition; controlled shutdown waits until it leads none."""
    return any(partition.leader == broker_id for _, partition in partitions(image))


def partitions(image: MetadataImage) -> Iterator[tuple[TopicImage, PartitionImage]]:
    """Yield all partitions with their topics."""
    for topic in image.topics():
        for partition in topic.partitions.values():
            yield topic, partition


def _changes(
    builder: PartitionChangeBuilder, gone: Collection[int], affected: Callable[[PartitionImage], bool]
) -> list[Message]:
    """Return the changes of the affected partitions, with the brokers in `gone` removed from their ISRs."""
    changes: list[Message] = []
    for topic, partition in partitions(builder.image):
        if affected(partition):
            isr = [replica for replica in partition.isr if replica not in gone]
            change = builder.change(topic, partition, isr=isr)
            if change is not None:
                changes.append(change)
    return changes
