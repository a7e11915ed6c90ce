"""Brokers become available, and leave: fenced and unfenced, forgotten, with fewer directories than before.

A fenced broker is known, but leads nothing and is in sync for nothing. What becomes of the partitions is decided in
`controller.elections`, by the controller's `settings` where nothing else is set. How brokers join is the business of
`registration.py`, how they say what they want that of `heartbeats.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controller.commands.controller_result import Decision
from controller.configs.effective import StaticSettings
from controller.elections import on_broker_unfenced, on_brokers_fenced, on_directory_failure
from controller.image import BrokerImage, MetadataImage
from controller.partition_change import DEFAULT_SETTINGS
from protocol.errors import ErrorCode, KafkaError
from protocol.records.metadata import BrokerRegistrationChangeRecord, UnregisterBrokerRecord
from protocol.schema import Message

# What BrokerRegistrationChangeRecord.fenced says.
_UNFENCED, _FENCED = -1, 1


def fence_brokers(image: MetadataImage, epochs: Mapping[int, int], settings: StaticSettings) -> Decision[None]:
    """Fence brokers, each if it is active in this epoch still: they have not been heard (`controller.liveness`)."""
    brokers = [image.brokers[broker_id] for broker_id in epochs if broker_id in image.brokers]
    gone = [broker for broker in brokers if not broker.fenced and broker.epoch == epochs[broker.broker_id]]
    return Decision(tuple(fencing_records(image, gone, settings)), None)


def fencing_records(image: MetadataImage, brokers: Collection[BrokerImage], settings: StaticSettings) -> list[Message]:
    """Return the records that fence `brokers`, which are not; they all leave together."""
    if not brokers:
        return []
    changes = on_brokers_fenced(image, [broker.broker_id for broker in brokers], settings)
    return changes + [
        BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=_FENCED)
        for broker in brokers
    ]


def unfence_broker(
    image: MetadataImage, broker_id: int, broker_epoch: int, settings: StaticSettings = DEFAULT_SETTINGS
) -> Decision[None]:
    """Let a broker serve, and lead what nobody else can.

    KafkaError STALE_BROKER_EPOCH if it has registered again since, BROKER_ID_NOT_REGISTERED if it is not known.
    """
    broker = registered(image, broker_id, broker_epoch)
    if not broker.fenced:
        return Decision((), None)
    change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=_UNFENCED)
    return Decision((change, *on_broker_unfenced(image, broker_id, settings)), None)


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
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    directories: Collection[bytes],
    settings: StaticSettings = DEFAULT_SETTINGS,
) -> Decision[None]:
    """Do without these directories of a broker, which have failed, until it registers again.

    It leaves the ISRs of the partitions in them, and gets no new replicas there. Where no directory would be left, they
    stay registered: it will be fenced. Errors as `unfence_broker`.
    """
    broker = registered(image, broker_id, broker_epoch)
    failed = [directory for directory in broker.directories if directory in directories]
    left = [directory for directory in broker.directories if directory not in directories]
    if not failed:
        return Decision((), None)
    records = on_directory_failure(image, broker_id, failed, settings)
    if left:
        records.append(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, log_dirs=left))
    return Decision(tuple(records), None)


def unregister_broker(
    image: MetadataImage, broker_id: int, settings: StaticSettings = DEFAULT_SETTINGS
) -> Decision[None]:
    """Forget a broker until it registers again; what it led is led by others, or by nobody.

    KafkaError BROKER_ID_NOT_REGISTERED if it is not known.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise _unknown(broker_id)
    gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    return Decision((*on_brokers_fenced(image, (broker_id,), settings), gone), None)


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
