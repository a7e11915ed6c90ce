"""Every declared message and stored record, field by field, against Apache Kafka's definition of it."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.api import APIS
from protocol.fields import Field, default_struct, fields_of, parse_versions
from protocol.primitives import ZERO_UUID
from protocol.schema import Message
from tests.declared import declared_messages, versions_of
from tests.oracles.definitions import kafka_definitions

IMPLIED = {"string": "", "bytes": b"", "uuid": ZERO_UUID, "bool": False, "float64": 0.0, "records": None}


@pytest.fixture(scope="module")
def definitions() -> dict[str, dict[str, Any]]:
    return kafka_definitions()


@pytest.mark.parametrize("message", declared_messages(), ids=lambda message: message.__name__)
def test_a_message_is_declared_as_kafka_defines_it(
    message: type[Message], definitions: dict[str, dict[str, Any]]
) -> None:
    kafka = definitions[message.__name__]
    assert versions_of(message) == versions(kafka["validVersions"])
    assert kafka.get("apiKey") == message.API_KEY
    flexible = versions(kafka["flexibleVersions"])
    assert [v >= message.FLEXIBLE_FROM for v in versions_of(message)] == [v in flexible for v in versions_of(message)]
    commons = {common["name"]: common["fields"] for common in kafka.get("commonStructs", [])}
    assert ours(message, message) == theirs(kafka["fields"], versions_of(message), commons)


def test_the_api_table_is_kafkas(definitions: dict[str, dict[str, Any]]) -> None:
    requests = {
        definition["apiKey"]: definition
        for definition in definitions.values()
        if definition["type"] == "request" and definition["validVersions"] != "none"
    }
    assert set(requests) == set(APIS)
    for key, api in APIS.items():
        kafka = requests[key]
        valid, flexible = versions(kafka["validVersions"]), versions(kafka["flexibleVersions"])
        assert api.name + "Request" == kafka["name"]
        assert (api.min_version, api.max_version) == (valid[0], valid[-1] - kafka.get("latestVersionUnstable", False))
        assert [api.is_flexible(version) for version in valid] == [version in flexible for version in valid]
        assert set(api.listeners) == set(kafka["listeners"])


def ours(struct: type, message: type[Message], valid: range | None = None) -> list[tuple[Any, ...]]:
    """Return our fields as `described` returns them."""
    valid = versions_of(message) if valid is None else valid
    return [
        described(
            field.name,
            f"{'[]' if field.is_list else ''}{'struct' if field.struct else field.scalar}",
            valid,
            field.versions,
            field.nullable,
            field.tag,
            field.tagged,
            our_default(field),
            field.ignorable,
            ours(field.struct, message, both(valid, field.versions)) if field.struct else None,
        )
        for field in fields_of(struct)
    ]


def theirs(fields: list[dict[str, Any]], valid: range, commons: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the fields of a definition that exist in any of the `valid` versions, as `described` returns them."""
    result = []
    for field in fields:
        existing = versions(field.get("versions", field.get("taggedVersions")))  # type: ignore[arg-type]  # only this comes here
        if not both(valid, existing):
            continue
        kind = field["type"]
        base = kind.removeprefix("[]")
        inner = field.get("fields") or commons.get(base)
        result.append(
            described(
                field["name"],
                kind.replace(base, "struct") if inner else kind,
                valid,
                existing,
                versions(field.get("nullableVersions", "none")),
                field.get("tag"),
                versions(field.get("taggedVersions", "none")),
                their_default(field, is_struct=bool(inner)),
                field.get("ignorable", False),
                theirs(inner, both(valid, existing), commons) if inner else None,
            )
        )
    return result


def described(
    name: str,
    kind: str,
    valid: range,
    existing: range,
    nullable: range,
    tag: int | None,
    tagged: range,
    default: Any,
    ignorable: bool,
    inner: Any,
) -> tuple[Any, ...]:
    """Return the meaning of a field in the valid versions, independent of its notation."""
    existing = both(valid, existing)
    return (
        name.replace("_", "").lower(),
        kind.lower(),
        existing,
        both(existing, nullable),
        tag,
        both(existing, tagged),
        (type(default), default),
        # Only a field that some version lacks can be optional.
        ignorable and existing != valid,
        inner,
    )


def our_default(field: Field) -> Any:
    if field.struct and not field.is_list and field.default is not None:
        return "defaults" if field.default is default_struct(field.struct) else field.default
    return field.default


def their_default(field: dict[str, Any], *, is_struct: bool) -> Any:
    default, kind = field.get("default"), field["type"]
    if default == "null":
        return None
    if kind.startswith("[]"):
        return []
    if is_struct:
        return "defaults"
    if default is None:
        return IMPLIED.get(kind, 0)
    if kind == "bool":
        return str(default).lower() == "true"
    return default if kind == "string" else int(str(default), 0)


def versions(text: str) -> range:
    return range(0) if text == "none" else parse_versions(text)


def both(one: range, other: range) -> range:
    """Return the versions in both ranges; `range(0)` if there are none."""
    common = range(max(one.start, other.start), min(one.stop, other.stop))
    return common or range(0)
