"""What a rule asks of each record of a batch, read without decoding the rest of it.

A batch may hold a million records; decoding one with its key, value and headers takes several times as long as
reading where it is, when it was made, and whether it has a key. Whether the parts skipped are well formed is not
looked at. A record's encoding is told in `record.py`, a batch's in `record_batch.py`.
"""

from collections.abc import Iterator

from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.plural import count_of
from protocol.primitives import Buffer, read_varint
from protocol.record import invalid
from protocol.record_batch import MAX_INFLATED_BYTES, BatchHeader, read_header, unpack

_MAX_INT64 = 2**63 - 1

# What is looked at record by record in a tenth of a second. Java's producer splits a batch that is too large.
MAX_SCANNED_RECORDS = 100_000


def check_scannable(header: BatchHeader) -> None:
    """Raise MESSAGE_TOO_LARGE for a batch of more records than a broker can look at while others wait."""
    if header.record_count > MAX_SCANNED_RECORDS:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{header.record_count} records in one batch: the topic's settings demand a look at each, which is done for"
            f" {MAX_SCANNED_RECORDS} at most",
        )


def scan_records(batch: Buffer, max_bytes: int = MAX_INFLATED_BYTES) -> Iterator[tuple[int, int, bool]]:
    """Yield (offset, timestamp, whether it has a key) of each record of the one batch that begins `batch`.

    With LogAppendTime the timestamp is the batch's. KafkaError with INVALID_RECORD where the records do not fill the
    batch one by one, are not as many as the header says, or are larger than `max_bytes` when inflated.
    """
    header = read_header(batch)
    return scan_unpacked(header, unpack(batch, header, max_bytes))


def scan_unpacked(header: BatchHeader, data: Buffer) -> Iterator[tuple[int, int, bool]]:
    """Yield the same of records that are unpacked already, `data`."""
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.log_append_time else None
    size = len(data)
    end = 0
    try:
        for _ in range(header.record_count):
            start = end
            # Most varints are short: a call for each would take longer than all the rest.
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
            # Any negative length says that there is no key: the last bit of its first byte.
            keyed = not data[at] & 1
            if at >= end:
                raise IndexError
            offset += base_offset
            timestamp += base_timestamp
            if not (-_MAX_INT64 <= offset <= _MAX_INT64 and -_MAX_INT64 <= timestamp <= _MAX_INT64):
                raise invalid(f"a record with offset {offset} and timestamp {timestamp}")
            yield offset, timestamp if append_time is None else append_time, keyed
    except (IndexError, DecodeError):
        raise invalid(f"no whole record at byte {start}") from None
    if end != size:
        raise invalid(f"{count_of(size - end, 'byte')} after the last of {count_of(header.record_count, 'record')}")
