"""Primitive types of the wire format: varints, uuids, and the parts of a response.

Varints have seven bits a byte, lowest first, as in Protocol Buffers. Unsigned ones have at most five bytes and carry
lengths of flexible versions (KIP-482); zigzag ones have at most ten and carry the fields of records.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import Protocol, TypeAlias

from protocol.errors import DecodeError

Buffer: TypeAlias = bytes | bytearray | memoryview

ZERO_UUID = bytes(16)
VERSION_BYTES = 2


class RecordsPart(Protocol):
    """Stored bytes that are read when they are sent, such as a slice of a segment file."""

    @property
    def size_bytes(self) -> int:
        """Return the size of this part on the wire."""

    def read(self, offset: int, size: int, /) -> bytes:
        """Return `size` bytes from `offset` within the part."""


Part: TypeAlias = bytes | bytearray | memoryview | RecordsPart
RecordsValue: TypeAlias = bytes | bytearray | memoryview | RecordsPart | list[RecordsPart]


def part_size(part: Part) -> int:
    """Return the size of `part` on the wire."""
    return len(part) if isinstance(part, (bytes, bytearray, memoryview)) else part.size_bytes


def read_parts(parts: Iterable[Part]) -> bytes:
    """Return all parts concatenated; parts in files are read."""
    return b"".join(
        part if isinstance(part, (bytes, bytearray, memoryview)) else part.read(0, part.size_bytes) for part in parts
    )


def uuid_text(value: bytes) -> str:
    """Return a uuid in Kafka's text form: url-safe base64 without padding."""
    return urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def uuid_parse(text: str) -> bytes:
    """Return the 16 bytes of a uuid in Kafka's text form; ValueError for anything else."""
    try:
        value = urlsafe_b64decode(text + "==")
    except ValueError:
        value = b""
    if len(text) != 22 or len(value) != 16:
        raise ValueError(f"not a uuid in base64: {text!r}")
    return value


def put_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def read_uvarint(buf: Buffer, at: int) -> tuple[int, int]:
    """Return the unsigned varint at `at` and the position after it; IndexError if the buffer ends inside it."""
    value = shift = 0
    while True:
        byte = buf[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 28:
            raise DecodeError("an unsigned varint is longer than five bytes")


def read_version(buf: Buffer, what: str) -> int:
    """Return the int16 at the start, a stored record's type or version; DecodeError if `what` is shorter than it."""
    if len(buf) < VERSION_BYTES:
        raise DecodeError(f"{what} ends early")
    return int.from_bytes(buf[:VERSION_BYTES], "big", signed=True)


def put_varint(out: bytearray, value: int) -> None:
    """Append a zigzag varint (a signed 64-bit value)."""
    put_uvarint(out, (value << 1) ^ (value >> 63))


def read_varint(buf: Buffer, at: int) -> tuple[int, int]:
    """Return the zigzag varint at `at` and the position after it; IndexError if the buffer ends inside it."""
    value = shift = 0
    while True:
        byte = buf[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise DecodeError("a varint is longer than ten bytes")


# The most tagged fields in one section; Kafka's largest message has 11. The limit bounds the decoding time.
MAX_TAGGED_FIELDS = 64


def skip_tagged_fields(buf: Buffer, at: int) -> int:
    """Return the position after a section of tagged fields; all of them are ignored."""
    count = buf[at]
    at += 1
    if count > MAX_TAGGED_FIELDS:
        raise DecodeError(f"more than {MAX_TAGGED_FIELDS} tagged fields")
    for _ in range(count):
        _, at = read_uvarint(buf, at)
        size, at = read_uvarint(buf, at)
        at += size
    return at
