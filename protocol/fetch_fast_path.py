"""Encodes the most common Fetch responses without message objects.

It covers versions from 12 on, and partitions without an error, a new leader, a diverging epoch and a preferred
replica. `protocol.messages.fetch` has every version and field.
"""

from collections.abc import Mapping, Sequence
from struct import Struct

from protocol.primitives import Part, RecordsPart, put_uvarint

FIRST_VERSION = 12
TOPIC_IDS_FROM_VERSION = 13

_HEAD = Struct(">iixi2xi")  # size, correlation id, no tagged fields, throttle time, no error, session id
# Index, no error, high watermark, last stable offset, log start offset, aborted transactions, preferred replica.
_FOUND = Struct(">i2xqqqBi")
_NO_REPLICA = -1
# The same in three parts, if there are aborted transactions.
_OFFSETS = Struct(">i2xqqq")
_ABORTED = Struct(">qqx")  # producer id, first offset, no tagged fields
_NO_REPLICA_ENCODED = _NO_REPLICA.to_bytes(4, "big", signed=True)
_SIZE = Struct(">i")
_NO_TAGS = 0

Found = tuple[int, int, int, int, Sequence[RecordsPart], int, Sequence[tuple[int, ...]]]
"""Partition, high watermark, last stable offset, log start offset, slices of its batches, their size in bytes, aborted
transactions: producer id and first offset, then fields that are not sent."""


def encode_topic_name(name: str) -> bytes:
    """Return a topic's name as version 12 encodes it; later versions have topic ids."""
    encoded = name.encode()
    named = bytearray()
    put_uvarint(named, len(encoded) + 1)
    return bytes(named + encoded)


def encode_plain_response(
    correlation_id: int, session_id: int, topics: Mapping[bytes, Sequence[Found]], read_committed: bool
) -> list[Part]:
    """Return the response frame as parts; `topics` is keyed by the topic as on the wire.

    Without aborted transactions their list is empty with `read_committed`, else null.
    """
    out = head = bytearray(_HEAD.pack(0, correlation_id, 0, session_id))
    parts: list[Part] = [head]
    size = -_SIZE.size
    put_uvarint(out, len(topics) + 1)
    for topic, found in topics.items():
        out += topic
        put_uvarint(out, len(found) + 1)
        for index, high_watermark, last_stable_offset, log_start_offset, slices, size_bytes, aborted in found:
            if aborted:
                out += _OFFSETS.pack(index, high_watermark, last_stable_offset, log_start_offset)
                put_uvarint(out, len(aborted) + 1)
                for one in aborted:
                    out += _ABORTED.pack(one[0], one[1])
                out += _NO_REPLICA_ENCODED
            else:
                out += _FOUND.pack(
                    index, high_watermark, last_stable_offset, log_start_offset, read_committed, _NO_REPLICA
                )
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
