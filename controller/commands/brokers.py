"""Changes of a registered broker: fenced, unfenced, unregistered, directories failed or cordoned.

A fenced broker is registered, but leads nothing and is in no ISR. The partition changes come from
`controller.leader_and_isr_updates`, with the controller's static `settings` for configs that are not set.
`registration.py` registers brokers, `heartbeats.py` processes their heartbeats.
"""

from collections.abc import Collection, Mapping

from controller.commands.controller_result import ControllerResult
from controller.configs.effective import StaticSettings
from controller.image import BrokerImage, MetadataImage
from controller.leader_and_isr_updates import on_broker_unfenced, on_brokers_fenced, on_directory_failure
from controller.partition_change import DEFAULT_SETTINGS
from protocol.errors import ErrorCode, KafkaError
from protocol.records.metadata import BrokerRegistrationChangeRecord, UnregisterBrokerRecord
from protocol.schema import Message

# Values of BrokerRegistrationChangeRecord.fenced.
_UNFENCED, _FENCED = -1, 1


def fence_brokers(image: MetadataImage, epochs: Mapping[int, int], settings: StaticSettings) -> ControllerResult[None]:
    """Fence each broker that is unfenced and still in its epoch: its session expired (`broker_heartbeat_manager`)."""
    brokers = [image.brokers[broker_id] for broker_id in epochs if broker_id in image.brokers]
    gone = [broker for broker in brokers if not broker.fenced and broker.epoch == epochs[broker.broker_id]]
    return ControllerResult(tuple(fencing_records(image, gone, settings)), None)


def fencing_records(image: MetadataImage, brokers: Collection[BrokerImage], settings: StaticSettings) -> list[Message]:
    """Return the records that fence `brokers`, which are unfenced, as one change."""
    if not brokers:
        return []
    changes = on_brokers_fenced(image, [broker.broker_id for broker in brokers], settings)
    return changes + [
        BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=_FENCED)
        for broker in brokers
    ]


def unfence_broker(
    image: MetadataImage, broker_id: int, broker_epoch: int, settings: StaticSettings = DEFAULT_SETTINGS
) -> ControllerResult[None]:
    """Unfence a broker, and let it lead partitions that have no leader.

    KafkaError STALE_BROKER_EPOCH if it has registered again since, or is not registered.
    """
    broker = registered_broker(image, broker_id, broker_epoch)
    if not broker.fenced:
        return ControllerResult((), None)
    change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=_UNFENCED)
    return ControllerResult((change, *on_broker_unfenced(image, broker_id, settings)), None)


def cordon_directories(
    image: MetadataImage, broker_id: int, broker_epoch: int, directories: tuple[bytes, ...]
) -> ControllerResult[None]:
    """Set the broker's cordoned directories, which get no new replicas (KIP-1066).

    Errors as `unfence_broker`.
    """
    broker = registered_broker(image, broker_id, broker_epoch)
    if directories == (broker.cordoned_directories or ()):
        return ControllerResult((), None)
    change = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, cordoned_log_dirs=list(directories)
    )
    return ControllerResult((change,), None)


def take_directories_offline(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    directories: Collection[bytes],
    settings: StaticSettings = DEFAULT_SETTINGS,
) -> ControllerResult[None]:
    """Remove failed directories from a broker's registration, until it registers again.

    The broker leaves the ISRs of the partitions in them, and gets no new replicas there. If no directory would be left
    they stay registered: the broker will be fenced. Errors as `unfence_broker`.
    """
    broker = registered_broker(image, broker_id, broker_epoch)
    failed = [directory for directory in broker.directories if directory in directories]
    left = [directory for directory in broker.directories if directory not in directories]
    if not failed:
        return ControllerResult((), None)
    records = on_directory_failure(image, broker_id, failed, settings)
    if left:
        records.append(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, log_dirs=left))
    return ControllerResult(tuple(records), None)


def unregister_broker(
    image: MetadataImage, broker_id: int, settings: StaticSettings = DEFAULT_SETTINGS
) -> ControllerResult[None]:
    """Unregister a broker; other replicas lead what it led, if any can.

    KafkaError BROKER_ID_NOT_REGISTERED if it is not registered.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered")
    gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    return ControllerResult((*on_brokers_fenced(image, (broker_id,), settings), gone), None)


def registered_broker(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    """Return a broker in its current registration; errors as `unfence_broker`."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered")
    if broker.epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} is registered in epoch {broker.epoch}, not {broker_epoch}",
        )
    return broker
