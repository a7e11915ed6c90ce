"""Headers of requests and responses.

A request header has api key (int16), api version (int16), correlation id (int32), client id (nullable string with a
16-bit length in every version), and in flexible versions tagged fields. A response header has the correlation id, and
in flexible versions tagged fields, except for ApiVersions, whose client may not know the version of the response
(KIP-511).
"""

from functools import partial
from struct import Struct, error
from typing import NamedTuple

from protocol.api import APIS, Api, ApiKey
from protocol.errors import DecodeError
from protocol.primitives import Buffer, skip_tagged_fields

_FIXED = Struct(">hhih")
_CORRELATION_ID = Struct(">i")
_TAGGED_CORRELATION_ID = Struct(">ix")  # zero tagged fields
_BY_NUMBER: dict[int, Api] = {int(key): api for key, api in APIS.items()}
_RESPONSE_TAGGED_FROM: dict[int, int] = {
    key: 1 << 15 if key is ApiKey.API_VERSIONS else api.flexible_from for key, api in APIS.items()
}


class RequestHeader(NamedTuple):
    """The API, its version, the correlation id and the client id of a request."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None


# As `RequestHeader(...)`, but without a Python call for each request.
_request_header = partial(tuple.__new__, RequestHeader)


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Return a frame's header and the position of its body; DecodeError if damaged or of an unknown API."""
    try:
        key, version, correlation_id, length = _FIXED.unpack_from(frame)
        body_at = _FIXED.size
        api = _BY_NUMBER.get(key)
        if api is None:
            raise DecodeError(f"unknown API key {key}")
        client_id = None
        if length >= 0:
            client_id = str(frame[body_at : body_at + length], "utf-8", "replace")
            body_at += length
        if version >= api.flexible_from:
            body_at = skip_tagged_fields(frame, body_at) if frame[body_at] else body_at + 1
    except (error, IndexError):
        raise DecodeError("a request header ends early") from None
    if body_at > len(frame):
        raise DecodeError("a request header ends early")
    return _request_header((api.key, version, correlation_id, client_id)), body_at


def encode_request_header(header: RequestHeader) -> bytes:
    """Return the header's bytes."""
    client_id = b"" if header.client_id is None else header.client_id.encode()
    length = -1 if header.client_id is None else len(client_id)
    fixed = _FIXED.pack(header.api_key, header.api_version, header.correlation_id, length)
    return fixed + client_id + (b"\0" if APIS[header.api_key].is_flexible(header.api_version) else b"")


def response_prefix(key: ApiKey, version: int, correlation_id: int) -> bytes:
    """Return the bytes of a response header."""
    tagged = version >= _RESPONSE_TAGGED_FROM[key]
    return (_TAGGED_CORRELATION_ID if tagged else _CORRELATION_ID).pack(correlation_id)


def decode_response_header(key: ApiKey, version: int, frame: Buffer) -> tuple[int, int]:
    """Return a response's correlation id and the position of its body; DecodeError if it is truncated."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        body_at = _CORRELATION_ID.size
        if version >= _RESPONSE_TAGGED_FROM[key]:
            body_at = skip_tagged_fields(frame, body_at)
        return correlation_id, body_at
    except (error, IndexError):
        raise DecodeError("a response header ends early") from None
