"""Conversion of brokers, controllers, partitions and ACLs to their records, for commands and snapshots."""

from collections.abc import Iterable, Mapping

from controller.acls.acl import Acl
from controller.image import BrokerImage, ControllerImage, Endpoint, PartitionImage
from protocol.messages.broker_registration import RegisteredListener, SupportedFeature
from protocol.records.metadata import (
    AccessControlEntryRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)


def endpoints_of(listeners: Iterable[RegisteredListener]) -> dict[str, Endpoint]:
    """Return the endpoints in a record or request, by listener name."""
    return {point.name: Endpoint(point.host, point.port, point.security_protocol) for point in listeners}


def features_of(features: Iterable[SupportedFeature]) -> dict[str, tuple[int, int]]:
    """Return the lowest and highest supported level of each feature in a record or request."""
    return {one.name: (one.min_supported_version, one.max_supported_version) for one in features}


def listeners_from(endpoints: Mapping[str, Endpoint]) -> list[RegisteredListener]:
    """Return endpoints by listener name as a record or request has them."""
    return [
        RegisteredListener(name=name, host=point.host, port=point.port, security_protocol=point.security_protocol)
        for name, point in endpoints.items()
    ]


def features_from(features: Mapping[str, tuple[int, int]]) -> list[SupportedFeature]:
    """Return the lowest and highest supported level of each feature as a record or request has them."""
    return [
        SupportedFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in features.items()
    ]


def broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    """Return the registration record of a broker."""
    cordoned = broker.cordoned_directories
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=listeners_from(broker.endpoints),
        features=features_from(broker.features),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=None if cordoned is None else list(cordoned),
    )


def controller_record(controller: ControllerImage) -> RegisterControllerRecord:
    """Return the registration record of a controller; migration from ZooKeeper is not supported."""
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=False,
        end_points=listeners_from(controller.endpoints),
        features=features_from(controller.features),
    )


def partition_record(topic_id: bytes, partition: PartitionImage) -> PartitionRecord:
    """Return the record of a partition."""
    return PartitionRecord(
        partition_id=partition.partition,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        # Null if empty, as in Kafka.
        eligible_leader_replicas=list(partition.eligible_leader_replicas) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def acl_of(record: AccessControlEntryRecord) -> Acl:
    """Return the entry in a record."""
    return Acl(
        resource_type=record.resource_type,
        resource_name=record.resource_name,
        pattern_type=record.pattern_type,
        principal=record.principal,
        host=record.host,
        operation=record.operation,
        permission_type=record.permission_type,
    )


def acl_record(acl_id: bytes, acl: Acl) -> AccessControlEntryRecord:
    """Return the record of an entry."""
    return AccessControlEntryRecord(id=acl_id, **acl._asdict())
