"""A broker tells in which of its directories replicas lie (KIP-858).

Nobody else knows better, so what it says holds. A replica in a directory that the broker is not registered with, one
that has failed, leaves the ISR, and another leads in its place; one in a directory that works can lead again.
"""

from __future__ import annotations

from controller.commands.controller_result import Decision
from controller.configs.effective import StaticSettings
from controller.image import BrokerImage, MetadataImage
from controller.partition_change import DEFAULT_SETTINGS, Elector, has_directory
from protocol.errors import ErrorCode
from protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from protocol.records.metadata import PartitionChangeRecord

_Directory = AssignReplicasToDirsResponse.Directory


def assign_replicas_to_dirs(
    image: MetadataImage, request: AssignReplicasToDirsRequest, settings: StaticSettings = DEFAULT_SETTINGS
) -> Decision[AssignReplicasToDirsResponse]:
    """Note where the replicas of a broker lie.

    Nothing changes if the broker has registered again since, or is not known: the response is STALE_BROKER_EPOCH.
    """
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Decision((), AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, directories=[]))
    elector = Elector(image, settings)
    # A replica that is named twice lies where the last says.
    changes: dict[tuple[bytes, int], PartitionChangeRecord | None] = {}
    answers = []
    for directory in request.directories:
        topics = []
        for topic in directory.topics:
            partitions = [
                _Directory.Topic.Partition(
                    partition_index=asked.partition_index,
                    error_code=_assign(elector, broker, directory.id, topic.topic_id, asked.partition_index, changes),
                )
                for asked in topic.partitions
            ]
            topics.append(_Directory.Topic(topic_id=topic.topic_id, partitions=partitions))
        answers.append(_Directory(id=directory.id, topics=topics))
    return Decision(tuple(filter(None, changes.values())), AssignReplicasToDirsResponse(directories=answers))


def _assign(
    elector: Elector,
    broker: BrokerImage,
    directory: bytes,
    topic_id: bytes,
    index: int,
    changes: dict[tuple[bytes, int], PartitionChangeRecord | None],
) -> ErrorCode:
    """Put the change of one partition into `changes`, None if nothing does; return what the answer says of it."""
    topic = elector.image.topic_by_id(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    isr = partition.isr
    if not has_directory(broker, directory):
        isr = tuple(replica for replica in isr if replica != broker.broker_id)
    changes[topic_id, index] = elector.change(topic, partition, isr=isr, directories={broker.broker_id: directory})
    return ErrorCode.NONE
