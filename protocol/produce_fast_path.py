"""Decodes the most common Produce requests, and encodes their responses, without message objects.

It covers versions 9 to 13, with a transactional id of up to 126 bytes or none, without tagged fields, with one topic
and one batch for each of up to 126 partitions, and no errors. For any other request `decode_plain_produce` returns
None, and the generated decoder of `protocol.messages.produce` is used. The topic (id, or name with its length) is kept
as bytes, which the response repeats.
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct, error

from protocol.errors import DecodeError
from protocol.primitives import read_uvarint

FIRST_VERSION = 9
_TOPIC_IDS_FROM_VERSION = 13
_LARGEST_BYTE = 127  # the largest varint of one byte

_BEGINNING = Struct(">xhiBB")  # end of the transactional id, acks, timeout, number of topics, length of the name
_BEGINNING_BY_ID = Struct(">xhiB16sB")  # the same with topic id and number of partitions
_TIMEOUT = Struct(">3xi")  # after the end of the transactional id and acks
_PARTITION = Struct(">iBBB")  # index, first 3 bytes of the batch's length; a batch is longer than that
_LENGTH_AT = 4
_ONE = 2  # one item: compact lengths are one more, 0 is null
_NO_TAGS = bytes(2)  # for the topic and the request

_HEAD = ">iixB"  # size, correlation id, no tagged fields, number of topics
# Index, no error, base offset, log append time, log start offset, no record errors, no message, no tagged fields.
_APPENDED = "i2xqqqB2x"
_FIELDS = 5
_EMPTY = 1
_END = "6x"  # no tagged fields of the topic, no throttling, no tagged fields of the response
_SIZE_BYTES = 4

Appended = tuple[int, int, int, int]
"""Partition, base offset, log append time in ms or -1, log start offset."""


def decode_plain_produce(
    frame: memoryview, at: int, version: int
) -> tuple[int, bytes, list[tuple[int, memoryview]], str | None] | None:
    """Return (acks, topic as on the wire, [(partition, batch)], transactional id) of the request whose body is at `at`.

    None if it has another form or is damaged.
    """
    try:
        transactional_id = None
        if frame[at]:
            if frame[at] > _LARGEST_BYTE:
                return None
            id_at, at = at + 1, _end_of_id(frame, at)
            transactional_id = str(frame[id_at : at + 1], "utf-8")
        if version >= _TOPIC_IDS_FROM_VERSION:
            acks, _, topics, topic, partitions = _BEGINNING_BY_ID.unpack_from(frame, at)
            at += _BEGINNING_BY_ID.size
        else:
            acks, _, topics, length = _BEGINNING.unpack_from(frame, at)
            at += _BEGINNING.size
            if not 0 < length <= _LARGEST_BYTE:
                return None
            name_at, at = at - 1, at + length - 1
            topic = bytes(frame[name_at:at])
            partitions = frame[at]
            at += 1
        if topics != _ONE or not _ONE <= partitions <= _LARGEST_BYTE:
            return None
        batches = []
        for _ in range(partitions - 1):
            index, length, second, third = _PARTITION.unpack_from(frame, at)
            at += _LENGTH_AT
            if length <= _LARGEST_BYTE:
                at += 1
            elif third <= _LARGEST_BYTE < second:  # 16 KiB to 2 MiB
                length += (second - 1 << 7) + (third - 1 << 14)
                at += 3
            else:
                length, at = read_uvarint(frame, at)
            end = at + length - 1
            if not length or frame[end]:
                return None
            batches.append((index, frame[at:end]))
            at = end + 1
    except (error, IndexError, DecodeError, UnicodeDecodeError):
        return None
    return (acks, topic, batches, transactional_id) if frame[at:] == _NO_TAGS else None


def plain_timeout_ms(frame: memoryview, at: int) -> int:
    """Return the timeout in ms of such a request, whose body begins at `at`."""
    timeout_ms: int = _TIMEOUT.unpack_from(frame, _end_of_id(frame, at))[0]
    return timeout_ms


def _end_of_id(frame: memoryview, at: int) -> int:
    """Return the place of the last byte of the transactional id, which may be the byte of its length."""
    return at + max(0, frame[at] - 1)


def encode_plain_response(correlation_id: int, topic: bytes, appended: Iterable[Appended]) -> bytes:
    """Return the response frame with the offsets at which the batches of such a request were appended."""
    rows: list[int] = []
    for where in appended:
        rows += where
        rows.append(_EMPTY)
    partitions = len(rows) // _FIELDS
    answer = _answer(len(topic), partitions)
    return answer.pack(answer.size - _SIZE_BYTES, correlation_id, _ONE, topic, partitions + 1, *rows)


@lru_cache(maxsize=1024)
def _answer(topic_bytes: int, partitions: int) -> Struct:
    return Struct(f"{_HEAD}{topic_bytes}sB{_APPENDED * partitions}{_END}")
