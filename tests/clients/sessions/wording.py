"""A request or a response as readable lines, in which values that differ between runs are replaced by names.

Names are assigned in the order in which the broker first sends the values: ``$topic-1`` is the first topic's id, in the
recorded session and in every replay of it. The values in a client's requests are translated by these names.
"""

from collections.abc import Callable, Iterator
from typing import Any

from protocol.api import ApiKey
from protocol.fields import fields_of
from protocol.record_batch import iter_batches, iter_records
from protocol.schema import Message, Struct

# Fields that the broker chooses at random, and the name of each.
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
# Fields that are left out: generated pages and other tests show them.
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
    """The names of the broker's values in one run."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def name(self, kind: str, value: Any) -> str:
        """Return the value's name; assign one if it has none."""
        for name, known in self.values.items():
            if known == value and name.startswith(f"${kind}-"):
                return name
        count = sum(name.startswith(f"${kind}-") for name in self.values)
        name = f"${kind}-{count + 1}"
        self.values[name] = value
        return name


def kind_of(field: str, value: Any) -> str | None:
    """Return the kind of name for a field's value, if any; empty values get none."""
    kind = CHOSEN.get(field)
    # A partition's leader is a broker id, and not random; a group's leader is a member.
    if kind is None or not value or value == bytes(16) or (kind == "member" and not isinstance(value, str)):
        return None
    return kind


def lines(message: Message, version: int, names: Names) -> list[str]:
    """Return the message's fields in ``version``, one line each, indented by nesting."""
    return list(_fields(message, version, message.API_KEY, names, "  "))


def _fields(struct: Struct, version: int, api: int | None, names: Names, indent: str) -> Iterator[str]:
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        # A tagged field with its default value is not sent.
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
    """Replace random values in a message by ``translated(kind, value)``; return whether any changed."""
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
