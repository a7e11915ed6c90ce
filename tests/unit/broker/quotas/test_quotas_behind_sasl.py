"""Quotas on a listener with SASL: only the requests of authenticated clients count."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any

import pytest

from protocol.api import ApiKey, response_class
from protocol.headers import RequestHeader, decode_response_header, encode_request_header
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.schema import Message
from tests.unit.broker.whole_broker import WholeBroker

_SIZE = Struct(">i")
LOGIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="p" user_broker="p" '
    'user_ann="secret";'
)
TOKEN = b"\0ann\0secret"


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[WholeBroker]:
    running = WholeBroker(
        str(tmp_path / "data"),
        listener_security_protocol_map="PLAINTEXT:SASL_PLAINTEXT",
        sasl_enabled_mechanisms="PLAIN",
        sasl_mechanism_inter_broker_protocol="PLAIN",
        listener_name_plaintext_plain_sasl_jaas_config=LOGIN,
    )
    running.wait(running.start())
    yield running
    running.wait(running.stop())
    running.loop.close()


class Client:
    """A connection that sends frames."""

    def __init__(self, whole: WholeBroker) -> None:
        self._whole = whole
        host, _, port = whole.node.bootstrap.rpartition(":")
        self._reader, self._writer = whole.wait(asyncio.open_connection(host, int(port)))

    def send_frame(self, frame: bytes) -> bytes:
        """Send a frame; return the one that is answered."""
        self._writer.write(_SIZE.pack(len(frame)) + frame)
        return bytes(self._whole.wait(self._receive()))

    async def _receive(self) -> bytes:
        size = await self._reader.readexactly(_SIZE.size)
        frame: bytes = await self._reader.readexactly(*_SIZE.unpack(size))
        return frame

    def call(self, request: Message, version: int) -> Any:
        key = ApiKey(request.API_KEY)  # type: ignore[arg-type]
        header = encode_request_header(RequestHeader(key, version, 7, "app"))
        frame = memoryview(self.send_frame(header + request.encode(version)))
        _, body_at = decode_response_header(key, version, frame)
        return response_class(key).decode(frame, version, body_at)

    def close(self) -> None:
        self._writer.transport.abort()


def with_bare_token(whole: WholeBroker) -> Client:
    client = Client(whole)
    assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == 0
    assert client.send_frame(TOKEN) == b""
    return client


def with_request(whole: WholeBroker) -> Client:
    client = Client(whole)
    assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    assert client.call(SaslAuthenticateRequest(auth_bytes=TOKEN), 2).error_code == 0
    return client


def test_clients_log_in_by_bare_tokens_and_by_requests_while_there_are_quotas(whole: WholeBroker) -> None:
    first = with_bare_token(whole)
    entry = AlterClientQuotasRequest.Entry
    quota = entry(
        entity=[entry.Entity(entity_type="user", entity_name="ann")],
        ops=[entry.Op(key="request_percentage", value=1e-6, remove=False)],
    )
    assert first.call(AlterClientQuotasRequest(entries=[quota], validate_only=False), 1).entries[0].error_code == 0
    for client in (with_bare_token(whole), with_request(whole)):
        assert client.call(MetadataRequest(topics=[]), 9).throttle_time_ms > 0
        client.close()
    first.close()
