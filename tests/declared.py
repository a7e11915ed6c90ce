"""Every declared message, random values for them, and a plain encoder to compare the compiled ones with.

The plain encoder walks a message field by field, shares no code with the compiler, and follows the protocol guide:
https://kafka.apache.org/protocol
"""

import pkgutil
import struct
from collections.abc import Iterator
from importlib import import_module
from random import Random
from typing import Any

import protocol.messages
import protocol.records
from protocol.fields import FIXED_FORMATS, Field, fields_of
from protocol.schema import Message

SIZED = {"String": "h", "Bytes": "i", "Records": "i"}
TEXTS = ("", "a", "orders-7", "Straße \N{SNOWMAN} \N{CLOWN FACE}", "x" * 126, "x" * 127, "y" * 300)


def declared_messages() -> list[type[Message]]:
    """Return the classes of all requests, responses and stored records, by name."""
    found = {
        value.__name__: value
        for package in (protocol.messages, protocol.records)
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + ".")
        for value in vars(import_module(module.name)).values()
        if isinstance(value, type) and issubclass(value, Message) and value is not Message
    }
    return [found[name] for name in sorted(found)]


def versions_of(message: type[Message]) -> range:
    """Return the declared versions of a message."""
    first, last = message.VERSIONS
    return range(first, last + 1)


def all_versions() -> list[tuple[type[Message], int]]:
    """Return each message with each of its versions."""
    return [(message, version) for message in declared_messages() for version in versions_of(message)]


def random_message(random: Random, message: type[Message], version: int) -> Any:
    """Return a message with a random value for each field of `version`."""
    return _random_struct(random, message, version)


def _random_struct(random: Random, declared: type, version: int) -> Any:
    values = {
        field.name: _random_value(random, field, version)
        for field in fields_of(declared)
        if version in field.versions and (version not in field.tagged or random.random() < 0.5)
    }
    required = {field.name: field.default for field in fields_of(declared) if field.required}
    return declared(**{**required, **values})


def _random_value(random: Random, field: Field, version: int) -> Any:
    if version in field.nullable and random.random() < 0.25:
        return None
    if field.is_list:
        count = random.choice((0, 1, 2, 3) if field.struct else (0, 1, 2, 127, 128))
        return [_random_one(random, field, version) for _ in range(count)]
    return _random_one(random, field, version)


def _random_one(random: Random, field: Field, version: int) -> Any:
    if field.struct:
        return _random_struct(random, field.struct, version)
    kind = field.scalar
    if kind == "Bool":
        return random.random() < 0.5
    if kind == "Float64":
        return random.choice((0.0, -2.5, 1e300))
    if kind == "Uuid":
        return random.choice((bytes(16), random.randbytes(16)))
    if kind == "String":
        return random.choice(TEXTS)
    if kind in SIZED:
        return random.randbytes(random.choice((0, 1, 61, 126, 127, 400)))
    bits = struct.calcsize(">" + FIXED_FORMATS[kind]) * 8
    lowest, highest = (0, 2**bits - 1) if kind.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return random.choice((0, 1, lowest, highest, random.randint(lowest, highest)))


def plain_encode(message: Message, version: int) -> bytes:
    """Encode field by field."""
    return b"".join(_write_struct(message, version, version >= message.FLEXIBLE_FROM))


def _write_struct(value: Any, version: int, flexible: bool) -> Iterator[bytes]:
    present = [field for field in fields_of(type(value)) if version in field.versions]
    for field in present:
        if version not in field.tagged:
            yield from _write(getattr(value, field.name), field, version, flexible)
    if flexible:
        tagged: dict[int, bytes] = {}
        for field in present:
            if version in field.tagged and getattr(value, field.name) != field.default:
                content = b"".join(_write(getattr(value, field.name), field, version, flexible))
                tagged[field.tag or 0] = _uvarint(field.tag) + _uvarint(len(content)) + content
        yield _uvarint(len(tagged)) + b"".join(tagged[tag] for tag in sorted(tagged))


def _write(value: Any, field: Field, version: int, flexible: bool) -> Iterator[bytes]:
    if field.is_list:
        yield _count(None if value is None else len(value), "i", flexible)
        for item in value or []:
            yield from _write_one(item, field, version, flexible)
    elif field.struct and version in field.nullable:
        yield b"\xff" if value is None else b"\x01"
        if value is not None:
            yield from _write_one(value, field, version, flexible)
    else:
        yield from _write_one(value, field, version, flexible)


def _write_one(value: Any, field: Field, version: int, flexible: bool) -> Iterator[bytes]:
    if field.struct:
        yield from _write_struct(value, version, flexible)
    elif field.scalar in FIXED_FORMATS:
        yield struct.pack(">" + FIXED_FORMATS[field.scalar], value)
    else:
        data = value.encode() if isinstance(value, str) else value
        yield _count(None if data is None else len(data), SIZED[field.scalar], flexible)
        yield data or b""


def _count(count: int | None, form: str, flexible: bool) -> bytes:
    if flexible:
        return _uvarint(0 if count is None else count + 1)
    return struct.pack(">" + form, -1 if count is None else count)


def _uvarint(value: int | None) -> bytes:
    assert value is not None
    return bytes([value]) if value < 128 else bytes([value % 128 + 128]) + _uvarint(value // 128)
