"""One record of a batch: varints, key, value and headers (Kafka: `DefaultRecord`).

    varint  length of what follows
    int8    attributes, unused
    varint  timestamp delta to the batch's base timestamp
    varint  offset delta to the batch's base offset
    varint  key length, -1: null; key
    varint  value length, -1: null; value
    varint  header count; for each its key's length, key, value's length (-1: null), value

All varints are zigzag-encoded. `record_batch.py` has batches and their compression.
"""

from typing import NamedTuple

from protocol.errors import ErrorCode, KafkaError
from protocol.plural import count_of
from protocol.primitives import put_varint, read_varint


class Record(NamedTuple):
    """One record; `timestamp` in ms, header keys as the bytes received."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def invalid(message: str) -> KafkaError:
    """Return the INVALID_RECORD error, which is not retriable."""
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def decode_record(data: bytes, at: int, base_offset: int, base_timestamp: int) -> tuple[Record, int]:
    """Return the record at `at` and the position after it.

    IndexError if the data ends inside it, DecodeError for an overlong varint, KafkaError if its lengths contradict each
    other.
    """
    length, at = read_varint(data, at)
    end = at + length
    if length < 0 or end > len(data):
        raise IndexError
    timestamp_delta, at = read_varint(data, at + 1)
    offset_delta, at = read_varint(data, at)
    key, at = _bytes_or_none(data, at)
    value, at = _bytes_or_none(data, at)
    count, at = read_varint(data, at)
    if not 0 <= count <= end - at:
        raise invalid(f"{count_of(count, 'header')} in a record with {count_of(end - at, 'byte')} left")
    headers: list[tuple[bytes, bytes | None]] = []
    for _ in range(count):
        name, at = _bytes_or_none(data, at)
        content, at = _bytes_or_none(data, at)
        if name is None:
            raise invalid("a header without a key")
        headers.append((name, content))
    if at != end:
        raise invalid(f"a record of {count_of(length, 'byte')} with {end - at} after its last field")
    return Record(base_offset + offset_delta, base_timestamp + timestamp_delta, key, value, tuple(headers)), end


def _bytes_or_none(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at)
    if size < 0:
        return None, at
    end = at + size
    if end > len(data):
        raise IndexError
    return data[at:end], end


def put_record(
    out: bytearray,
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[bytes, bytes | None], ...],
) -> None:
    """Append one record to `out`; timestamp (ms) and offset are deltas to the batch's."""
    body = bytearray(1)
    put_varint(body, timestamp_delta)
    put_varint(body, offset_delta)
    _put_bytes(body, key)
    _put_bytes(body, value)
    put_varint(body, len(headers))
    for name, content in headers:
        _put_bytes(body, name)
        _put_bytes(body, content)
    put_varint(out, len(body))
    out += body


def _put_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)
        return
    put_varint(out, len(data))
    out += data
