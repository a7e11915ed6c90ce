from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import DecodeError
from protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    response_prefix,
)

OLD = bytes.fromhex("0001 0004 00000007 0002") + b"me"
FLEXIBLE = bytes.fromhex("0001 000c 00000007 0002") + b"me" + b"\x01\x00\x03xyz"


def test_a_request_header_before_the_flexible_versions_ends_with_the_client_id() -> None:
    assert decode_request_header(OLD + b"body") == (RequestHeader(ApiKey.FETCH, 4, 7, "me"), len(OLD))


def test_flexible_request_header_has_tagged_fields_and_a_plain_client_id() -> None:
    assert decode_request_header(FLEXIBLE + b"body") == (RequestHeader(ApiKey.FETCH, 12, 7, "me"), len(FLEXIBLE))


def test_the_client_id_may_be_null_or_no_text() -> None:
    header, body_at = decode_request_header(bytes.fromhex("0012 0000 00000001 ffff"))
    assert (header.client_id, body_at) == (None, 10)
    header, _ = decode_request_header(bytes.fromhex("0012 0000 00000001 0001 ff"))
    assert header.client_id == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("whole", [OLD, FLEXIBLE], ids=["old", "flexible"])
def test_a_header_that_ends_early_is_refused(whole: bytes) -> None:
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            decode_request_header(whole[:size])


def test_an_unknown_api_is_refused() -> None:
    with pytest.raises(DecodeError, match="unknown API key 999"):
        decode_request_header(bytes.fromhex("03e7 0000 00000001 ffff"))


@pytest.mark.parametrize("client_id", [None, "", "me"])
@pytest.mark.parametrize("version", [11, 12])
def test_a_request_header_is_read_back(client_id: str | None, version: int) -> None:
    header = RequestHeader(ApiKey.FETCH, version, 3, client_id)
    data = encode_request_header(header)
    assert decode_request_header(data) == (header, len(data))


def test_a_response_header_has_tagged_fields_in_flexible_versions() -> None:
    assert response_prefix(ApiKey.FETCH, 11, 7) == bytes.fromhex("00000007")
    assert response_prefix(ApiKey.FETCH, 12, 7) == bytes.fromhex("00000007 00")
    assert decode_response_header(ApiKey.FETCH, 12, bytes.fromhex("00000007 01 05 01 ff")) == (7, 8)
    with pytest.raises(DecodeError):
        decode_response_header(ApiKey.FETCH, 12, bytes.fromhex("00000007"))


def test_the_header_of_an_api_versions_response_is_of_the_oldest_form_in_every_version() -> None:
    assert response_prefix(ApiKey.API_VERSIONS, 4, 7) == bytes.fromhex("00000007")
