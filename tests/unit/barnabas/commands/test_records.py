from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.commands._output import CommandError
from barnabas.commands._records import from_json, to_json

FIELDS = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
HEADERS = st.lists(st.tuples(st.text(max_size=5), FIELDS), max_size=4)


@given(key=FIELDS, value=FIELDS, headers=HEADERS, timestamp=st.integers(-1, 2**63 - 1))
def test_written_json_is_read_back(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], timestamp: int
) -> None:
    record = SimpleNamespace(
        topic="t", partition=3, offset=7, timestamp=timestamp, timestamp_type=0, key=key, value=value, headers=headers
    )
    line = to_json(record)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    read = from_json(line)
    assert (read.key, read.value, read.headers) == (key, value, headers)
    assert (read.topic, read.partition, read.timestamp_ms) == ("t", 3, timestamp)


def test_meta_only_has_the_size_in_place_of_the_value() -> None:
    record = SimpleNamespace(
        topic="t", partition=3, offset=7, timestamp=1, timestamp_type=1, key=None, value=b"abc", headers=[]
    )
    fields = json.loads(to_json(record, meta_only=True))
    assert fields["value_size"] == 3
    assert "value" not in fields
    assert fields["timestamp_type"] == "append"


def test_json_of_kcat_is_read() -> None:
    line = b'{"topic":"t","partition":0,"tstype":"create","ts":5,"headers":["a","1","a",null],"key":"k","payload":"v"}'
    read = from_json(line)
    assert (read.topic, read.timestamp_ms, read.key, read.value) == ("t", 5, b"k", b"v")
    assert read.headers == [("a", b"1"), ("a", None)]


def test_omitted_fields_are_left_to_the_producer() -> None:
    assert from_json(b'{"value": null, "headers": {"a": "1"}}') == (None, None, [("a", b"1")], None, None, None)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "invalid JSON at column 2: Expecting property name"),
        (b"\xff", "invalid JSON: it is not in UTF-8"),
        (b"[]", "a record is a JSON object"),
        (b'{"key": "a", "vlaue": "b"}', "it has no value; use null for a tombstone"),
        (b'{"key": "a", "value_size": 1}', "it has no value; use null for a tombstone"),
        (b'{"value": 1}', "value: write null, a string or"),
        (b'{"value": {"base64": "!"}}', "value: "),
        (b'{"value": {"base64": 1}}', "value: "),
        (b'{"value": "\\ud800"}', "value: "),
        (b'{"value": "", "key": ["a"]}', "key: write null, a string or"),
        (b'{"value": "", "partition": "0"}', "partition: write a number"),
        (b'{"value": "", "partition": true}', "partition: write a number"),
        (b'{"value": "", "topic": 1}', "topic: write a string"),
        (b'{"value": "", "headers": "a"}', "headers: write"),
        (b'{"value": "", "headers": [{"value": "1"}]}', "a header's key is a string"),
    ],
)
def test_invalid_json_record_is_refused(line: bytes, complaint: str) -> None:
    with pytest.raises(CommandError) as refused:
        from_json(line)
    assert complaint in str(refused.value)
