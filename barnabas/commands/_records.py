"""Records as JSON, one a line: what `consume --json` prints, `produce --json` reads back exactly.

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1700000000000, "timestamp_type": "create",
     "key": null, "value": "text", "headers": [{"key": "name", "value": {"base64": "/w=="}}]}

Keys, values and header values are null, a string if they are UTF-8, else `{"base64": ...}`. `produce` also reads the
JSON of kcat -J (`payload`, `ts`, headers in one flat list) and of rpk. A record without `timestamp` gets the time of
sending, one without `partition` is partitioned by key. A record without a value is refused.
"""

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from barnabas.commands._output import CommandError

Headers = list[tuple[str, bytes | None]]
TIMESTAMP_TYPES = {0: "create", 1: "append"}
NO_TIMESTAMP = -1


class NewRecord(NamedTuple):
    """A record to produce; None lets the producer choose, except for key and value."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    topic: str | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


def to_json(record: Any, meta_only: bool = False) -> bytes:
    """Return a consumed record as a line of JSON; with `meta_only`, with the value's size in place of the value."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": TIMESTAMP_TYPES.get(record.timestamp_type, "none"),
        "key": _encode(record.key),
    }
    if meta_only:
        fields["value_size"] = None if record.value is None else len(record.value)
    else:
        fields["value"] = _encode(record.value)
    fields["headers"] = [{"key": name, "value": _encode(value)} for name, value in record.headers]
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def from_json(line: bytes) -> NewRecord:
    """Return the record of a line of JSON."""
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise CommandError(f"invalid JSON at column {error.colno}: {error.msg}") from error
    except ValueError as error:
        raise CommandError("invalid JSON: it is not in UTF-8") from error
    if not isinstance(fields, dict):
        raise CommandError("a record is a JSON object")
    if "value" not in fields and "payload" not in fields:  # a typo must not become a tombstone
        raise CommandError("it has no value; use null for a tombstone")
    return NewRecord(
        key=_decode(fields.get("key"), "key"),
        value=_decode(fields.get("value", fields.get("payload")), "value"),
        headers=_headers(fields.get("headers") or []),
        topic=_checked(fields.get("topic"), str, "topic"),
        partition=_checked(fields.get("partition"), int, "partition"),
        timestamp_ms=_checked(fields.get("timestamp", fields.get("ts")), int, "timestamp"),
    )


def _encode(field: bytes | None) -> Any:
    if field is None:
        return None
    try:
        return field.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(field).decode()}


def _decode(field: Any, what: str) -> bytes | None:
    if field is None:
        return None
    try:
        if isinstance(field, str):
            return field.encode()
        if isinstance(field, dict) and list(field) == ["base64"]:
            return base64.b64decode(field["base64"], validate=True)
    except (UnicodeEncodeError, binascii.Error, TypeError, ValueError) as error:
        raise CommandError(f"{what}: {error}") from error
    raise CommandError(f'{what}: write null, a string or {{"base64": "..."}}')


def _headers(found: Any) -> Headers:
    if isinstance(found, dict):
        pairs: Iterable[tuple[Any, Any]] = found.items()
    elif isinstance(found, list) and all(isinstance(one, dict) for one in found):
        pairs = [(one.get("key"), one.get("value")) for one in found]
    elif isinstance(found, list) and len(found) % 2 == 0:
        pairs = zip(found[::2], found[1::2], strict=True)
    else:
        raise CommandError('headers: write [{"key": "name", "value": ...}, ...]')
    headers: Headers = []
    for name, value in pairs:
        if not isinstance(name, str):
            raise CommandError("headers: a header's key is a string")
        headers.append((name, _decode(value, f"header {name}")))
    return headers


def _checked(value: Any, kind: type, what: str) -> Any:
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise CommandError(f"{what}: write a {'number' if kind is int else 'string'}")
    return value
