"""A request or a response as lines to read, in which what differs from run to run has a name instead of its value.

Names are given in the order in which the broker first says the values: ``$topic-1`` is the first topic's id, in the
recorded session and in every replay of it. What a client says back is translated by these names.
"""

from collections.abc import Callable, Iterator
from typing import Any

from protocol.api import ApiKey
from protocol.fields import fields_of
from protocol.record_batch import iter_batches, iter_records
from protocol.schema import Message, Struct

# Fields that hold what the broker has chosen by chance, and what each is called.
CHOSEN = {
    "client_instance_id": "instance",
    "cluster_id": "cluster",
    "leader": "member",
    "member_id": "member",
    "port": "port",
    "session_id": "fetch-session",
    "subscription_id": "subscription",
    "topic_id": "topic",
}
# Fields that are a subject of their own, as generated pages and other tests tell it.
ELSEWHERE = {
    (ApiKey.API_VERSIONS, "api_keys"),
    (ApiKey.API_VERSIONS, "supported_features"),
    (ApiKey.API_VERSIONS, "finalized_features"),
    (ApiKey.API_VERSIONS, "finalized_features_epoch"),
    (ApiKey.CREATE_TOPICS, "configs"),
    (ApiKey.DESCRIBE_CONFIGS, "configs"),
}
MAX_BYTES = 60


class Names:
    """What the broker's values of one run are called."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def name(self, kind: str, value: Any) -> str:
        """Return the value's name, giving it one if it has none."""
        for name, known in self.values.items():
            if known == value and name.startswith(f"${kind}-"):
                return name
        count = sum(name.startswith(f"${kind}-") for name in self.values)
        name = f"${kind}-{count + 1}"
        self.values[name] = value
        return name


def kind_of(field: str, value: Any) -> str | None:
    """Return what kind of name a field's value is to have, if any; empty ones speak for themselves."""
    kind = CHOSEN.get(field)
    # A partition's leader is a broker's number, and not chosen; a group's leader is a member.
    if kind is None or not value or value == bytes(16) or (kind == "member" and not isinstance(value, str)):
        return None
    return kind


def lines(message: Message, version: int, names: Names) -> list[str]:
    """Return the message's fields in ``version``, a line each, indented as they nest."""
    return list(_fields(message, version, message.API_KEY, names, "  "))


def _fields(struct: Struct, version: int, api: int | None, names: Names, indent: str) -> Iterator[str]:
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        # A tagged field that has its default is not sent.
        if version not in field.versions or (version in field.tagged and value == field.default):
            continue
        if (api, field.name) in ELSEWHERE:
            yield f"{indent}{field.name}: ..."
        elif field.scalar == "Records":
            yield f"{indent}{field.name}:"
            yield from _records(value, indent + "  ")
        elif isinstance(value, Struct):
            yield f"{indent}{field.name}:"
            yield from _fields(value, version, api, names, indent + "  ")
        elif isinstance(value, list) and field.struct:
            yield f"{indent}{field.name}: {len(value)}"
            for item in value:
                first, *rest = _fields(item, version, api, names, "")
                yield f"{indent}- {first}"
                yield from (f"{indent}  {line}" for line in rest)
        else:
            kind = kind_of(field.name, value)
            yield f"{indent}{field.name}: {names.name(kind, value) if kind else _scalar(field.scalar, value)}"


def _scalar(scalar: str, value: Any) -> str:
    if scalar == "Uuid" and isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bytes) and len(value) > MAX_BYTES:
        return f"{value[:MAX_BYTES]!r} and {len(value) - MAX_BYTES} bytes more"
    return repr(value)


def _records(records: Any, indent: str) -> Iterator[str]:
    data = bytes(records or b"")
    for at, header in iter_batches(data):
        batch = data[at : at + header.size_bytes]
        yield (
            f"{indent}batch from {header.base_offset} to {header.last_offset}, {header.compression.name.lower()}, "
            f"producer {header.producer_id} epoch {header.producer_epoch} sequence {header.base_sequence}"
        )
        for record in iter_records(batch):
            value = None if record.value is None else record.value[:MAX_BYTES]
            yield f"{indent}  {record.offset} at {record.timestamp}: {record.key!r} {value!r} {list(record.headers)}"


def translate(struct: Struct, translated: Callable[[str, Any], Any]) -> bool:
    """Replace the chosen values in a message by what ``translated(kind, value)`` says; return whether any changed."""
    changed = False
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Struct):
                changed |= translate(item, translated)
        kind = kind_of(field.name, value)
        if kind is not None:
            new = translated(kind, value)
            changed |= new != value
            setattr(struct, field.name, new)
    return changed
