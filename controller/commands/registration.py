"""Registration of brokers and controllers at their start (KIP-631, KIP-858, KIP-966; Kafka: `ClusterControlManager`).

A broker registers at each start with a new incarnation id and is fenced: registered, but leading nothing. The broker
epoch is the offset of the registration's record, so a later one is always larger. Registering the same incarnation
again, as after a lost response, updates the registration and keeps epoch and state.

A new incarnation ends the previous one: it leaves all ISRs. If it names the epoch of its previous run, stored at a
clean shutdown (`.kafka_cleanshutdown`), it has every record that it wrote and stays in the ELRs; else it may have lost
unsynced records and leaves them too (KIP-966). Naming the epoch also proves that the previous run has ended although
its session may last, as after a stop of the whole cluster; Apache Kafka waits for the session's end.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from controller.commands.bootstrap import METADATA_VERSION
from controller.commands.controller_result import ControllerResult
from controller.configs.effective import StaticSettings
from controller.image import BrokerImage, ControllerImage, MetadataImage
from controller.leader_and_isr_updates import on_brokers_fenced, on_unclean_restart
from controller.partition_change import DEFAULT_SETTINGS
from controller.records import broker_record, controller_record, endpoints_of, features_of
from protocol.api import FEATURES
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from protocol.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse

SUPPORTED_FEATURES = {name: (feature.min_level, feature.max_level) for name, feature in FEATURES.items()}

# Lower directory ids are reserved (KIP-858).
_FIRST_DIRECTORY = (100).to_bytes(16, "big")


def register_broker(
    image: MetadataImage, request: BrokerRegistrationRequest, settings: StaticSettings, *, alive: Collection[int] = ()
) -> ControllerResult[BrokerRegistrationResponse]:
    """Register a broker as fenced, or update its registration; the response has its epoch.

    `alive` are the brokers whose session lasts (`BrokerHeartbeatManager.alive`). KafkaError INCONSISTENT_CLUSTER_ID for
    a broker of another cluster; DUPLICATE_BROKER_REGISTRATION while another incarnation is alive whose epoch the
    request does not name; BROKER_ID_NOT_REGISTERED for a migrating ZooKeeper broker; INVALID_REGISTRATION for invalid
    directories, or without metadata.version; UNSUPPORTED_VERSION if it does not support the cluster's level of a
    feature.
    """
    if request.cluster_id != image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f"the cluster is {image.cluster_id}, not {request.cluster_id}"
        )
    broker_id = request.broker_id
    existing = image.brokers.get(broker_id)
    same_incarnation = existing is not None and existing.incarnation_id == request.incarnation_id
    clean_restart = existing is not None and existing.epoch == request.previous_broker_epoch
    if existing is not None and not (same_incarnation or clean_restart) and broker_id in alive:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"another broker {broker_id} is alive; if it has just stopped, its session expires soon",
        )
    if request.is_migrating_zk_broker:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "migration from ZooKeeper is not supported")
    _check_directories(image, request)
    _check_features(image, request)
    if existing is not None and same_incarnation:
        amended = _updated(request, existing)
        records = () if amended == existing else (broker_record(amended),)
        return ControllerResult(records, BrokerRegistrationResponse(broker_epoch=existing.epoch))
    new = _updated(
        request,
        BrokerImage(
            broker_id=broker_id,
            epoch=image.offset + 1,
            incarnation_id=request.incarnation_id,
            endpoints={},
            features={},
            rack=None,
            fenced=True,
            in_controlled_shutdown=False,
            directories=(),
        ),
    )
    if clean_restart:
        changes = on_brokers_fenced(image, (broker_id,), settings)
    else:
        changes = on_unclean_restart(image, broker_id, settings)
    return ControllerResult((broker_record(new), *changes), BrokerRegistrationResponse(broker_epoch=new.epoch))


def register_controller(
    image: MetadataImage, request: ControllerRegistrationRequest, _settings: StaticSettings = DEFAULT_SETTINGS
) -> ControllerResult[ControllerRegistrationResponse]:
    """Store a controller's endpoints and supported features (KIP-919), for tools and for changes of feature levels."""
    from protocol.messages.controller_registration import ControllerRegistrationResponse  # not needed at the start

    controller = ControllerImage(
        request.controller_id, request.incarnation_id, endpoints_of(request.listeners), features_of(request.features)
    )
    known = image.controllers.get(controller.controller_id) == controller
    response = ControllerRegistrationResponse(error_message=None)
    return ControllerResult(() if known else (controller_record(controller),), response)


def _updated(request: BrokerRegistrationRequest, broker: BrokerImage) -> BrokerImage:
    """Return `broker` with the values of the request."""
    return broker._replace(
        endpoints=endpoints_of(request.listeners),
        features=features_of(request.features),
        rack=request.rack,
        directories=tuple(request.log_dirs),
    )


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    directories = request.log_dirs
    if not directories:
        raise _invalid("no directories")
    if min(directories) < _FIRST_DIRECTORY:
        raise _invalid("a reserved directory id")
    if len(set(directories)) < len(directories):
        raise _invalid("a duplicate directory id")
    for other in image.brokers.values():
        if other.broker_id != request.broker_id and not set(directories).isdisjoint(other.directories):
            raise _invalid(f"a directory of broker {other.broker_id}")


def _check_features(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    known = features_of(request.features)
    for name, levels in known.items():
        _check_feature(image, request.broker_id, name, levels)
    if METADATA_VERSION not in known:
        raise _invalid(f"no {METADATA_VERSION} among its features")
    for name in image.features.keys() - known.keys():
        _check_feature(image, request.broker_id, name, (0, 0))


def _check_feature(image: MetadataImage, broker_id: int, name: str, supported: tuple[int, int]) -> None:
    low, high = supported
    level = image.features.get(name, 0)
    # A cluster without metadata.version is not bootstrapped yet; its first leader will set a level that it supports.
    is_bootstrapped = level > 0 or name != METADATA_VERSION
    if is_bootstrapped and not low <= level <= high:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the cluster has {name} at level {level}, broker {broker_id} supports {low} to {high}",
        )


def _invalid(problem: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGISTRATION, f"invalid registration: {problem}")
