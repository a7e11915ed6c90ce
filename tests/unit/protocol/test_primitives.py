from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import DecodeError
from protocol.primitives import (
    ZERO_UUID,
    part_size,
    put_uvarint,
    put_varint,
    read_parts,
    read_uvarint,
    read_varint,
    skip_tagged_fields,
    uuid_parse,
    uuid_text,
)


class Slice:
    """Ten bytes in a file."""

    size_bytes = 10

    def read(self, offset: int, size: int, /) -> bytes:
        return b"0123456789"[offset : offset + size]


@pytest.mark.parametrize(
    ("value", "data"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**31 - 1, "ffffffff07")]
)
def test_an_unsigned_varint_has_seven_bits_a_byte_lowest_first(value: int, data: str) -> None:
    out = bytearray()
    put_uvarint(out, value)
    assert out.hex() == data
    assert read_uvarint(b"?" + out, 1) == (value, 1 + len(out))


@pytest.mark.parametrize(("value", "data"), [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001")])
def test_a_varint_is_zig_zag(value: int, data: str) -> None:
    out = bytearray()
    put_varint(out, value)
    assert out.hex() == data


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_varint_is_read_back(value: int) -> None:
    out = bytearray()
    put_varint(out, value)
    assert read_varint(out, 0) == (value, len(out))


def test_a_varint_that_does_not_end_is_refused() -> None:
    with pytest.raises(DecodeError):
        read_uvarint(b"\x80" * 6, 0)
    with pytest.raises(DecodeError):
        read_varint(b"\x80" * 11, 0)
    with pytest.raises(IndexError):
        read_uvarint(b"\x80\x80", 0)


def test_tagged_fields_are_skipped() -> None:
    assert skip_tagged_fields(b"\x02" + b"\x00\x03abc" + b"\x05\x00" + b"rest", 0) == 8


@pytest.mark.parametrize("count", [b"\x41", b"\xff\xff\xff\xff\x07"])
def test_too_many_tagged_fields_are_refused_before_they_are_read(count: bytes) -> None:
    with pytest.raises(DecodeError, match="more than 64 tagged fields"):
        skip_tagged_fields(count + bytes(200), 0)


def test_a_uuid_is_unpadded_url_safe_base64() -> None:
    value = bytes(range(250, 256)) + bytes(10)
    assert uuid_text(value) == "-vv8_f7_AAAAAAAAAAAAAA"
    assert uuid_parse(uuid_text(value)) == value
    assert uuid_text(ZERO_UUID) == "A" * 22


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 21 + "=", "ü" * 22])
def test_invalid_uuid_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a uuid"):
        uuid_parse(text)


def test_parts_are_sized_without_reading_and_joined_by_reading() -> None:
    parts = [b"ab", bytearray(b"c"), memoryview(b"de"), Slice()]
    assert [part_size(part) for part in parts] == [2, 1, 2, 10]  # type: ignore[arg-type]  # only this comes here
    assert read_parts(parts) == b"abcde0123456789"  # type: ignore[arg-type]  # of a type that is known here
