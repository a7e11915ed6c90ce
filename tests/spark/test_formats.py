"""Formats: what is decoded, why values are malformed, and what schemas that are none are answered with."""

import json
import struct
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.errors import JobError
from spark_jobs.formats import Format, FormatOptions, SchemaFile, decoder, load, reason, schema_file

JSON_SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}},
    "required": ["id"],
}
AVRO_SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}
PROTO = """
syntax = "proto3";
package shop;
import "item.proto";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1; string note = 2; repeated Item items = 3; google.protobuf.Timestamp at = 4; map<string, Item> by = 5;
  message Line { int32 number = 1; }
}
message Refund { int64 order = 7; }
"""
ITEM = 'syntax = "proto3"; package shop; message Item { string name = 1; }'
TOO_LARGE = (
    "invalid JSON: Exceeds the limit (4300 digits) for integer string conversion: value has 5000 digits; "
    "use sys.set_int_max_str_digits() to increase the limit"
)
REQUIRED = 'syntax = "proto2"; message Old { required int32 id = 1; }'


def load_files(name: str, *files: tuple[str, str | bytes], ids: tuple[int, ...] = (), **changes: str) -> Format:
    """Return the format of schema files, of which the last ones are those of --schema, with ids if there are any."""
    folder = Path(mkdtemp())
    for file, text in files:
        (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    chosen = files[-max(1, len(ids)) :]
    schema = tuple(SchemaFile(str(folder / name), ids[at] if ids else None) for at, (name, _) in enumerate(chosen))
    return load(FormatOptions(format=name, schema=schema, **changes))


@cache
def json_format() -> Format:
    return load_files("json", ("order.json", json.dumps(JSON_SCHEMA)))


@cache
def avro_format() -> Format:
    return load_files("avro", ("order.avsc", json.dumps(AVRO_SCHEMA)))


@cache
def protobuf_format(**changes: Any) -> Format:
    return load_files("protobuf", ("item.proto", ITEM), ("order.proto", PROTO), **{"message": "shop.Order"} | changes)


def avro(**fields: object) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(AVRO_SCHEMA), fields)
    return stream.getvalue()


@cache
def message(name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    [(_, contents)] = protobuf_format().schemas
    for file in descriptor_pb2.FileDescriptorSet.FromString(contents).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def prefixed(number: int, value: bytes) -> bytes:
    return struct.pack(">bI", 0, number) + value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b'{"id": 1, "at": "2026-01-01T00:00:00Z"}', None),
        (b' {"id": 1}\n', None),
        (b'{"id": "1"}', '/id: "1" is not of type "integer"'),
        (b'{"id": 1, "at": "noon"}', '/at: "noon" is not a "date-time"'),
        (b"{}", '"id" is a required property'),
        (b"[]", '[] is not of type "object"'),
        (b"", "invalid JSON: Expecting value: line 1 column 1 (char 0)"),
        (b'{"id": 1} 2', "invalid JSON: Extra data: line 1 column 11 (char 10)"),
        (b'{"id": NaN}', "invalid JSON: NaN is not a JSON number"),
        (b'{"id": "\xff"}', "not UTF-8: invalid start byte at byte 8"),
        ('{"id": 1}'.encode("utf-16"), "not UTF-8: invalid start byte at byte 0"),
        (b"[" * 100_000, "invalid JSON: nested too deeply"),
        (b'{"id": ' + b"9" * 5000 + b"}", TOO_LARGE),
        (None, None),
    ],
)
def test_json_values(value: bytes | None, why: str | None) -> None:
    assert reason(json_format(), value) == why


def test_json_without_a_schema_is_only_parsed() -> None:
    form = load(FormatOptions())
    assert reason(form, b"5") is None
    assert reason(form, b"{") is not None


