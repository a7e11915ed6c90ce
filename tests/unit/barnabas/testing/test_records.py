from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner import murmur2

from barnabas.testing.records import (
    NewRecord,
    RecordFields,
    TopicRecord,
    fields_of,
    from_json,
    listing,
    partition_of,
    to_json,
)


@given(st.binary(max_size=40), st.integers(1, 100))
def test_a_key_has_the_partition_that_kafka_python_gives_it(key: bytes, partitions: int) -> None:
    assert partition_of(key, partitions) == (murmur2(key) & 0x7FFFFFFF) % partitions


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        ("text", RecordFields(None, b"text")),
        (b"\xff", RecordFields(None, b"\xff")),
        (None, RecordFields()),
        (("k", None), RecordFields(b"k", None)),
        ({"value": "v", "headers": {"h": "x"}}, RecordFields(None, b"v", headers=(("h", b"x"),))),
        ({"key": b"k", "partition": 2, "timestamp_ms": 7}, RecordFields(b"k", None, 2, 7)),
        ({"headers": [("h", None), ("h", "y")]}, RecordFields(headers=(("h", None), ("h", b"y")))),
        (TopicRecord(1, 9, 7, b"k", b"v"), RecordFields(b"k", b"v", 1, 7)),
    ],
)
def test_records_are_values_pairs_fields_or_records_that_were_read(record: NewRecord, fields: RecordFields) -> None:
    assert fields_of(record) == fields


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (5, "5 is no record: write a value"),
        ({"val": "x"}, "a record has no field 'val'; it has key, value, partition, timestamp_ms, headers"),
        (("k", 5), "5 is neither text nor bytes nor None"),
        (("a", "b", "c"), "is no record"),
    ],
)
def test_anything_else_is_refused(record: NewRecord, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        fields_of(record)


DATA = st.none() | st.binary(max_size=9) | st.text(max_size=9).map(str.encode)


@given(DATA, DATA, st.lists(st.tuples(st.text(max_size=5), DATA)))
def test_a_record_survives_json(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    sent = json.loads(json.dumps(to_json(RecordFields(key, value, headers=tuple(headers)))))
    read = from_json({"headers": [], **sent, "partition": 1, "offset": 5, "timestamp_ms": 7})
    assert read == TopicRecord(1, 5, 7, key, value, tuple(headers))


def test_a_listing_has_the_last_records() -> None:
    records = [TopicRecord(0, at, 0, None, b"v") for at in range(3)] + [TopicRecord(1, 0, 0, b"k", b"\xff")]
    assert listing(records, 2) == "(2 earlier ones), 0@2: 'v', 1@0: 'k' = b'\\xff'"
    assert listing([]) == "none"
