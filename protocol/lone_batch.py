"""A Produce request with one batch, and its answer: the commonest of all, read and answered in one stroke each.

What `protocol.messages.produce` says of every version and shape, this says of one shape, without an object on the
way: versions 9 to 13, no transactional id, no tagged fields, one topic, one partition, nothing refused. Of all else
`read_lone_batch` says that it is something else, and the message's own decoder tells what. How the topic is named is
kept as it came, the id or the name with its length: the answer says it in the same bytes.
"""

from __future__ import annotations

from struct import Struct, error

from protocol.errors import DecodeError
from protocol.primitives import read_uvarint

FIRST_VERSION = 9
_TOPIC_IDS_FROM_VERSION = 13

_BEGINNING = Struct(">bhiBB")  # transactional id, acks, time-out, number of topics; the name's length
_BEGINNING_BY_ID = Struct(">bhiB16sBiB")  # the same; id, number of partitions, index, first byte of the batch's length
_PARTITION = Struct(">BiB")  # number of partitions, index, first byte of the batch's length
_ONE = 2  # as lengths of lists are written: one more, so that 0 is null
_NO_TAGS = bytes(3)  # of the partition, the topic and the request

_ANSWER_HEAD = Struct(">iixB")  # size, correlation id, no tags; number of topics
# Number of partitions, index, no error, base offset, time of append, log start, no record errors; then no message, no
# tags of partition and topic, no throttling, no tags of the response.
_ANSWER_TAIL = Struct(">Bi2xqqqB8x")
_NO_RECORD_ERRORS = 1
_SIZE_BYTES = 4


def read_lone_batch(frame: memoryview, at: int, version: int) -> tuple[int, bytes, int, memoryview] | None:
    """Return (acks, topic as on the wire, partition, batch) of the request whose body begins at `at`.

    None where it is of another shape, or damaged.
    """
    try:
        if version >= _TOPIC_IDS_FROM_VERSION:
            transactional, acks, _, topics, topic, partitions, index, length = _BEGINNING_BY_ID.unpack_from(frame, at)
            at += _BEGINNING_BY_ID.size
        else:
            transactional, acks, _, topics, length = _BEGINNING.unpack_from(frame, at)
            at += _BEGINNING.size
            if not 0 < length <= 127:
                return None
            name_at, at = at - 1, at + length - 1
            topic = bytes(frame[name_at:at])
            partitions, index, length = _PARTITION.unpack_from(frame, at)
            at += _PARTITION.size
        if length > 127:
            length, at = read_uvarint(frame, at - 1)
    except (error, IndexError, DecodeError):
        return None
    end = at + length - 1
    if transactional or topics != _ONE or partitions != _ONE or not length or frame[end:] != _NO_TAGS:
        return None
    return acks, topic, index, frame[at:end]


def lone_answer(
    correlation_id: int, topic: bytes, index: int, base_offset: int, log_append_time_ms: int, log_start_offset: int
) -> bytes:
    """Return the frame that says where the batch of such a request was appended."""
    tail = _ANSWER_TAIL.pack(_ONE, index, base_offset, log_append_time_ms, log_start_offset, _NO_RECORD_ERRORS)
    size = _ANSWER_HEAD.size - _SIZE_BYTES + len(topic) + len(tail)
    return _ANSWER_HEAD.pack(size, correlation_id, _ONE) + topic + tail
