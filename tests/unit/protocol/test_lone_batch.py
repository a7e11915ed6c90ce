from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.headers import decode_response_header
from protocol.lone_batch import FIRST_VERSION, lone_answer, read_lone_batch
from protocol.messages.produce import ProduceRequest, ProduceResponse

VERSIONS = range(FIRST_VERSION, 14)
ID = bytes(range(16))
NAME = "orders"
OTHER = ProduceRequest.Topic.Partition(index=1, records=b"other")

_Partition = ProduceRequest.Topic.Partition


def request(records: bytes | None, name: str = NAME, **changes: Any) -> ProduceRequest:
    topic = ProduceRequest.Topic(name=name, topic_id=ID, partition_data=[_Partition(index=77, records=records)])
    return ProduceRequest(**{"acks": -1, "timeout_ms": 1000, "topic_data": [topic]} | changes)


def read(encoded: bytes, version: int) -> tuple[int, bytes, int, memoryview] | None:
    return read_lone_batch(memoryview(bytearray(b"head" + encoded)), 4, version)


def topic_on_the_wire(version: int) -> bytes:
    return ID if version >= 13 else b"\x07orders"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_382, 16_383, 16_384, 200_000])
def test_one_batch_is_read_as_the_message_says_it(version: int, size: int) -> None:
    records = bytes(size)
    found = read(request(records).encode(version), version)
    assert found == (-1, topic_on_the_wire(version), 77, records)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "other",
    [
        request(None),
        request(b"records", transactional_id="t"),
        request(b"records", topic_data=[]),
        request(b"records", topic_data=[ProduceRequest.Topic(name=NAME, topic_id=ID, partition_data=[])]),
        request(b"records", topic_data=[ProduceRequest.Topic(name=NAME, topic_id=ID, partition_data=[OTHER, OTHER])]),
        request(b"records", topic_data=[*request(b"one").topic_data, *request(b"two").topic_data]),
    ],
    ids=["no batch", "transactional", "no topic", "no partition", "two partitions", "two topics"],
)
def test_what_has_another_shape_is_left_to_the_message(version: int, other: ProduceRequest) -> None:
    assert read(other.encode(version), version) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_ends_early_or_late_is_left_to_the_message(version: int) -> None:
    whole = request(bytes(300)).encode(version)
    for size in range(len(whole)):
        assert read(whole[:size], version) is None
    assert read(whole + b"\0", version) is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("place", [-1, -2, -3])
def test_tagged_fields_are_left_to_the_message(version: int, place: int) -> None:
    whole = bytearray(request(b"records").encode(version))
    whole[place] = 1
    assert read(bytes(whole), version) is None


@pytest.mark.parametrize("name", ["x" * 127, "x" * 249])
def test_a_name_of_unusual_length_is_left_to_the_message(name: str) -> None:
    assert read(request(b"records", name).encode(12), 12) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_the_answer_is_the_messages(version: int) -> None:
    frame = lone_answer(99, topic_on_the_wire(version), 77, 1 << 40, 1_700_000_000_000, 5)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, body_at = decode_response_header(ApiKey.PRODUCE, version, frame[4:])
    assert correlation_id == 99
    partition = ProduceResponse.Topic.Partition(
        index=77, base_offset=1 << 40, log_append_time_ms=1_700_000_000_000, log_start_offset=5
    )
    named = {"topic_id": ID} if version >= 13 else {"name": NAME}
    topic = ProduceResponse.Topic(partition_responses=[partition], **named)
    assert frame[4 + body_at :] == ProduceResponse(responses=[topic]).encode(version)
