"""Formats of record values: JSON, Avro and Protobuf, by schemas from files, with the reason if a value is malformed.

    schema files -> load (on the driver) -> Format (sent to the executors) -> decoder -> value, or Malformed

JSON is checked against a JSON Schema, if there is one: jsonschema-rs. Avro is the binary encoding without a file
header: fastavro. A Protobuf schema is a .proto file, which grpcio-tools compiles, or a descriptor set of `protoc
--include_imports --descriptor_set_out`. With `prefix="confluent"`, a value begins with Confluent's wire format: a byte
0, the schema's id as four bytes, and for Protobuf the indexes of the message in its file.

The libraries come with the extra `formats`; executors need those of their format.
"""

from __future__ import annotations

import argparse
import json
import struct
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from spark_jobs.errors import JobError, NotInstalled
from spark_jobs.options import option

FORMATS = ("json", "avro", "protobuf")
PREFIXES = ("none", "confluent")
MAX_REASON = 500
MAGIC = 0
PREFIX = struct.Struct(">bI")
PROTO = ".proto"

Decoder = Callable[[bytes], Any]


class Malformed(ValueError):  # noqa: N818 - a verdict on a value
    """A value that is not of its format or schema; the text is the reason, of at most MAX_REASON characters."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason if len(reason) <= MAX_REASON else reason[: MAX_REASON - 3] + "...")


@dataclass(frozen=True)
class SchemaFile:
    """A schema's file; with an id, it is the schema of values that have this id in their prefix."""

    path: str
    id: int | None = None


def schema_file(text: str) -> SchemaFile:
    """Return the schema file of FILE or ID=FILE."""
    number, equals, path = text.partition("=")
    if equals and number.isdecimal():
        return SchemaFile(path, int(number))
    if not text:
        raise argparse.ArgumentTypeError("write FILE or ID=FILE")
    return SchemaFile(text)


@dataclass(frozen=True, kw_only=True)
class FormatOptions:
    """The format of record values."""

    format: str = option("format of the value", default="json", choices=FORMATS)
    schema: tuple[SchemaFile, ...] = option(
        "the schema: JSON Schema (optional), Avro's JSON, .proto or a descriptor set; ID=FILE for an id of the prefix; "
        "may be repeated",
        metavar="[ID=]FILE",
        parse=schema_file,
        repeated=True,
    )
    message: str = option("full name of the Protobuf message (default: the only one)", default="", metavar="NAME")
    prefix: str = option("what values begin with: none, or Confluent's schema id", default="none", choices=PREFIXES)
    unknown_fields: str = option(
        "whether a Protobuf value may have fields that its schema lacks", default="accept", choices=("accept", "reject")
    )


@dataclass(frozen=True)
class Format:
    """A format with the contents of its schemas, as they are sent to executors.

    `schemas` has pairs of schema id and contents; the id is None for a schema of values with any id or none.
    """

    name: str
    schemas: tuple[tuple[int | None, bytes], ...] = ()
    message: str = ""
    prefix: str = "none"
    unknown_fields: str = "accept"


def load(options: FormatOptions) -> Format:
    """Return the format with its schemas read, compiled and checked.

    Raise JobError if a file is missing or is not a schema, or a library is not installed.
    """
    _check_ids(options)
    schemas = tuple((file.id, _contents(options.format, file.path)) for file in options.schema)
    made = Format(options.format, schemas, options.message, options.prefix, options.unknown_fields)
    for file, (_, contents) in zip(options.schema, schemas, strict=True):
        _schema_decoder(made, contents, file.path)
    return made


@lru_cache(maxsize=16)
def decoder(form: Format) -> Decoder:
    """Return a function that returns the decoded value of bytes, and raises Malformed with the reason otherwise."""
    decoders = {key: _schema_decoder(form, contents, "the schema") for key, contents in form.schemas}
    if form.name == "json" and not decoders:
        decoders = {None: _json_decoder(None)}
    if form.prefix == "none":
        plain = decoders[None]
        return lambda value: plain(value, 0)
    return lambda value: _decode_prefixed(value, decoders)


def reason(form: Format, value: bytes | None) -> str | None:
    """Return why a value is malformed, None if it is not; a null value is not."""
    if value is None:
        return None
    try:
        decoder(form)(bytes(value))
    except Malformed as error:
        return str(error)
    return None


# A decoder of one schema is given the whole value, and the position behind the id of the schema.
SchemaDecoder = Callable[[bytes, int], Any]


