"""Records of the metadata log and of its snapshots (KIP-500, KIP-631).

A record's value is a frame: the frame's version (1), the record's key and the record's version as unsigned varints,
then the record. Which version is written depends on metadata.version; at 4.3-IV0 it is the highest of each.
`control.py` has the control records of that log.
"""

from __future__ import annotations

from protocol.errors import DecodeError
from protocol.messages.broker_registration import RegisteredListener, SupportedFeature
from protocol.primitives import Buffer, put_uvarint, read_uvarint
from protocol.schema import (
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Uuid,
    message,
    struct,
    wire,
)


@message(key=0, versions=(0, 4), flexible=0)
class RegisterBrokerRecord(Message):
    """A broker registered, with a new epoch."""

    broker_id: Int32
    is_migrating_zk_broker: Bool = wire("2+", default=False)
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: list[RegisteredListener]
    features: list[SupportedFeature]
    rack: String | None
    fenced: Bool = wire(default=True)
    in_controlled_shutdown: Bool = wire("1+", default=False)
    log_dirs: list[Uuid] = wire("3+", default=[], tag=0)
    cordoned_log_dirs: list[Uuid] | None = wire("4+", default=None, tag=1)


@message(key=1, versions=(0, 0), flexible=0)
class UnregisterBrokerRecord(Message):
    """A broker was unregistered."""

    broker_id: Int32
    broker_epoch: Int64


@message(key=2, versions=(0, 0), flexible=0)
class TopicRecord(Message):
    """A topic was created."""

    name: String
    topic_id: Uuid


@message(key=3, versions=(0, 2), flexible=0)
class PartitionRecord(Message):
    """A partition was created; in a snapshot, its whole state."""

    partition_id: Int32 = wire(default=-1)
    topic_id: Uuid
    replicas: list[Int32]
    isr: list[Int32]
    removing_replicas: list[Int32]
    adding_replicas: list[Int32]
    leader: Int32 = wire(default=-1)
    leader_recovery_state: Int8 = wire(default=0, tag=0)
    leader_epoch: Int32 = wire(default=-1)
    partition_epoch: Int32 = wire(default=-1)
    directories: list[Uuid] = wire("1+", default=[])
    eligible_leader_replicas: list[Int32] | None = wire("2+", default=None, tag=1)
    last_known_elr: list[Int32] | None = wire("2+", default=None, tag=2)


@message(key=4, versions=(0, 0), flexible=0)
class ConfigRecord(Message):
    """A dynamic setting of a resource was set; null removes it."""

    resource_type: Int8
    resource_name: String
    name: String
    value: String | None


@message(key=5, versions=(0, 2), flexible=0)
class PartitionChangeRecord(Message):
    """A partition changed: the fields that are not at their defaults."""

    partition_id: Int32 = wire(default=-1)
    topic_id: Uuid
    isr: list[Int32] | None = wire(default=None, tag=0)
    leader: Int32 = wire(default=-2, tag=1)
    replicas: list[Int32] | None = wire(default=None, tag=2)
    removing_replicas: list[Int32] | None = wire(default=None, tag=3)
    adding_replicas: list[Int32] | None = wire(default=None, tag=4)
    leader_recovery_state: Int8 = wire(default=-1, tag=5)
    directories: list[Uuid] | None = wire("1+", default=None, tag=8)
    eligible_leader_replicas: list[Int32] | None = wire("2+", default=None, tag=6)
    last_known_elr: list[Int32] | None = wire("2+", default=None, tag=7)


@message(key=7, versions=(0, 0), flexible=0)
class FenceBrokerRecord(Message):
    """A broker was fenced."""

    id: Int32
    epoch: Int64


@message(key=8, versions=(0, 0), flexible=0)
class UnfenceBrokerRecord(Message):
    """A broker was unfenced."""

    id: Int32
    epoch: Int64


@message(key=9, versions=(0, 0), flexible=0)
class RemoveTopicRecord(Message):
    """A topic was deleted."""

    topic_id: Uuid


@message(key=10, versions=(0, 0), flexible=0)
class DelegationTokenRecord(Message):
    """A delegation token was issued or renewed."""

    owner: String
    requester: String
    renewers: list[String]
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: String


@message(key=11, versions=(0, 0), flexible=0)
class UserScramCredentialRecord(Message):
    """A user's SCRAM credential was set."""

    name: String
    mechanism: Int8
    salt: Bytes
    stored_key: Bytes
    server_key: Bytes
    iterations: Int32


