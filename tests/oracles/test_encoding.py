"""The bytes of every message in every version, and the error codes, against Apache Kafka's own classes."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.fields import Field, fields_of
from protocol.headers import RequestHeader, encode_request_header, response_prefix
from protocol.primitives import uuid_text
from protocol.schema import Message
from tests.declared import declared_messages, random_message, versions_of
from tests.oracles.apache_kafka import JVM, kafka_classpath
from tests.oracles.definitions import kafka_definitions

ENCODE = Path(__file__).parent / "java" / "Encode.java"
OF_EACH = 4
HEADERS = [
    {
        "name": "RequestHeader",
        "version": version,
        "message": {"requestApiKey": 1, "requestApiVersion": 10 + version, "correlationId": 7, "clientId": client_id},
    }
    for version in (1, 2)
    for client_id in (None, "me")
] + [{"name": "ResponseHeader", "version": version, "message": {"correlationId": 7}} for version in (0, 1)]


@pytest.fixture(scope="module")
def samples() -> list[tuple[Message, int]]:
    """Return a few arbitrary messages of each kind and version."""
    random = Random(20)
    return [
        (random_message(random, message, version), version)
        for message in declared_messages()
        for version in versions_of(message)
        for _ in range(OF_EACH)
    ]


@pytest.fixture(scope="module")
def kafka_says(samples: list[tuple[Message, int]]) -> tuple[list[str], list[str]]:
    """Return Kafka's error codes, and its bytes of the headers and the samples."""
    definitions = kafka_definitions()
    lines = [json.dumps(requested) for requested in HEADERS] + [
        json.dumps(
            {
                "name": type(message).__name__,
                "version": version,
                "message": as_json(message, names_of(definitions[type(message).__name__]), version),
            }
        )
        for message, version in samples
    ]
    command = [*JVM, "-cp", kafka_classpath(), str(ENCODE)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    errors, _, encoded = done.stdout.partition("\n\n")
    return errors.splitlines(), encoded.splitlines()


def test_messages_are_written_as_kafka_writes_them(
    samples: list[tuple[Message, int]], kafka_says: tuple[list[str], list[str]]
) -> None:
    encoded = kafka_says[1][len(HEADERS) :]
    assert len(encoded) == len(samples)
    for (message, version), theirs in zip(samples, encoded, strict=True):
        assert message.encode(version).hex() == theirs, (version, message)


def test_headers_are_written_as_kafka_writes_them(kafka_says: tuple[list[str], list[str]]) -> None:
    ours = [
        encode_request_header(RequestHeader(ApiKey.FETCH, 10 + version, 7, client_id))
        for version in (1, 2)
        for client_id in (None, "me")
    ] + [response_prefix(ApiKey.FETCH, version, 7) for version in (11, 12)]
    assert [header.hex() for header in ours] == kafka_says[1][: len(HEADERS)]


def test_the_errors_are_kafkas(kafka_says: tuple[list[str], list[str]]) -> None:
    errors, _ = kafka_says
    ours = [f"{code.value} {code.name} {str(code.retriable).lower()}" for code in ErrorCode]
    assert sorted(ours) == sorted(errors)


def as_json(value: Any, names: Mapping[str, str], version: int) -> dict[str, Any]:
    """Return a message in the form that Kafka's JSON converters read."""
    return {
        names[field.name.replace("_", "")]: one_as_json(getattr(value, field.name), field, names, version)
        for field in fields_of(type(value))
        if version in field.versions
    }


def one_as_json(value: Any, field: Field, names: Mapping[str, str], version: int) -> Any:
    if isinstance(value, list):
        return [one_as_json(item, field, names, version) for item in value]
    if value is None:
        return None
    if field.struct:
        return as_json(value, names, version)
    if field.scalar == "Uuid":
        return uuid_text(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def names_of(definition: dict[str, Any]) -> dict[str, str]:
    """Return Kafka's names of all fields in a definition, keyed by their letters alone."""
    names = {}
    for holder in (definition, *definition.get("commonStructs", [])):
        for field in holder["fields"]:
            names[field["name"].lower()] = field["name"][0].lower() + field["name"][1:]
            if "fields" in field:
                names |= names_of(field)
    return names