def test_reasons_are_short() -> None:
    why = reason(json_format(), json.dumps({"id": "x" * 10_000}).encode())
    assert why is not None
    assert len(why) == 500
    assert why.endswith("...")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (avro(id=1, note=None), None),
        (avro(id=-(2**60), note="x"), None),
        (avro(id=1, note="x")[:-1], "not of the Avro schema: "),
        (avro(id=1, note="x") + b"!", "not of the Avro schema: 1 bytes are left behind the record"),
        (b"", "not of the Avro schema: the value ends too early"),
        (b"\x02\x02\x02\xff", "not of the Avro schema: 'utf-8' codec can't decode"),
    ],
)
def test_avro_values(value: bytes, why: str | None) -> None:
    found = reason(avro_format(), value)
    assert found == why if why is None else found is not None and found.startswith(why)


def test_protobuf_values() -> None:
    order = message("shop.Order")(id=5, note="x", items=[{"name": "a"}])
    order.by["b"].name = "c"
    good = order.SerializeToString()
    assert decoder(protobuf_format())(good).items[0].name == "a"
    assert reason(protobuf_format(), b"") is None
    assert "Wire format was corrupt" in (reason(protobuf_format(), good[:-1]) or "")
    refund = message("shop.Refund")(order=5).SerializeToString()
    assert reason(protobuf_format(), refund) is None
    strict = protobuf_format(unknown_fields="reject")
    assert reason(strict, good) is None
    assert reason(strict, refund) == "the schema has no field 7 in shop.Order"
    inner = message("shop.Order")()
    inner.items.add().MergeFromString(refund)
    assert reason(strict, inner.SerializeToString()) == "the schema has no field 7 in shop.Item"
    mapped = message("shop.Order")()
    mapped.by["b"].MergeFromString(refund)
    assert reason(strict, mapped.SerializeToString()) == "the schema has no field 7 in shop.Item"


def test_required_fields_of_protobuf_are_required() -> None:
    form = load_files("protobuf", ("old.proto", REQUIRED))
    assert reason(form, b"\x08\x01") is None
    assert reason(form, b"") == "required fields are missing: id"


def test_a_descriptor_set_is_a_schema_too() -> None:
    [(_, contents)] = protobuf_format().schemas
    form = load_files("protobuf", ("order.desc", contents), message="shop.Order.Line")
    assert decoder(form)(b"\x08\x07").number == 7


def test_the_prefix_names_the_schema_of_a_value() -> None:
    other = json.dumps({**AVRO_SCHEMA, "fields": [{"name": "total", "type": "double"}]})
    form = load_files(
        "avro", ("order.avsc", json.dumps(AVRO_SCHEMA)), ("total.avsc", other), ids=(7, 300), prefix="confluent"
    )
    assert decoder(form)(prefixed(7, avro(id=1, note=None))) == {"id": 1, "note": None}
    assert decoder(form)(prefixed(300, struct.pack("<d", 1.5))) == {"total": 1.5}
    assert reason(form, prefixed(8, b"")) == "schema id 8 is not one of 7, 300"
    assert reason(form, b"\x00\x00") == "2 bytes: too short for Confluent's prefix of 5"
    assert reason(form, b"{}    ") == "the first byte is 123: Confluent's prefix begins with 0"
    any_id = load_files("json", ("order.json", json.dumps(JSON_SCHEMA)), prefix="confluent")
    assert decoder(any_id)(prefixed(2**32 - 1, b'{"id": 1}')) == {"id": 1}


@pytest.mark.parametrize(
    ("indexes", "found"),
    [
        (b"\x00", "shop.Order"),
        (b"\x02\x00", "shop.Order"),
        (b"\x02\x02", "shop.Refund"),
        (b"\x04\x00\x00", "shop.Order.Line"),
        (b"\x02\x08", "the schema has no message with the indexes [4]"),
        (b"\x02\x01", "the schema has no message with the indexes [-1]"),
        (b"\x01", "the prefix has a negative number of indexes"),
        (b"\xff\xff\xff\xff\xff", "the indexes of the message do not end"),
        (b"", "the indexes of the message do not end"),
    ],
)
def test_the_prefix_names_the_message_of_a_protobuf_value(indexes: bytes, found: str) -> None:
    form = protobuf_format(prefix="confluent", message="")
    value = prefixed(1, indexes)
    if found.startswith("shop"):
        assert decoder(form)(value).DESCRIPTOR.full_name == found
    else:
        assert reason(form, value) == found


