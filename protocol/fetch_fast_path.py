"""The commonest answer to a Fetch, made without an object on the way.

What `protocol.messages.fetch` says of every version and shape, this says of one: versions from 12 on, and of each
partition no more than how far it reaches and what was found: no error, no other leader, no log that has parted, no
aborted transaction, no replica to be preferred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct

from protocol.primitives import Part, RecordsPart, put_uvarint

FIRST_VERSION = 12
TOPIC_IDS_FROM_VERSION = 13

_HEAD = Struct(">iixi2xi")  # size, correlation id, no tags; throttling, no error, session id
# Index, no error, high watermark, last stable offset, log start, aborted transactions, no preferred replica.
_FOUND = Struct(">i2xqqqBi")
_NOBODY = -1
_SIZE = Struct(">i")
_NO_TAGS = 0

Found = tuple[int, int, int, int, Sequence[RecordsPart], int]
"""Partition, high watermark, last stable offset, log start offset, where its batches lie, their bytes."""


def topic_named(name: str) -> bytes:
    """Return how version 12 names a topic; later ones do it by its id."""
    encoded = name.encode()
    named = bytearray()
    put_uvarint(named, len(encoded) + 1)
    return bytes(named + encoded)


def plain_answer(
    correlation_id: int, session_id: int, topics: Mapping[bytes, Sequence[Found]], tells_aborted: bool
) -> list[Part]:
    """Return the frame that says what was found in each topic, by how it is named on the wire, as parts.

    `tells_aborted` if the reader has to be told that no transaction was aborted.
    """
    out = head = bytearray(_HEAD.pack(0, correlation_id, 0, session_id))
    parts: list[Part] = [head]
    size = -_SIZE.size
    put_uvarint(out, len(topics) + 1)
    for topic, found in topics.items():
        out += topic
        put_uvarint(out, len(found) + 1)
        for index, high_watermark, last_stable_offset, log_start_offset, slices, size_bytes in found:
            out += _FOUND.pack(index, high_watermark, last_stable_offset, log_start_offset, tells_aborted, _NOBODY)
            put_uvarint(out, size_bytes + 1)
            if slices:
                size += len(out) + size_bytes
                parts += slices
                out = bytearray()
                parts.append(out)
            out.append(_NO_TAGS)
        out.append(_NO_TAGS)
    out.append(_NO_TAGS)
    _SIZE.pack_into(head, 0, size + len(out))
    return parts
