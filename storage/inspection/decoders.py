"""Decodes records that brokers write: committed offsets, transactions, metadata, control records.

Values become JSON types under the names of Kafka's own tools (`DumpLogSegments`, `*JsonConverter`). The topic selects
the decoder.
"""

import re
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from protocol.errors import DecodeError
from protocol.fields import fields_of
from protocol.primitives import Buffer, uuid_text
from protocol.record import Record
from protocol.record_batch import ControlType, control_type
from protocol.records.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_versioned,
)
from protocol.records.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from protocol.records.metadata import decode_metadata_record
from protocol.records.offsets import GroupMetadataKey, GroupMetadataValue, OffsetCommitValue, decode_key, decode_value
from protocol.records.transactions import (
    TRANSACTION_STATUS,
    TransactionLogValue,
    decode_transaction_key,
    decode_transaction_value,
)
from protocol.schema import Message, Struct
from storage.log.names import METADATA_TOPIC

Decoded = dict[str, Any]
Decoder = Callable[[Record], Decoded]

_CONTROL: dict[ControlType, type[Message]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}


def decoder_of(topic: str) -> str:
    """Return the name of the decoder for a topic's records."""
    topics = {"__consumer_offsets": "offsets", "__transaction_state": "transactions", METADATA_TOPIC: "metadata"}
    return topics.get(topic, "raw")


def decode(name: str, record: Record, *, is_control: bool) -> Decoded:
    """Return a record's key and value, decoded; DecodeError or KafkaError for invalid ones."""
    return _control(record) if is_control else DECODERS[name](record)


def raw(record: Record) -> Decoded:
    """Return key and value as text if they are UTF-8, otherwise in base64."""
    return {"key": text_of(record.key), "value": text_of(record.value)}


def text_of(data: bytes | None) -> Any:
    """Return bytes as `barnabas consume --json` prints them."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _control(record: Record) -> Decoded:
    kind = control_type(record.key)
    if kind is None:
        return {"key": {"type": "UNKNOWN"}, "value": text_of(record.value)}
    key = {"type": kind.name}
    if record.value is None or len(record.value) < 2:
        raise DecodeError(f"control record {kind.name}: truncated value")
    version = int.from_bytes(record.value[:2], "big")
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        if len(record.value) < 6:
            raise DecodeError("truncated value of a transaction marker")
        data: Any = {"coordinatorEpoch": int.from_bytes(record.value[2:6], "big", signed=True)}
    else:
        data = plain(_CONTROL[kind].decode(record.value, version), version)
    return {"key": key, "value": {"version": version, "data": data}}


def _metadata(record: Record) -> Decoded:
    if record.value is None:
        raise DecodeError("a metadata record without a value")
    decoded = decode_metadata_record(record.value)
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(decoded).__name__).upper()
    version = record.value[2]  # frame version and record key take one byte each while they are at most 127
    return {"key": text_of(record.key), "value": {"type": name, "version": version, "data": plain(decoded, version)}}


def _offsets(record: Record) -> Decoded:
    if record.key is None:
        raise DecodeError("a record without a key")
    key = decode_key(record.key)
    if key is None:
        return raw(record)
    value = None
    if record.value is not None:
        data = record.value
        if isinstance(key, GroupMetadataKey):
            value = _group(data, decode_value(GroupMetadataValue, data))
        else:
            value = _versioned(data, decode_value(OffsetCommitValue, data))
    return {"key": {"type": key.API_KEY, "data": plain(key, 0)}, "value": value}


def _group(data: bytes, value: GroupMetadataValue) -> Decoded:
    """Return a generation of a classic group; with the members' subscriptions and assignments if they are consumers."""
    decoded = _versioned(data, value)
    if value.protocol_type == PROTOCOL_TYPE:
        for shown, member in zip(decoded["data"]["members"], value.members, strict=True):
            shown["subscription"] = _member_part(ConsumerProtocolSubscription, member.subscription)
            shown["assignment"] = _member_part(ConsumerProtocolAssignment, member.assignment)
    return decoded


def _member_part(kind: type[ConsumerProtocolSubscription] | type[ConsumerProtocolAssignment], data: Buffer) -> Any:
    """Return a member's subscription or assignment, or the bytes if they are not in the consumer protocol."""
    try:
        version, found = decode_versioned(kind, data)
    except DecodeError:
        return plain(data, 0)
    return {"version": version, **plain(found, version)}


def _transactions(record: Record) -> Decoded:
    if record.key is None:
        raise DecodeError("a record without a key")
    key = decode_transaction_key(record.key)
    if key is None:
        return raw(record)
    value = None if record.value is None else _transaction(record.value, decode_transaction_value(record.value))
    return {"key": {"type": key.API_KEY, "data": plain(key, 0)}, "value": value}


def _transaction(data: bytes, value: TransactionLogValue) -> Decoded:
    """Return the state of a transactional id, with the state's name, which Kafka's tool does not print."""
    decoded = _versioned(data, value)
    status = value.transaction_status
    decoded["data"]["transactionState"] = TRANSACTION_STATUS.get(status, f"unknown ({status})")
    return decoded


def _versioned(data: bytes, value: Message) -> Decoded:
    version = int.from_bytes(data[:2], "big")
    return {"version": version, "data": plain(value, version)}


def plain(value: Any, version: int) -> Any:
    """Return a struct as JSON types: the fields of `version`, with names and uuids as Kafka writes them."""
    if isinstance(value, Struct):
        return {
            field.json_name: _uuid_or_plain(field.scalar, getattr(value, field.name), version)
            for field in fields_of(type(value))
            if version in field.versions
        }
    if isinstance(value, list):
        return [plain(item, version) for item in value]
    return _bytes_of(bytes(value)) if isinstance(value, bytes | bytearray | memoryview) else value


def _bytes_of(data: bytes) -> Any:
    """Return the bytes of a field as text if they are printable, otherwise in base64."""
    text = text_of(data)
    return text if not isinstance(text, str) or text.isprintable() else {"base64": b64encode(data).decode()}


def _uuid_or_plain(kind: str | None, value: Any, version: int) -> Any:
    if kind == "Uuid" and value is not None:
        return [uuid_text(one) for one in value] if isinstance(value, list) else uuid_text(value)
    return plain(value, version)


DECODERS: dict[str, Decoder] = {"raw": raw, "offsets": _offsets, "transactions": _transactions, "metadata": _metadata}