def test_a_value_of_another_message_is_malformed() -> None:
    form = protobuf_format(prefix="confluent")
    assert reason(form, prefixed(1, b"\x02\x02")) == "the message is shop.Refund, not shop.Order"


@pytest.mark.parametrize(
    ("name", "files", "changes", "message"),
    [
        ("avro", (), {}, "avro needs a schema: name its file by --schema FILE"),
        ("json", ("absent.json",), {}, "absent.json cannot be read: No such file or directory; correct --schema"),
        ("protobuf", ("absent.proto",), {}, "absent.proto cannot be read: No such file"),
        ("json", ("{",), {}, "is not JSON: Expecting property name"),
        ("json", ('{"type": "nonsense"}',), {}, "is not a JSON Schema: "),
        ("avro", ('{"type": "nonsense"}',), {}, "is not an Avro schema: .*nonsense"),
        ("avro", ('{"type": "record", "name": "x"}5',), {}, "is not JSON"),
        ("avro", ("5",), {}, "is not an Avro schema"),
        ("protobuf", ("hello world",), {}, "is not a descriptor set"),
        ("protobuf", ("",), {}, "is not a descriptor set"),
        ("json", ("{}", "{}"), {}, "name one file by --schema FILE"),
        ("json", ("{}", "{}"), {"prefix": "confluent"}, "two --schema files have the same id"),
    ],
)
def test_schemas_that_are_none_are_named(
    tmp_path: Path, name: str, files: tuple[str, ...], changes: dict[str, str], message: str
) -> None:
    paths = []
    for number, text in enumerate(files):
        path = tmp_path / (text if text.startswith("absent") else f"{number}.schema")
        if not text.startswith("absent"):
            path.write_text(text)
        paths.append(SchemaFile(str(path)))
    with pytest.raises(JobError, match=message):
        load(FormatOptions(format=name, schema=tuple(paths), **changes))


def test_protobuf_schemas_that_are_none_are_named() -> None:
    with pytest.raises(JobError, match=r"does not compile: .*order.proto:3:1: .* correct it"):
        load_files("protobuf", ("order.proto", 'syntax = "proto3";\n\nmesage X {}'))
    with pytest.raises(JobError, match=r"has no message Order; name one by --message: shop.Order, shop.Order.Line"):
        protobuf_format(message="Order")
    with pytest.raises(JobError, match=r"has 2 messages; name one by --message: shop.Order"):
        protobuf_format(message="")


def test_a_schema_file_may_have_an_id() -> None:
    assert schema_file("a.json") == SchemaFile("a.json")
    assert schema_file("12=a.json") == SchemaFile("a.json", 12)
    assert schema_file("a=b.json") == SchemaFile("a=b.json")


orders = st.fixed_dictionaries({"id": st.integers(-(2**63), 2**63 - 1), "note": st.none() | st.text()})


@given(orders)
def test_what_was_encoded_is_decoded(order: dict[str, Any]) -> None:
    assert decoder(json_format())(json.dumps(order).encode()) == order
    assert decoder(avro_format())(avro(**order)) == order
    found = decoder(protobuf_format())(message("shop.Order")(**order).SerializeToString())
    assert (found.id, found.note) == (order["id"], order["note"] or "")


@given(st.binary() | orders.map(lambda order: avro(**order)[1:]) | orders.map(lambda order: json.dumps(order).encode()))
def test_any_bytes_are_decoded_or_malformed_for_a_reason(value: bytes) -> None:
    for form in (json_format(), avro_format(), protobuf_format(), protobuf_format(unknown_fields="reject")):
        assert reason(form, value) is None or reason(form, value)
        framed = Format(form.name, form.schemas, "", "confluent", form.unknown_fields)
        assert reason(framed, value) is None or reason(framed, value)
