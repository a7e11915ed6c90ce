"""Where the replicas of a broker lie, as it says itself (KIP-858).

A broker that has moved replicas between its directories, or found them elsewhere than the metadata says, tells the
controller. Nobody else knows better, so what it says holds; leaders and leader epochs stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.commands.brokers import registered
from controller.commands.decision import Decision
from controller.image import MetadataImage
from protocol.records.metadata import PartitionChangeRecord


def assign_directories(
    image: MetadataImage, broker_id: int, broker_epoch: int, homes: Mapping[tuple[bytes, int], bytes]
) -> Decision[None]:
    """Note the ids of the directories that replicas of a broker are in, by topic id and partition.

    What is not known, or not that broker's any more, is passed over. KafkaError STALE_BROKER_EPOCH if the broker has
    registered again since, BROKER_ID_NOT_REGISTERED if it is not known.
    """
    registered(image, broker_id, broker_epoch)
    changes = []
    for (topic_id, index), directory_id in homes.items():
        topic = image.topic_by_id(topic_id)
        partition = topic.partitions.get(index) if topic is not None else None
        if partition is None or broker_id not in partition.replicas:
            continue
        directories = list(partition.directories)
        directories[partition.replicas.index(broker_id)] = directory_id
        if tuple(directories) != partition.directories:
            changes.append(PartitionChangeRecord(partition_id=index, topic_id=topic_id, directories=directories))
    return Decision(tuple(changes), None)
