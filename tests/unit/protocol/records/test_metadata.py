from __future__ import annotations

import pytest

from protocol.errors import DecodeError
from protocol.records.metadata import (
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode_metadata_record,
    encode_metadata_record,
)

TOPIC = TopicRecord(name="t", topic_id=bytes(range(16)))


def test_record_has_a_frame_of_version_1_with_its_api_key_and_version() -> None:
    assert encode_metadata_record(TOPIC) == bytes.fromhex("01 02 00 02 74") + bytes(range(16)) + b"\0"
    assert decode_metadata_record(encode_metadata_record(TOPIC)) == TOPIC


def test_highest_version_is_written_by_default() -> None:
    record = RegisterBrokerRecord(
        broker_id=1, incarnation_id=bytes(16), broker_epoch=2, end_points=[], features=[], rack=None
    )
    assert encode_metadata_record(record)[:3] == bytes([1, 0, 4])
    assert encode_metadata_record(record, 1)[:3] == bytes([1, 0, 1])


def test_a_partition_keeps_its_directories() -> None:
    record = PartitionRecord(
        topic_id=bytes(16),
        replicas=[1],
        isr=[1],
        removing_replicas=[],
        adding_replicas=[],
        directories=[b"d" * 16],
        eligible_leader_replicas=[2],
    )
    assert decode_metadata_record(memoryview(encode_metadata_record(record))) == record


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("", "ends early"),
        ("01 02", "ends early"),
        ("02 02 00", "unknown version 2"),
        ("01 63 00", "unknown metadata record 99"),
        ("01 02 07", "TopicRecord has no version 7"),
        ("01 02 00 05", "TopicRecord"),
    ],
)
def test_anything_else_is_refused(value: str, what: str) -> None:
    with pytest.raises(DecodeError, match=what):
        decode_metadata_record(bytes.fromhex(value))
