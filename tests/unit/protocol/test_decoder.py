from __future__ import annotations

import struct
import tracemalloc

import pytest

from protocol.errors import DecodeError
from protocol.messages.metadata import MetadataRequest
from tests.unit.protocol.conftest import Order


@pytest.fixture
def data(order: type[Order]) -> dict[int, bytes]:
    """Return a message encoded in every version."""
    value = order(number=5, buyer=order.Buyer(name="bo"), lines=[order.Line(item="i", counts=[7])])
    return {version: value.encode(version) for version in range(4)}


def test_fields_that_the_version_lacks_have_their_defaults(order: type[Order], data: dict[int, bytes]) -> None:
    decoded = order.decode(data[0], 0)
    assert (decoded.note, decoded.urgent, decoded.parent) == (None, -1, -1)


@pytest.mark.parametrize("version", range(4))
def test_bytes_left_over_are_refused(order: type[Order], data: dict[int, bytes], version: int) -> None:
    with pytest.raises(DecodeError, match="Order ends at byte"):
        order.decode(data[version] + b"\0", version)


def test_trailing_bytes_are_ignored_for_messages_with_a_known_client_bug() -> None:
    sent_by_librdkafka = bytes.fromhex("00000000010000")
    request = MetadataRequest.decode(sent_by_librdkafka, 13)
    assert request == MetadataRequest(topics=None, allow_auto_topic_creation=False)
    for size in range(4):
        with pytest.raises(DecodeError):
            MetadataRequest.decode(sent_by_librdkafka[:size], 13)


@pytest.mark.parametrize("version", range(4))
def test_truncated_message_is_refused_at_every_length(order: type[Order], data: dict[int, bytes], version: int) -> None:
    for size in range(len(data[version])):
        with pytest.raises(DecodeError):
            order.decode(data[version][:size], version)


def test_null_in_a_non_nullable_field_is_refused_with_the_field_name(order: type[Order]) -> None:
    with pytest.raises(DecodeError, match=r"Order\.buyer\.name must not be null"):
        order.decode(struct.pack(">ih", 5, -1), 0)
    with pytest.raises(DecodeError, match=r"Order\.lines must not be null"):
        order.decode(struct.pack(">ihbi", 5, 0, -1, -1), 0)


@pytest.mark.parametrize("count", [2**31 - 1, 2**20])
def test_a_count_is_checked_before_anything_is_allocated(order: type[Order], count: int) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match=rf"Order\.lines: {count} elements do not fit"):
            order.decode(struct.pack(">ihbi", 5, 0, -1, count) + bytes(1000), 0)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_count_of_an_integer_array_is_checked_before_allocation(order: type[Order]) -> None:
    with pytest.raises(DecodeError, match=r"Order\.lines\.counts: 1000000 elements"):
        order.decode(struct.pack(">ihbihi", 5, 0, -1, 1, 0, 1_000_000) + bytes(100), 0)


def test_number_of_decoded_elements_is_limited(order: type[Order]) -> None:
    def lines(count: int, each: int) -> bytes:
        return struct.pack(">ihbi", 5, 0, -1, count) + struct.pack(">hi", 0, each) * count + bytes(4 * each * count)

    with pytest.raises(DecodeError, match=r"Order\.lines: more than 200000 elements in one message"):
        order.decode(lines(200_001, 0), 0)
    with pytest.raises(DecodeError, match=r"Order\.lines\.counts: more than 200000 elements in one message"):
        order.decode(struct.pack(">ihbi", 5, 0, -1, 2) + (struct.pack(">hi", 0, 100_000) + bytes(400_000)) * 2, 0)


def test_too_many_tagged_fields_are_refused(order: type[Order], data: dict[int, bytes]) -> None:
    tag = bytes.fromhex("63 00")
    assert order.decode(data[3][:-1] + bytes([64]) + tag * 64, 3).parent == -1
    for count in (b"\x41", b"\x80\x01"):
        with pytest.raises(DecodeError, match="64 tagged fields in one place"):
            order.decode(data[3][:-1] + count + tag * 200, 3)


def test_a_tagged_field_must_fill_its_size(order: type[Order], data: dict[int, bytes]) -> None:
    wrong = data[3][:-1] + bytes.fromhex("01 00 09 0000000000000002 00")
    with pytest.raises(DecodeError, match=r"Order\.parent ends at byte"):
        order.decode(wrong, 3)


def test_unknown_tagged_field_is_skipped_beside_known_ones(order: type[Order], data: dict[int, bytes]) -> None:
    tags = bytes.fromhex("02 00 08 0000000000000002 63 03 616263")
    assert order.decode(data[3][:-1] + tags, 3).parent == 2


def test_invalid_utf_8_is_decoded_with_replacement_characters(order: type[Order], data: dict[int, bytes]) -> None:
    decoded = order.decode(data[0].replace(b"bo", b"b\xff"), 0)
    assert decoded.buyer.name == "b\N{REPLACEMENT CHARACTER}"


def test_a_message_may_begin_anywhere_in_its_buffer(order: type[Order], data: dict[int, bytes]) -> None:
    assert order.decode(memoryview(b"head" + data[1]), 1, 4) == order.decode(data[1], 1)


def test_string_length_is_limited_to_int16_in_every_version(order: type[Order]) -> None:
    def named(size: int) -> bytes:
        return order(number=5, buyer=order.Buyer(name="n" * size), lines=[]).encode(2)

    assert len(order.decode(named(32767), 2).buyer.name) == 32767
    with pytest.raises(DecodeError, match=r"Order\.buyer\.name: a string of 32768 bytes"):
        order.decode(named(32768), 2)