@message(key=12, versions=(0, 0), flexible=0)
class FeatureLevelRecord(Message):
    """A feature was finalized at a level; 0 removes it."""

    name: String
    feature_level: Int16


@message(key=14, versions=(0, 0), flexible=0)
class ClientQuotaRecord(Message):
    """A client quota was set or removed."""

    entity: list[Entity]
    key: String
    value: Float64
    remove: Bool

    @struct
    class Entity:
        entity_type: String
        entity_name: String | None


@message(key=15, versions=(0, 0), flexible=0)
class ProducerIdsRecord(Message):
    """Producer ids below `next_producer_id` are allocated."""

    broker_id: Int32
    broker_epoch: Int64 = wire(default=-1)
    next_producer_id: Int64


@message(key=17, versions=(0, 3), flexible=0)
class BrokerRegistrationChangeRecord(Message):
    """A registered broker was fenced, unfenced, began a controlled shutdown, or changed its directories."""

    broker_id: Int32
    broker_epoch: Int64
    fenced: Int8 = wire(default=0, tag=0)
    in_controlled_shutdown: Int8 = wire("1+", default=0, tag=1)
    log_dirs: list[Uuid] = wire("2+", default=[], tag=2)
    cordoned_log_dirs: list[Uuid] | None = wire("3+", default=None, tag=3)


@message(key=18, versions=(0, 0), flexible=0)
class AccessControlEntryRecord(Message):
    """An access control entry was added."""

    id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(key=19, versions=(0, 0), flexible=0)
class RemoveAccessControlEntryRecord(Message):
    """An access control entry was removed."""

    id: Uuid


@message(key=20, versions=(0, 0), flexible=0)
class NoOpRecord(Message):
    """No change; written so that the high watermark advances (KIP-835)."""


@message(key=21, versions=(0, 0), flexible=0)
class ZkMigrationStateRecord(Message):
    """The state of a migration from ZooKeeper."""

    zk_migration_state: Int8


@message(key=22, versions=(0, 0), flexible=0)
class RemoveUserScramCredentialRecord(Message):
    """A user's SCRAM credential was removed."""

    name: String
    mechanism: Int8


@message(key=23, versions=(0, 0), flexible=0)
class BeginTransactionRecord(Message):
    """Begins a metadata transaction, whose records are applied together (KIP-868)."""

    name: String | None = wire(default=None, tag=0)


@message(key=24, versions=(0, 0), flexible=0)
class EndTransactionRecord(Message):
    """Commits a metadata transaction."""


@message(key=25, versions=(0, 0), flexible=0)
class AbortTransactionRecord(Message):
    """Aborts a metadata transaction."""

    reason: String | None = wire(default=None, tag=0)


@message(key=26, versions=(0, 0), flexible=0)
class RemoveDelegationTokenRecord(Message):
    """A delegation token was removed."""

    token_id: String


@message(key=27, versions=(0, 0), flexible=0)
class RegisterControllerRecord(Message):
    """A controller registered."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    end_points: list[RegisteredListener]
    features: list[SupportedFeature]


@message(key=28, versions=(0, 0), flexible=0)
class ClearElrRecord(Message):
    """The eligible leader replicas of one topic, or of all, were cleared."""

    topic_name: String


_FRAME_VERSION = 1
_BY_KEY: dict[int, type[Message]] = {
    declared.API_KEY: declared
    for declared in list(globals().values())
    if isinstance(declared, type) and issubclass(declared, Message) and declared.API_KEY is not None
}


def encode_metadata_record(record: Message, version: int | None = None) -> bytes:
    """Return the frame of a record, by default in its highest version."""
    if version is None:
        version = record.VERSIONS[1]
    frame = bytearray()
    for number in (_FRAME_VERSION, record.API_KEY or 0, version):
        put_uvarint(frame, number)
    return bytes(frame) + record.encode(version)


def decode_metadata_record(value: Buffer) -> Message:
    """Return the record in a frame; DecodeError if it is damaged, or of an unknown kind or version."""
    try:
        frame_version, at = read_uvarint(value, 0)
        key, at = read_uvarint(value, at)
        version, at = read_uvarint(value, at)
    except IndexError:
        raise DecodeError("the frame of a metadata record ends early") from None
    if frame_version != _FRAME_VERSION:
        raise DecodeError(f"metadata record in a frame of unknown version {frame_version}")
    kind = _BY_KEY.get(key)
    if kind is None:
        raise DecodeError(f"unknown metadata record {key}")
    return kind.decode(value, version, at)
