"""Brokers join, become available and leave.

A broker registers at each start with a new incarnation id, fenced: it is known, but leads nothing. Once it can serve
it is unfenced, and partitions that it is in sync for and nobody leads are given to it. The epoch of a registration is
the offset of its record, so that a later one is always larger (KIP-631). Whenever a leader changes, so does the leader
epoch; a broker that restarts therefore never leads on in an epoch that it may have lost records of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from controller.commands.decision import Decision
from controller.image import NO_LEADER, BrokerImage, Endpoint, MetadataImage, PartitionImage, TopicImage
from controller.image_builder import LEADER_UNCHANGED
from controller.placement import choose_leader
from controller.records import broker_record
from protocol.api import FEATURES
from protocol.errors import ErrorCode, KafkaError
from protocol.records.metadata import BrokerRegistrationChangeRecord, PartitionChangeRecord, UnregisterBrokerRecord
from protocol.schema import Message

_UNFENCED = -1


SUPPORTED_FEATURES = {name: (feature.min_level, feature.max_level) for name, feature in FEATURES.items()}


class Registration(NamedTuple):
    """What a broker says of itself when it starts."""

    broker_id: int
    incarnation_id: bytes
    endpoints: Mapping[str, Endpoint]
    directories: tuple[bytes, ...]
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = SUPPORTED_FEATURES


def register_broker(image: MetadataImage, registration: Registration) -> Decision[int]:
    """Register a broker, fenced; the response is its epoch.

    Of an earlier incarnation that was not fenced, what it led is led by others now, or by nobody. KafkaError
    UNSUPPORTED_VERSION if the cluster uses a feature at a level that this version of the broker does not know.
    """
    for name, level in image.features.items():
        low, high = registration.features.get(name, (0, 0))
        if not low <= level <= high:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the cluster has {name} at level {level}, broker {registration.broker_id} supports {low} to {high}",
            )
    broker = BrokerImage(
        broker_id=registration.broker_id,
        epoch=image.offset + 1,
        incarnation_id=registration.incarnation_id,
        endpoints=registration.endpoints,
        features=registration.features,
        rack=registration.rack,
        fenced=True,
        in_controlled_shutdown=False,
        directories=registration.directories,
    )
    return Decision((broker_record(broker), *_leaders_without(image, broker.broker_id)), broker.epoch)


def unfence_broker(image: MetadataImage, broker_id: int, broker_epoch: int) -> Decision[None]:
    """Let a broker serve, and lead what nobody else can.

    KafkaError STALE_BROKER_EPOCH if it has registered again since, BROKER_ID_NOT_REGISTERED if it is not known.
    """
    broker = registered(image, broker_id, broker_epoch)
    if broker.active:
        return Decision((), None)
    change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=_UNFENCED)
    return Decision((change, *_leaders_with(image, broker_id)), None)


def cordon_directories(
    image: MetadataImage, broker_id: int, broker_epoch: int, directories: tuple[bytes, ...]
) -> Decision[None]:
    """Place no new replicas in these directories of a broker, and again in its others (KIP-1066).

    Errors as `unfence_broker`.
    """
    broker = registered(image, broker_id, broker_epoch)
    if directories == (broker.cordoned_directories or ()):
        return Decision((), None)
    change = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, cordoned_log_dirs=list(directories)
    )
    return Decision((change,), None)


def lose_directories(
    image: MetadataImage, broker_id: int, broker_epoch: int, directories: Collection[bytes]
) -> Decision[None]:
    """Place no new replicas in these directories of a broker, which have failed, until it registers again.

    What is in them stays there. Nothing changes where no directory would be left. Errors as `unfence_broker`.
    """
    broker = registered(image, broker_id, broker_epoch)
    left = [directory for directory in broker.directories if directory not in directories]
    if not left or len(left) == len(broker.directories):
        return Decision((), None)
    return Decision(
        (BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, log_dirs=left),), None
    )


def unregister_broker(image: MetadataImage, broker_id: int) -> Decision[None]:
    """Forget a broker until it registers again; what it led is led by others, or by nobody.

    KafkaError BROKER_ID_NOT_REGISTERED if it is not known.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise _unknown(broker_id)
    gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    return Decision((*_leaders_without(image, broker_id), gone), None)


def registered(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    """Return a broker in its newest registration; errors as `unfence_broker`."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise _unknown(broker_id)
    if broker.epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} is registered in epoch {broker.epoch}, not {broker_epoch}",
        )
    return broker


def _unknown(broker_id: int) -> KafkaError:
    return KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered")


def _leaders_without(image: MetadataImage, broker_id: int) -> Iterator[Message]:
    """Yield the changes that take leadership and, where others remain, the place in the ISR from a broker."""

    def active(replica: int) -> bool:
        return replica != broker_id and image.is_active(replica)

    for topic, partition in _partitions(image):
        if broker_id not in partition.isr:
            continue
        others = [replica for replica in partition.isr if replica != broker_id]
        leader = partition.leader
        if leader == broker_id:
            leader = choose_leader(partition.replicas, partition.isr, active)
        if others or leader != partition.leader:
            yield PartitionChangeRecord(
                partition_id=partition.partition,
                topic_id=topic.topic_id,
                # The last replica in sync stays so even when it is gone: only it has every record.
                isr=others or None,
                leader=LEADER_UNCHANGED if leader == partition.leader else leader,
            )


def _leaders_with(image: MetadataImage, broker_id: int) -> Iterator[Message]:
    """Yield the changes that give a broker the partitions without a leader that it has every committed record of."""
    for topic, partition in _partitions(image):
        if partition.leader != NO_LEADER:
            continue
        change = PartitionChangeRecord(partition_id=partition.partition, topic_id=topic.topic_id, leader=broker_id)
        if broker_id in partition.isr:
            yield change
        elif broker_id in partition.eligible_leader_replicas:
            # Apache Kafka empties the ISR when its last broker stops, and remembers that one here (KIP-966).
            change.isr, change.eligible_leader_replicas, change.last_known_elr = [broker_id], [], []
            yield change


def _partitions(image: MetadataImage) -> Iterator[tuple[TopicImage, PartitionImage]]:
    for topic in image.topics():
        for partition in topic.partitions.values():
            yield topic, partition
