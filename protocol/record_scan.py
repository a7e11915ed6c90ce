"""Reads some fields of every record in a batch: for validation and searches by time, and for the log cleaner.

A batch may hold a million records, and decoding them whole takes several times as long. The skipped parts are not
validated. `record.py` has the encoding of a record, `record_batch.py` that of a batch.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.plural import count_of
from protocol.primitives import Buffer, read_varint
from protocol.record import invalid
from protocol.record_batch import MAX_INFLATED_BYTES, BatchHeader, read_header, unpack

_MAX_INT64 = 2**63 - 1

# Scanned in about 0.1 s. Java's producer splits a batch that is refused as too large.
MAX_SCANNED_RECORDS = 100_000


def check_scannable(header: BatchHeader) -> None:
    """Raise MESSAGE_TOO_LARGE for a batch of more than `MAX_SCANNED_RECORDS`: scanning it would block the loop."""
    if header.record_count > MAX_SCANNED_RECORDS:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{header.record_count} records in one batch: the topic's settings require checking each, up to a limit of"
            f" {MAX_SCANNED_RECORDS} records",
        )


def scan_records(batch: Buffer, max_bytes: int = MAX_INFLATED_BYTES) -> Iterator[tuple[int, int, bool]]:
    """Yield (offset, timestamp, has a key) for each record of the one batch that begins `batch`.

    With LogAppendTime the timestamp is the batch's. KafkaError with INVALID_RECORD if the records do not fill the batch
    exactly, are not as many as the header says, or inflate to more than `max_bytes`.
    """
    header = read_header(batch)
    return scan_unpacked(header, unpack(batch, header, max_bytes))


def scan_unpacked(header: BatchHeader, data: Buffer) -> Iterator[tuple[int, int, bool]]:
    """Yield the same as `scan_records` for uncompressed records, `data`."""
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.log_append_time else None
    size = len(data)
    end = 0
    try:
        for _ in range(header.record_count):
            start = end
            # Varints of 1 to 3 bytes are decoded inline: calls would take longer than everything else.
            value = data[start]
            if value < 128:
                length, at = value >> 1 ^ -(value & 1), start + 1
            else:
                length, at = read_varint(data, start)
            end = at + length
            if length < 0 or end > size:
                raise IndexError
            at += 1
            value = data[at]
            if value < 128:
                timestamp, at = value >> 1 ^ -(value & 1), at + 1
            elif (second := data[at + 1]) < 128:
                value = value & 127 | second << 7
                timestamp, at = value >> 1 ^ -(value & 1), at + 2
            elif (third := data[at + 2]) < 128:
                value = value & 127 | (second & 127) << 7 | third << 14
                timestamp, at = value >> 1 ^ -(value & 1), at + 3
            else:
                timestamp, at = read_varint(data, at)
            value = data[at]
            if value < 128:
                offset, at = value >> 1 ^ -(value & 1), at + 1
            elif (second := data[at + 1]) < 128:
                value = value & 127 | second << 7
                offset, at = value >> 1 ^ -(value & 1), at + 2
            elif (third := data[at + 2]) < 128:
                value = value & 127 | (second & 127) << 7 | third << 14
                offset, at = value >> 1 ^ -(value & 1), at + 3
            else:
                offset, at = read_varint(data, at)
            # A negative length means no key; zigzag sets the lowest bit of its first byte.
            keyed = not data[at] & 1
            if at >= end:
                raise IndexError
            offset += base_offset
            timestamp += base_timestamp
            if not (-_MAX_INT64 <= offset <= _MAX_INT64 and -_MAX_INT64 <= timestamp <= _MAX_INT64):
                raise invalid(f"record out of range: offset {offset}, timestamp {timestamp}")
            yield offset, timestamp if append_time is None else append_time, keyed
    except (IndexError, DecodeError):
        raise invalid(f"truncated record at byte {start}") from None
    if end != size:
        raise invalid(f"{count_of(size - end, 'byte')} after the last of {count_of(header.record_count, 'record')}")


Span: TypeAlias = tuple[int, int, int, int, bytes | None, bool]
"""Start, end, timestamp delta, offset delta, key, has a value. The cleaner copies the bytes from start to end."""


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
