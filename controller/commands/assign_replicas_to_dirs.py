"""Assignment of a broker's replicas to its directories (KIP-858).

The controller accepts what the broker reports. A replica in a directory that is not in the broker's registration,
because it has failed, leaves the ISR, and another replica becomes leader; a replica in a working directory can lead
again.
"""

from controller.commands.controller_result import ControllerResult
from controller.configs.effective import StaticSettings
from controller.image import BrokerImage, MetadataImage
from controller.partition_change import DEFAULT_SETTINGS, PartitionChangeBuilder, has_directory
from protocol.errors import ErrorCode
from protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from protocol.records.metadata import PartitionChangeRecord

_Directory = AssignReplicasToDirsResponse.Directory


def assign_replicas_to_dirs(
    image: MetadataImage, request: AssignReplicasToDirsRequest, settings: StaticSettings = DEFAULT_SETTINGS
) -> ControllerResult[AssignReplicasToDirsResponse]:
    """Store the directories of a broker's replicas.

    STALE_BROKER_EPOCH for the whole request if the broker is not registered in that epoch.
    """
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return ControllerResult(
            (), AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, directories=[])
        )
    builder = PartitionChangeBuilder(image, settings)
    # The last directory of a duplicated replica applies.
    changes: dict[tuple[bytes, int], PartitionChangeRecord | None] = {}
    results = []
    for directory in request.directories:
        topics = []
        for topic in directory.topics:
            partitions = [
                _Directory.Topic.Partition(
                    partition_index=requested.partition_index,
                    error_code=_assign(
                        builder, broker, directory.id, topic.topic_id, requested.partition_index, changes
                    ),
                )
                for requested in topic.partitions
            ]
            topics.append(_Directory.Topic(topic_id=topic.topic_id, partitions=partitions))
        results.append(_Directory(id=directory.id, topics=topics))
    return ControllerResult(tuple(filter(None, changes.values())), AssignReplicasToDirsResponse(directories=results))


def _assign(
    builder: PartitionChangeBuilder,
    broker: BrokerImage,
    directory: bytes,
    topic_id: bytes,
    index: int,
    changes: dict[tuple[bytes, int], PartitionChangeRecord | None],
) -> ErrorCode:
    """Put the change of one partition into `changes`, None if there is none; return the partition's error code."""
    topic = builder.image.topic_by_id(topic_id)
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
    changes[topic_id, index] = builder.change(topic, partition, isr=isr, directories={broker.broker_id: directory})
    return ErrorCode.NONE
