"""A plain Produce request and its answer: the commonest there is, read and answered without an object on the way.

What `protocol.messages.produce` says of every version and shape, this says of one shape: versions 9 to 13, no
transactional id, no tagged fields, one topic, a batch for each of some partitions, nothing refused. Of all else
`read_plain_produce` says that it is something else, and the message's own decoder tells what. How the topic is named
is kept as it came, the id or the name with its length: the answer says it in the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, error

from protocol.errors import DecodeError
from protocol.primitives import read_uvarint

FIRST_VERSION = 9
_TOPIC_IDS_FROM_VERSION = 13
_LARGEST_BYTE = 127  # of a length; a larger one goes on in the next byte

_BEGINNING = Struct(">bhiBB")  # transactional id, acks, time-out, number of topics; the name's length
_BEGINNING_BY_ID = Struct(">bhiB16sB")  # the same; id, number of partitions
_PARTITION = Struct(">iB")  # index, first byte of the batch's length
_ONE = 2  # as lengths of lists are written: one more, so that 0 is null
_NO_TAGS = bytes(2)  # of the topic and the request

_HEAD = Struct(">iixB")  # size, correlation id, no tags; number of topics
# Index, no error, base offset, time of append, log start, an empty list of record errors, no message, no tags.
_APPENDED = Struct(">i2xqqqB2x")
_EMPTY = 1
_END = bytes(6)  # no tags of the topic, no throttling, no tags of the response
_SIZE_BYTES = 4

Appended = tuple[int, int, int, int]
"""Partition, base offset, log append time in ms or -1, log start offset."""


def read_plain_produce(
    frame: memoryview, at: int, version: int
) -> tuple[int, bytes, list[tuple[int, memoryview]]] | None:
    """Return (acks, topic as on the wire, a batch for each partition) of the request whose body begins at `at`.

    None where it is of another shape, or damaged.
    """
    try:
        if version >= _TOPIC_IDS_FROM_VERSION:
            transactional, acks, _, topics, topic, partitions = _BEGINNING_BY_ID.unpack_from(frame, at)
            at += _BEGINNING_BY_ID.size
        else:
            transactional, acks, _, topics, length = _BEGINNING.unpack_from(frame, at)
            at += _BEGINNING.size
            if not 0 < length <= _LARGEST_BYTE:
                return None
            name_at, at = at - 1, at + length - 1
            topic = bytes(frame[name_at:at])
            partitions = frame[at]
            at += 1
        if transactional or topics != _ONE or not _ONE <= partitions <= _LARGEST_BYTE:
            return None
        batches = []
        for _ in range(partitions - 1):
            index, length = _PARTITION.unpack_from(frame, at)
            at += _PARTITION.size
            if length > _LARGEST_BYTE:
                length, at = read_uvarint(frame, at - 1)
            end = at + length - 1
            if not length or frame[end]:
                return None
            batches.append((index, frame[at:end]))
            at = end + 1
    except (error, IndexError, DecodeError):
        return None
    return (acks, topic, batches) if frame[at:] == _NO_TAGS else None


def plain_answer(correlation_id: int, topic: bytes, appended: Iterable[Appended]) -> bytes:
    """Return the frame that says where the batches of such a request were appended."""
    rows = [_APPENDED.pack(*where, _EMPTY) for where in appended]
    size = _HEAD.size - _SIZE_BYTES + len(topic) + 1 + len(rows) * _APPENDED.size + len(_END)
    head = _HEAD.pack(size, correlation_id, _ONE)
    return b"".join((head, topic, (len(rows) + 1).to_bytes(1, "big"), *rows, _END))
