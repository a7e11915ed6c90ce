"""Records of `__consumer_offsets`: committed offsets, and the generations of classic groups.

A key starts with its type (int16), a value with the version that it was written in (int16). A key with a null value is
a tombstone. Subscriptions and assignments are opaque bytes here. The consumer group protocol (KIP-848) has record types
from 3 on, which are not declared.
"""

from __future__ import annotations

from struct import Struct
from typing import TypeVar

from protocol.primitives import VERSION_BYTES, Buffer, read_version
from protocol.schema import ZERO_UUID, Bytes, Int32, Int64, Message, String, Uuid, message, struct, wire

V = TypeVar("V", "OffsetCommitValue", "GroupMetadataValue")
_INT16 = Struct(">h")
_RECORD = "a record of __consumer_offsets"


@message(key=1, versions=(0, 0))
class OffsetCommitKey(Message):
    """A partition of a group."""

    group: String
    topic: String
    partition: Int32


@message(key=1, versions=(0, 4), flexible=4)
class OffsetCommitValue(Message):
    """The group's committed offset."""

    offset: Int64
    leader_epoch: Int32 = wire("3+", default=-1, ignorable=True)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = wire("1", default=-1, ignorable=True)
    topic_id: Uuid = wire("4+", default=ZERO_UUID, tag=0, ignorable=True)


@message(key=2, versions=(0, 0))
class GroupMetadataKey(Message):
    """A classic group."""

    group: String


@message(key=2, versions=(0, 4), flexible=4)
class GroupMetadataValue(Message):
    """A generation of a classic group, with its members."""

    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = wire("2+", default=-1, ignorable=True)
    members: list[MemberMetadata]

    @struct
    class MemberMetadata:
        member_id: String
        group_instance_id: String | None = wire("3+", default=None, ignorable=True)
        client_id: String
        client_host: String
        rebalance_timeout: Int32 = wire("1+", default=-1, ignorable=True)
        session_timeout: Int32
        subscription: Bytes
        assignment: Bytes


_KINDS: dict[int, type[OffsetCommitKey | GroupMetadataKey]] = {
    0: OffsetCommitKey,  # as written before Kafka 0.9, with the same fields
    1: OffsetCommitKey,
    2: GroupMetadataKey,
}


def encode_key(key: OffsetCommitKey | GroupMetadataKey) -> bytes:
    """Return a key's bytes."""
    return _INT16.pack(key.API_KEY) + key.encode(0)


def decode_key(data: Buffer) -> OffsetCommitKey | GroupMetadataKey | None:
    """Return the key, or None for an unknown type; DecodeError if it is damaged."""
    kind = _KINDS.get(read_version(data, _RECORD))
    return None if kind is None else kind.decode(data, 0, VERSION_BYTES)


def encode_value(value: OffsetCommitValue | GroupMetadataValue, version: int) -> bytes:
    """Return a value's bytes in `version`."""
    return _INT16.pack(version) + value.encode(version)


def decode_value(kind: type[V], data: Buffer) -> V:
    """Return a value of the type that its key implies; DecodeError if damaged or of an unknown version."""
    return kind.decode(data, read_version(data, _RECORD), VERSION_BYTES)
