"""Checks of manual replica assignments, directories of new replicas, and the record of a new partition."""

from collections import Counter
from collections.abc import Sequence

from controller.image import BrokerImage, DirectoryId, MetadataImage, PartitionImage
from controller.records import partition_record
from protocol.errors import ErrorCode, KafkaError
from protocol.records.metadata import PartitionRecord


def check_assignment(image: MetadataImage, replicas: Sequence[int], factor: int) -> None:
    """Raise KafkaError INVALID_REPLICA_ASSIGNMENT unless `replicas` are `factor` different registered brokers."""
    if not replicas:
        raise _invalid("The manual partition assignment includes an empty replica list.")
    for broker, times in sorted(Counter(replicas).items()):
        if broker not in image.brokers:
            raise _invalid(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
        if times > 1:
            raise _invalid(f"The manual partition assignment includes the broker {broker} more than once.")
    if len(replicas) != factor:
        raise _invalid(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {factor} replica(s)."
        )


def new_partition(image: MetadataImage, topic_id: bytes, partition: int, replicas: Sequence[int]) -> PartitionRecord:
    """Return the record of a new partition: its ISR is the replicas on active brokers, and its leader one of them.

    KafkaError INVALID_REPLICA_ASSIGNMENT if none of the brokers is active.
    """
    isr = tuple(replica for replica in replicas if image.brokers[replica].active)
    if not isr:
        raise _invalid(
            f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in "
            "controlled shutdown."
        )
    state = PartitionImage(
        partition=partition,
        replicas=tuple(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(choose_directory(image.brokers[replica], topic_id, partition) for replica in replicas),
    )
    return partition_record(topic_id, state)


def choose_directory(broker: BrokerImage, topic_id: bytes, partition: int) -> bytes:
    """Return a directory of the broker: a topic's partitions take them in turn, from a random one on.

    A cordoned directory is used only if all are: a manual assignment can name such a broker. In Apache Kafka a broker
    with several directories chooses itself and reports its choice later (KIP-858).
    """
    directories = broker.open_directories or broker.directories
    if not directories:
        return DirectoryId.MIGRATING
    return directories[(topic_id[-1] + partition) % len(directories)]


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
