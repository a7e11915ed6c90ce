"""Changes of a response's frame: a throttle time, and damage."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, cast

from broker.control.faults.error_faults import read_response
from broker.dispatch import encode_response
from protocol.api import response_class
from protocol.fields import fields_of
from protocol.headers import RequestHeader, response_prefix
from protocol.messages.fetch import FetchResponse
from protocol.primitives import Part, read_parts

if TYPE_CHECKING:
    from random import Random

_THROTTLE = "throttle_time_ms"
_INT32 = Struct(">i")
_SIZE_BYTES = 4
_CORRELATION_ID_AT = 4


def throttled(header: RequestHeader, parts: list[Part], throttle_ms: int) -> list[Part]:
    """Return a response with a throttle time; as it is if this version has none."""
    key, version, _, _ = header
    names = [field.name for field in fields_of(response_class(key)) if field.is_plain_at(version)]
    if _THROTTLE not in names:
        return parts
    if names[0] != _THROTTLE:
        response: Any = read_response(key, version, parts)
        response.throttle_time_ms = throttle_ms
        return encode_response(header, response)
    # A Fetch has slices of files: they stay as they are.
    head = bytearray(cast("bytes", parts[0]))
    _INT32.pack_into(head, _body_at(header), throttle_ms)
    return [head, *parts[1:]]


def corrupted(header: RequestHeader, parts: list[Part], what: str, random: Random) -> list[Part]:
    """Return a damaged response: one bit of its `body` or of its `records`, its `correlation_id`, or `truncate`."""
    if what == "records":
        return _with_damaged_records(header, parts, random)
    frame = bytearray(read_parts(parts))
    if what == "truncate":
        del frame[max(_SIZE_BYTES, len(frame) // 2) :]
    elif what == "correlation_id":
        (number,) = _INT32.unpack_from(frame, _CORRELATION_ID_AT)
        _INT32.pack_into(frame, _CORRELATION_ID_AT, (number + 1) & 0x7FFFFFFF)
    else:
        _flip_a_bit(frame, _body_at(header), random)
    return [frame]


def _with_damaged_records(header: RequestHeader, parts: list[Part], random: Random) -> list[Part]:
    """Return a Fetch response whose first records do not fit their CRC; another response as it is."""
    response = read_response(header.api_key, header.api_version, parts)
    if not isinstance(response, FetchResponse):
        return parts
    for topic in response.responses:
        for partition in topic.partitions:
            if partition.records:
                damaged = bytearray(cast("memoryview", partition.records))
                _flip_a_bit(damaged, len(damaged) - 1, random)
                partition.records = bytes(damaged)
                return encode_response(header, response)
    return parts


def _flip_a_bit(data: bytearray, begin: int, random: Random) -> None:
    """Flip one bit from `begin` on."""
    if begin < len(data):
        data[random.randrange(begin, len(data))] ^= 1 << random.randrange(8)


def _body_at(header: RequestHeader) -> int:
    key, version, correlation_id, _ = header
    return _SIZE_BYTES + len(response_prefix(key, version, correlation_id))
