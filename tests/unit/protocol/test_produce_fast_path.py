from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.headers import decode_response_header
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.produce_fast_path import FIRST_VERSION, decode_plain_produce, encode_plain_response, plain_timeout_ms

VERSIONS = range(FIRST_VERSION, 14)
ID = bytes(range(16))
NAME = "orders"

_Partition = ProduceRequest.Topic.Partition


def request(*batches: bytes | None, name: str = NAME, **changes: Any) -> ProduceRequest:
    """Return a request with `batches` for partitions 77, 78 and so on."""
    partitions = [_Partition(index=index, records=records) for index, records in enumerate(batches, 77)]
    topic = ProduceRequest.Topic(name=name, topic_id=ID, partition_data=partitions)
    return ProduceRequest(**{"acks": -1, "timeout_ms": 1000, "topic_data": [topic]} | changes)  # type: ignore[arg-type]  # keywords of several types


def read(encoded: bytes, version: int) -> tuple[int, bytes, list[tuple[int, memoryview]], str | None] | None:
    return decode_plain_produce(memoryview(bytearray(b"head" + encoded)), 4, version)


def topic_on_the_wire(version: int) -> bytes:
    return ID if version >= 13 else b"\x07orders"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_382, 16_383, 16_384, 200_000])
def test_batch_is_read_as_the_message_encodes_it(version: int, size: int) -> None:
    records = bytes(size)
    assert read(request(records).encode(version), version) == (-1, topic_on_the_wire(version), [(77, records)], None)  # type: ignore[comparison-overlap]  # equal by content


@pytest.mark.parametrize("version", VERSIONS)
def test_timeout_is_read_at_its_offset(version: int) -> None:
    encoded = request(b"", timeout_ms=54_321).encode(version)
    assert plain_timeout_ms(memoryview(b"head" + encoded), 4) == 54_321


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", ["", "t", "\u00e9", "t" * 126])
def test_batches_and_timeout_of_a_transactional_request_are_read(version: int, transactional_id: str) -> None:
    encoded = request(b"one", b"two", transactional_id=transactional_id, timeout_ms=54_321).encode(version)
    batches = [(77, b"one"), (78, b"two")]
    assert read(encoded, version) == (-1, topic_on_the_wire(version), batches, transactional_id)  # type: ignore[comparison-overlap]  # equal by content
    assert plain_timeout_ms(memoryview(b"head" + encoded), 4) == 54_321


@pytest.mark.parametrize("version", VERSIONS)
def test_transactional_id_that_is_not_utf_8_is_left_to_the_message(version: int) -> None:
    encoded = request(b"one", transactional_id="ab").encode(version).replace(b"ab", b"\xff\xfe")
    assert read(encoded, version) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_the_batches_of_partitions_are_read_in_their_order(version: int) -> None:
    batches = [bytes([size % 251]) * size for size in (3, 0, 1000, 20_000)]
    found = read(request(*batches).encode(version), version)
    assert found == (-1, topic_on_the_wire(version), list(enumerate(batches, 77)), None)  # type: ignore[comparison-overlap]  # equal by content


def test_fast_path_reads_up_to_126_partitions() -> None:
    found = read(request(*[b"x"] * 126).encode(13), 13)
    assert found is not None
    assert len(found[2]) == 126
    assert read(request(*[b"x"] * 127).encode(13), 13) is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "other",
    [
        request(None),
        request(b"records", None),
        request(b"records", transactional_id="t" * 127),
        request(topic_data=[]),
        request(),
        request(topic_data=[*request(b"one").topic_data, *request(b"two").topic_data]),
    ],
    ids=["no batch", "one batch of two", "long transactional id", "no topic", "no partition", "two topics"],
)
def test_request_of_another_shape_is_left_to_the_message(version: int, other: ProduceRequest) -> None:
    assert read(other.encode(version), version) is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("batches", [[bytes(300)], [b"one", b"two"]], ids=["one", "two"])
@pytest.mark.parametrize("transactional_id", [None, "t" * 9])
def test_a_request_that_ends_early_or_late_is_left_to_the_message(
    version: int, batches: list[bytes], transactional_id: str | None
) -> None:
    whole = request(*batches, transactional_id=transactional_id).encode(version)
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
def test_a_long_name_is_left_to_the_message(name: str) -> None:
    assert read(request(b"records", name=name).encode(12), 12) is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [1, 2, 126])
def test_response_equals_the_message_encoding(version: int, count: int) -> None:
    appended = [(77 + number, (1 << 40) + number, 1_700_000_000_000, 5) for number in range(count)]
    frame = encode_plain_response(99, topic_on_the_wire(version), appended)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, body_at = decode_response_header(ApiKey.PRODUCE, version, frame[4:])
    assert correlation_id == 99
    partitions = [
        ProduceResponse.Topic.Partition(
            index=index, base_offset=base_offset, log_append_time_ms=time_ms, log_start_offset=start
        )
        for index, base_offset, time_ms, start in appended
    ]
    named: dict[str, Any] = {"topic_id": ID} if version >= 13 else {"name": NAME}
    topic = ProduceResponse.Topic(partition_responses=partitions, **named)
    assert frame[4 + body_at :] == ProduceResponse(responses=[topic]).encode(version)
