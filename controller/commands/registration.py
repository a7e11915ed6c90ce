"""Brokers say what they are when they start (KIP-631, KIP-858, KIP-966).

A broker registers at each start with a new incarnation id, fenced: it is known, but leads nothing. The epoch of a
registration is the offset of its record, so that a later one is always larger. To say the same again, as after an
answer that was lost, amends the registration and leaves epoch and state.

A new incarnation ends the one before: it is in sync for nothing. If it names the epoch that its last run had when it
stopped in order (`.kafka_cleanshutdown`), it has all that it wrote, and stays eligible where it was; else it may have
lost what was not synced, and is not (KIP-966). To name the epoch is also to say that the run before is over, whose
session may last still, as after a stop of the whole cluster; Apache Kafka waits for the end of the session.
"""

from __future__ import annotations

from collections.abc import Collection

from controller.commands.bootstrap import METADATA_VERSION
from controller.commands.controller_result import Decision
from controller.configs.effective import StaticSettings
from controller.elections import on_brokers_fenced, on_unclean_restart
from controller.image import BrokerImage, MetadataImage
from controller.records import broker_record, endpoints_of, features_of
from protocol.api import FEATURES
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

SUPPORTED_FEATURES = {name: (feature.min_level, feature.max_level) for name, feature in FEATURES.items()}

# Directory ids below say something other than where a replica lies (KIP-858).
_FIRST_DIRECTORY = (100).to_bytes(16, "big")


def register_broker(
    image: MetadataImage, request: BrokerRegistrationRequest, settings: StaticSettings, *, alive: Collection[int] = ()
) -> Decision[BrokerRegistrationResponse]:
    """Register a broker, fenced, or amend its registration; the response has its epoch.

    `alive` are the brokers whose session lasts (`Liveness.alive`). KafkaError INCONSISTENT_CLUSTER_ID for a broker of
    another cluster; DUPLICATE_BROKER_REGISTRATION while another incarnation is alive that this one is not known to
    follow; BROKER_ID_NOT_REGISTERED for one
    that comes from ZooKeeper; INVALID_REGISTRATION for directories that cannot be its own, and without
    metadata.version; UNSUPPORTED_VERSION if it does not know a feature at the level that the cluster has.
    """
    if request.cluster_id != image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f"the cluster is {image.cluster_id}, not {request.cluster_id}"
        )
    broker_id = request.broker_id
    existing = image.brokers.get(broker_id)
    amends = existing is not None and existing.incarnation_id == request.incarnation_id
    follows = existing is not None and existing.epoch == request.previous_broker_epoch
    if existing is not None and not (amends or follows) and broker_id in alive:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"another broker {broker_id} is alive; one that has just stopped will not be for long",
        )
    if request.is_migrating_zk_broker:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "brokers do not come from ZooKeeper any more")
    _check_directories(image, request)
    _check_features(image, request)
    if existing is not None and amends:
        amended = _said(request, existing)
        records = () if amended == existing else (broker_record(amended),)
        return Decision(records, BrokerRegistrationResponse(broker_epoch=existing.epoch))
    new = _said(
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
    if follows:
        changes = on_brokers_fenced(image, (broker_id,), settings)
    else:
        changes = on_unclean_restart(image, broker_id, settings)
    return Decision((broker_record(new), *changes), BrokerRegistrationResponse(broker_epoch=new.epoch))


def _said(request: BrokerRegistrationRequest, broker: BrokerImage) -> BrokerImage:
    """Return `broker` with what the request says of it."""
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
        raise _invalid("a reserved id as a directory's")
    if len(set(directories)) < len(directories):
        raise _invalid("one directory id twice")
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
    # A cluster without a metadata.version has not begun; it will, with one that its first leader knows.
    begun = level > 0 or name != METADATA_VERSION
    if begun and not low <= level <= high:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the cluster has {name} at level {level}, broker {broker_id} supports {low} to {high}",
        )


def _invalid(problem: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGISTRATION, f"the broker registers with {problem}")
