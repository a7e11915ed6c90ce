"""Where each record of a batch lies, when it was made, and which key it has: what compaction looks at.

A record that stays is copied as it is, so nothing of it is decoded but the varints in front of its key. Whether the
parts skipped are well formed is not looked at. A record's encoding is told in `record.py`.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from protocol.errors import DecodeError
from protocol.plural import count_of
from protocol.primitives import read_varint
from protocol.record import invalid

# Where it begins and ends, its time and offset relative to the batch's, its key, and whether it has a value.
Span: TypeAlias = tuple[int, int, int, int, bytes | None, bool]


def record_spans(data: bytes, count: int, wanted: Sequence[int] | None = None) -> Iterator[Span]:
    """Yield a `Span` for each of the `count` records that fill `data`; else KafkaError INVALID_RECORD.

    With `wanted`, only for those that have a number other than 0 there; of the others only the length is looked at.
    """
    size = len(data)
    end = start = 0
    try:
        for number in range(count):
            start = end
            # Most varints are short: a call for each would take longer than all the rest.
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
            # Any negative length says that there is no value: the last bit of its first byte.
            yield start, end, timestamp, offset, key, not data[at] & 1
    except (IndexError, DecodeError):
        raise invalid(f"no whole record at byte {start}") from None
    if end != size:
        raise invalid(f"{count_of(size - end, 'byte')} after the last of {count_of(count, 'record')}")