def _check_ids(options: FormatOptions) -> None:
    if options.format != "json" and not options.schema:
        raise JobError(f"{options.format} needs a schema: name its file by --schema FILE")
    ids = [file.id for file in options.schema]
    if options.prefix == "none" and ids not in ([], [None]):
        raise JobError("without --prefix confluent values have no schema id: name one file by --schema FILE")
    if len(set(ids)) < len(ids):
        raise JobError("two --schema files have the same id; write --schema ID=FILE for each, with the schema's id")


def _decode_prefixed(value: bytes, decoders: Mapping[int | None, SchemaDecoder]) -> Any:
    if len(value) < PREFIX.size:
        raise Malformed(f"{len(value)} bytes: too short for Confluent's prefix of {PREFIX.size}")
    magic, found = PREFIX.unpack_from(value)
    if magic != MAGIC:
        raise Malformed(f"the first byte is {value[0]}: Confluent's prefix begins with 0")
    chosen = decoders.get(found) or decoders.get(None)
    if chosen is None:
        raise Malformed(f"schema id {found} is not one of {', '.join(map(str, sorted(filter(None, decoders))))}")
    return chosen(value, PREFIX.size)


def _contents(name: str, path: str) -> bytes:
    if name == "protobuf" and path.endswith(PROTO):
        return _compiled(path)
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise JobError(f"the schema {path} cannot be read: {error.strerror}; correct --schema") from None


def _schema_decoder(form: Format, contents: bytes, path: str) -> SchemaDecoder:
    if form.name == "protobuf":
        return _protobuf_decoder(form, contents, path)
    try:
        schema = json.loads(contents)
    except ValueError as error:
        raise JobError(f"{path} is not JSON: {error}; correct it, or --schema") from None
    return _json_decoder(schema, path) if form.name == "json" else _avro_decoder(schema, path)


def _json_decoder(schema: Any, path: str = "") -> SchemaDecoder:
    validate = _json_validator(schema, path) if schema is not None else None

    def decode(value: bytes, start: int) -> Any:
        try:
            found = json.loads(value[start:].decode("utf-8"), parse_constant=_refuse_constant)
        except UnicodeDecodeError as error:
            raise Malformed(f"not UTF-8: {error.reason} at byte {start + error.start}") from None
        except RecursionError:
            raise Malformed("invalid JSON: nested too deeply") from None
        except ValueError as error:
            raise Malformed(f"invalid JSON: {error}") from None
        if validate is not None:
            validate(found)
        return found

    return decode


def _json_validator(schema: Any, path: str) -> Callable[[Any], None]:
    library = _library("jsonschema_rs", "jsonschema-rs")
    try:
        validator = library.validator_for(schema, validate_formats=True)
    except (library.ValidationError, ValueError) as error:
        raise JobError(f"{path} is not a JSON Schema: {_first_line(error)}; correct it, or --schema") from None

    def validate(found: Any) -> None:
        try:
            validator.validate(found)
        except library.ValidationError as error:
            where = "".join(f"/{step}" for step in error.instance_path)
            raise Malformed(f"{where}: {error.message}" if where else str(error.message)) from None

    return validate


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _avro_decoder(schema: Any, path: str) -> SchemaDecoder:
    library = _library("fastavro", "fastavro")
    from io import BytesIO

    from fastavro.schema import SchemaParseException, UnknownType

    try:
        parsed = library.parse_schema(schema)
    except (SchemaParseException, UnknownType, KeyError, TypeError, ValueError) as error:
        raise JobError(f"{path} is not an Avro schema: {_first_line(error)}; correct it, or --schema") from None

    def decode(value: bytes, start: int) -> Any:
        stream = BytesIO(value)
        stream.seek(start)
        try:
            found = library.schemaless_reader(stream, parsed, None)
        except Exception as error:  # the reader checks little: what it meets depends on the bytes
            raise Malformed(f"not of the Avro schema: {_first_line(error) or 'the value ends too early'}") from None
        if left := len(value) - stream.tell():
            raise Malformed(f"not of the Avro schema: {left} bytes are left behind the record")
        return found

    return decode


