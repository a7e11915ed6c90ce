"""The consumer protocol: subscriptions and assignments of a classic group's members (KIP-429, KIP-792, KIP-881).

Members exchange them in JoinGroup and SyncGroup; the first two bytes are the version (int16). The coordinator stores
them unread in GroupMetadataValue; `barnabas log dump` decodes them.
"""

from __future__ import annotations

from typing import TypeVar

from protocol.primitives import VERSION_BYTES, Buffer, read_version
from protocol.schema import Bytes, Int32, Message, String, message, struct, wire

PROTOCOL_TYPE = "consumer"
"""The protocol type of groups that use this protocol."""

V = TypeVar("V", bound=Message)


@message(versions=(0, 3))
class ConsumerProtocolSubscription(Message):
    """The topics that a member subscribes to, and the partitions that it owned in the last generation."""

    topics: list[String]
    user_data: Bytes | None = wire(default=None)
    owned_partitions: list[TopicPartition] = wire("1+", default=[], ignorable=True)
    generation_id: Int32 = wire("2+", default=-1, ignorable=True)
    rack_id: String | None = wire("3+", default=None, ignorable=True)

    @struct
    class TopicPartition:
        topic: String
        partitions: list[Int32]


@message(versions=(0, 3))
class ConsumerProtocolAssignment(Message):
    """The partitions assigned to a member."""

    assigned_partitions: list[TopicPartition]
    user_data: Bytes | None = wire(default=None)

    @struct
    class TopicPartition:
        topic: String
        partitions: list[Int32]


def decode_versioned(kind: type[V], data: Buffer) -> tuple[int, V]:
    """Return the version and the message; DecodeError if `data` is damaged or of an unknown version."""
    version = read_version(data, kind.__name__)
    return version, kind.decode(data, version, VERSION_BYTES)
