"""What brokers that come and go mean for partitions: the changes that follow, each with its election if it needs one.

A command that fences, unfences, stops or registers a broker adds these changes to its own record, in Apache Kafka's
order: before the record that takes a broker away, so that a part of them does no harm, and after the one that brings it
back. Every function is told the image without that record, and what the controller was started with, for what topics
and dynamic configurations leave open.

    fenced, unregistered, registered      out of every ISR, and others lead what it led
    again after a clean stop
    in controlled shutdown                the same
    registered again after any other end  out of the ELRs too: what it had, it may not have any more
    unfenced                              leads what nobody leads, if it has every committed record
    without a directory                   as if fenced, for the partitions in that directory

They look at every partition that there is, which for ten thousand takes a few milliseconds; such events are rare.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from controller.configs.effective import StaticSettings
from controller.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from controller.partition_change import DEFAULT_SETTINGS, Elector
from protocol.schema import Message


def on_brokers_fenced(
    image: MetadataImage, broker_ids: Collection[int], settings: StaticSettings = DEFAULT_SETTINGS
) -> list[Message]:
    """Take brokers out of ISRs and leadership: they are fenced, unregistered, or come back after a clean stop."""
    gone = frozenset(broker_ids)
    elector = Elector(image, settings, leaving=gone)
    return _leave(elector, gone, lambda partition: not gone.isdisjoint(partition.isr))


def on_controlled_shutdown(
    image: MetadataImage, broker_id: int, settings: StaticSettings = DEFAULT_SETTINGS
) -> list[Message]:
    """Take a broker out of ISRs and leadership: it wants to stop, and may once it leads nothing (`leads_any`)."""
    return on_brokers_fenced(image, (broker_id,), settings)


def on_unclean_restart(
    image: MetadataImage, broker_id: int, settings: StaticSettings = DEFAULT_SETTINGS
) -> list[Message]:
    """Take a broker out of ISRs, ELRs and leadership: it registers again, and may have lost what it had not synced.

    Where no ELR is kept, the last replica in sync stays so even then: nobody has more than it.
    """
    elector = Elector(image, settings, unclean=(broker_id,))
    if not elector.tracks_eligible:
        return on_brokers_fenced(image, (broker_id,), settings)
    return _leave(
        elector,
        (broker_id,),
        lambda partition: broker_id in partition.isr or broker_id in partition.eligible_leader_replicas,
    )


def on_broker_unfenced(
    image: MetadataImage, broker_id: int, settings: StaticSettings = DEFAULT_SETTINGS
) -> list[Message]:
    """Elect leaders where there are none, now that a broker lives that the image still has fenced."""
    return _leave(Elector(image, settings, joining=(broker_id,)), (), lambda partition: partition.leader == NO_LEADER)


def on_directory_failure(
    image: MetadataImage,
    broker_id: int,
    directories: Collection[bytes],
    settings: StaticSettings = DEFAULT_SETTINGS,
) -> list[Message]:
    """Take a broker out of ISRs and leadership of the partitions that it has in these directories, by id."""

    def concerned(partition: PartitionImage) -> bool:
        replicas = partition.replicas
        return broker_id in replicas and partition.directories[replicas.index(broker_id)] in directories

    return _leave(Elector(image, settings, leaving=(broker_id,)), (broker_id,), concerned)


def leads_any(image: MetadataImage, broker_id: int) -> bool:
    """Say whether a broker leads a partition; in controlled shutdown, it stays until it does not."""
    return any(partition.leader == broker_id for _, partition in partitions(image))


def partitions(image: MetadataImage) -> Iterator[tuple[TopicImage, PartitionImage]]:
    """Yield all partitions with their topics."""
    for topic in image.topics():
        for partition in topic.partitions.values():
            yield topic, partition


def _leave(elector: Elector, gone: Collection[int], concerned: Callable[[PartitionImage], bool]) -> list[Message]:
    """Return the changes of all partitions that are concerned, with these brokers out of their ISRs."""
    changes: list[Message] = []
    for topic, partition in partitions(elector.image):
        if concerned(partition):
            isr = [replica for replica in partition.isr if replica not in gone]
            change = elector.change(topic, partition, isr=isr)
            if change is not None:
                changes.append(change)
    return changes