def _compiled(path: str) -> bytes:
    """Return the descriptor set of a .proto file and of what it imports from its folder."""
    _library("grpc_tools", "grpcio-tools")
    import subprocess
    import sys

    if not Path(path).is_file():
        raise JobError(f"the schema {path} cannot be read: No such file or directory; correct --schema")
    source = Path(path)
    with tempfile.TemporaryDirectory() as made:
        output = f"{made}/descriptors"
        command = [*(sys.executable, "-m", "grpc_tools.protoc"), f"-I{source.parent}", "--include_imports"]
        done = subprocess.run(  # noqa: S603 - its messages go to a stream of the process
            [*command, f"--descriptor_set_out={output}", source.name], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise JobError(f"the schema {path} does not compile: {_first_line(done.stderr)}; correct it, or --schema")
        return Path(output).read_bytes()


def _protobuf_decoder(form: Format, contents: bytes, path: str) -> SchemaDecoder:
    _library("google.protobuf", "protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError

    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(contents).file
        for file in files:
            pool.Add(file)
        main = pool.FindFileByName(files[-1].name)
    except (DecodeError, TypeError, IndexError, KeyError) as error:
        raise JobError(
            f"{path} is not a descriptor set: {_first_line(error)}; name a .proto file, or write the set by protoc "
            "--include_imports --descriptor_set_out"
        ) from None
    by_name: dict[str, Any] = {}
    for message in _messages(list(main.message_types_by_name.values())):
        by_name[message.full_name] = message_factory.GetMessageClass(message)
    if form.message and form.message not in by_name:
        raise JobError(f"{path} has no message {form.message}; name one by --message: {', '.join(sorted(by_name))}")
    top = [message.full_name for message in main.message_types_by_name.values()]
    if form.prefix == "none" and not form.message and len(top) != 1:
        raise JobError(f"{path} has {len(top)} messages; name one by --message: {', '.join(sorted(by_name))}")

    def decode(value: bytes, start: int) -> Any:
        name = form.message or top[0]
        if start:
            found, start = _indexed_message(main, value, start)
            if form.message and found != name:
                raise Malformed(f"the message is {found}, not {name}")
            name = found
        try:
            message = by_name[name].FromString(value[start:])
        except DecodeError as error:
            raise Malformed(f"not of the Protobuf schema: {_first_line(error)}") from None
        if not message.IsInitialized():
            raise Malformed(f"required fields are missing: {', '.join(message.FindInitializationErrors())}")
        if form.unknown_fields == "reject" and (where := _unknown_field(message)):
            raise Malformed(f"the schema has no field {where}")
        return message

    return decode


def _messages(messages: Iterable[Any]) -> Iterable[Any]:
    for message in messages:
        yield message
        yield from _messages(_declared(message))


def _declared(message: Any) -> list[Any]:
    """Return the messages that are declared in a message, without the entries of its maps."""
    return [nested for nested in message.nested_types if not nested.GetOptions().map_entry]


def _indexed_message(file: Any, value: bytes, start: int) -> tuple[str, int]:
    """Return the full name of the message that the indexes at `start` select, and the position behind them."""
    count, at = _zigzag(value, start)
    path = [0]
    if count:
        path = []
        for _ in range(count):
            index, at = _zigzag(value, at)
            path.append(index)
    messages = list(file.message_types_by_name.values())
    message = None
    for index in path:
        if not 0 <= index < len(messages):
            raise Malformed(f"the schema has no message with the indexes {path}")
        message = messages[index]
        messages = _declared(message)
    if message is None:
        raise Malformed("the prefix has a negative number of indexes")
    return str(message.full_name), at


def _zigzag(value: bytes, start: int) -> tuple[int, int]:
    number = shift = 0
    for at in range(start, min(start + 5, len(value))):
        number |= (value[at] & 0x7F) << shift
        if value[at] < 0x80:
            return (number >> 1) ^ -(number & 1), at + 1
        shift += 7
    raise Malformed("the indexes of the message do not end")


def _unknown_field(message: Any) -> str:
    """Return the number of a field that the schema does not have, with the message's name; empty without one."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    for unknown in UnknownFieldSet(message):
        return f"{unknown.field_number} in {message.DESCRIPTOR.full_name}"
    for field, content in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            inner = [one for one in content.values() if hasattr(one, "ListFields")]
        else:
            inner = [content] if hasattr(content, "ListFields") else list(content)
        for one in inner:
            if found := _unknown_field(one):
                return found
    return ""


def _library(module: str, package: str) -> ModuleType:
    import importlib

    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise NotInstalled(f"{package} is not installed: pip install 'barnabas[formats]'") from None


def _first_line(error: object) -> str:
    return str(error).strip().partition("\n")[0]
