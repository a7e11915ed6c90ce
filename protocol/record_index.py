"""Reads position, timestamp, offset and key of every record in a batch, for the log cleaner.

Records that are kept are copied as bytes, so only the varints before the key and its length are decoded. The skipped
parts are not validated. `record.py` has a record's encoding.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from protocol.errors import DecodeError
from protocol.plural import count_of
from protocol.primitives import read_varint
from protocol.record import invalid

# Start, end, timestamp delta, offset delta, key, has a value.
Span: TypeAlias = tuple[int, int, int, int, bytes | None, bool]


def record_spans(data: bytes, count: int, wanted: Sequence[int] | None = None) -> Iterator[Span]:
    """Yield a `Span` for each of the `count` records that fill `data`; KafkaError INVALID_RECORD if they do not.

    With `wanted`, only for records whose item there is not 0; of the others only the length is read.
    """
    size = len(data)
    end = start = 0
    try:
        for number in range(count):
            start = end
            # Short varints are decoded inline: calls would take longer than everything else.
            value = data[start]
            if value < 128:
                length, at = value >> 1 ^ -(value & 1), start + 1
            elif (second := data[start + 1]) < 128:
                value = value & 127 | second << 7
                length, at = value >> 1 ^ -(value & 1), start + 2
            else:
                length, at = read_varint(data, start)
            end = at + length
            if length < 0 or end > size:
                raise IndexError
            if wanted is not None and not wanted[number]:
                continue
            at += 1
            value = data[at]
            if value < 128:
                timestamp, at = value >> 1 ^ -(value & 1), at + 1
            else:
                timestamp, at = read_varint(data, at)
            value = data[at]
            if value < 128:
                offset, at = value >> 1 ^ -(value & 1), at + 1
            elif (second := data[at + 1]) < 128:
                value = value & 127 | second << 7
                offset, at = value >> 1 ^ -(value & 1), at + 2
            else:
                offset, at = read_varint(data, at)
            value = data[at]
            if value < 128:
                length, at = value >> 1 ^ -(value & 1), at + 1
            else:
                length, at = read_varint(data, at)
            key = None
            if length >= 0:
                key = data[at : at + length]
                at += length
            if at >= end:
                raise IndexError
            # A negative length means no value; zigzag sets the lowest bit of its first byte.
            yield start, end, timestamp, offset, key, not data[at] & 1
    except (IndexError, DecodeError):
        raise invalid(f"truncated record at byte {start}") from None
    if end != size:
        raise invalid(f"{count_of(size - end, 'byte')} after the last of {count_of(count, 'record')}")
