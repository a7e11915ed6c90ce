"""Records as tests write and read them."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

Data: TypeAlias = str | bytes | None
"""A key or value; text stands for its UTF-8 bytes."""


class TopicRecord(NamedTuple):
    """A record of a topic."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def __str__(self) -> str:
        key = "" if self.key is None else f"{_shown(self.key)} = "
        return f"{self.partition}@{self.offset}: {key}{_shown(self.value)}"


class Position(NamedTuple):
    """The place of a record in its topic."""

    partition: int
    offset: int


NewRecord: TypeAlias = Data | tuple[Data, Data] | Mapping[str, Any] | TopicRecord
"""A record to produce: a value; a key and a value; a dict with some of the fields of `RecordFields`; or a record that
was read, of which the offset is ignored."""


class RecordFields(NamedTuple):
    """The fields of a record to produce; without a partition the key chooses one."""

    key: bytes | None = None
    value: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def fields_of(record: NewRecord) -> RecordFields:
    """Return the fields of a record to produce; TypeError for anything else."""
    if record is None or isinstance(record, str | bytes):
        return RecordFields(value=_bytes(record))
    if isinstance(record, TopicRecord):
        return RecordFields(record.key, record.value, record.partition, record.timestamp_ms, record.headers)
    if isinstance(record, Mapping):
        unknown = sorted(set(record) - set(RecordFields._fields))
        if unknown:
            raise TypeError(f"a record has no field {unknown[0]!r}; it has {', '.join(RecordFields._fields)}")
        headers = record.get("headers") or ()
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return RecordFields(
            _bytes(record.get("key")),
            _bytes(record.get("value")),
            record.get("partition"),
            record.get("timestamp_ms"),
            tuple((name, _bytes(value)) for name, value in pairs),
        )
    if isinstance(record, tuple) and len(record) == 2:
        return RecordFields(_bytes(record[0]), _bytes(record[1]))
    raise TypeError(f"{record!r} is no record: write a value, (key, value), or a dict with key and value")


def to_json(record: RecordFields) -> dict[str, Any]:
    """Return a record, without its partition, as the control API takes it."""
    found: dict[str, Any] = {"key": _encoded(record.key), "value": _encoded(record.value)}
    if record.timestamp_ms is not None:
        found["timestamp_ms"] = record.timestamp_ms
    if record.headers:
        found["headers"] = [{"key": name, "value": _encoded(value)} for name, value in record.headers]
    return found


def from_json(record: Mapping[str, Any]) -> TopicRecord:
    """Return a record as the control API gives it."""
    headers = tuple((one["key"], _decoded(one["value"])) for one in record["headers"])
    key, value = _decoded(record["key"]), _decoded(record["value"])
    return TopicRecord(record["partition"], record["offset"], record["timestamp_ms"], key, value, headers)


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition that the default partitioner of Kafka's clients chooses for a key."""
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    """Return the 32-bit MurmurHash2 of `data`, with the seed of `org.apache.kafka.common.utils.Utils`."""
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    found = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * multiplier & mask
        word = (word ^ (word >> 24)) * multiplier & mask
        found = (found * multiplier & mask) ^ word
    if rest := data[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * multiplier & mask
    found = (found ^ (found >> 13)) * multiplier & mask
    return found ^ (found >> 15)


def listing(records: Sequence[TopicRecord], most: int = 10) -> str:
    """Return the last records as text, for messages."""
    left_out = [f"({len(records) - most} earlier ones)"] if len(records) > most else []
    return ", ".join([*left_out, *map(str, records[-most:])]) or "none"


def _bytes(data: Data) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return data.encode()
    raise TypeError(f"{data!r} is neither text nor bytes nor None; serialize it first")


def _encoded(data: bytes | None) -> str | dict[str, str] | None:
    """Return data as JSON: text, or an object with base64 for bytes that are no text."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _decoded(data: str | Mapping[str, str] | None) -> bytes | None:
    if data is None or isinstance(data, str):
        return None if data is None else data.encode()
    return b64decode(data["base64"])


def _shown(data: bytes | None) -> str:
    if data is None:
        return "null"
    try:
        return repr(data.decode())
    except UnicodeDecodeError:
        return repr(data)
