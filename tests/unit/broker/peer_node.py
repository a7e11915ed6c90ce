"""The node at the other end of a `NetworkClient`, simulated; and a network without sockets, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from broker.dispatch import encode_response
from broker.network.connection import Connection
from broker.network.connection_protocol import DeferredResponse
from broker.network.network_client import NetworkClient, NetworkClientLimits
from protocol.api import APIS, ApiKey, request_class
from protocol.errors import ErrorCode
from protocol.headers import RequestHeader, decode_request_header
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.vote import VoteRequest, VoteResponse
from protocol.primitives import Part, read_parts
from protocol.schema import Message
from tests.unit.broker.conftest import Served
from tests.unit.broker.node import VirtualLoop

VERSIONS = {key: (api.min_version, api.max_version) for key, api in APIS.items()}


def vote(voter_id: int = 7) -> VoteRequest:
    return VoteRequest(cluster_id="c", voter_id=voter_id, topics=[])


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    records = [record for record in caplog.records if record.name == "broker.peer"]
    return [record.getMessage() for record in records if record.levelno >= logging.WARNING]


class Node:
    """The remote node: answers ApiVersions by itself, and other requests as scripted."""

    def __init__(self, served: Served | None = None) -> None:
        self.versions = dict(VERSIONS)
        self.seen: list[tuple[RequestHeader, Message]] = []
        self.reply: Callable[[RequestHeader, Message], Any] = lambda *_: VoteResponse(topics=[])
        if served is not None:
            served.script.answer = self.answer

    @property
    def requested(self) -> list[Message]:
        """The requests received, without ApiVersions."""
        return [request for header, request in self.seen if header.api_key is not ApiKey.API_VERSIONS]

    def answer(self, frame: bytes, _connection: Connection | None = None) -> list[Part] | DeferredResponse:
        header, body_at = decode_request_header(frame)
        if header.api_key is ApiKey.API_VERSIONS and header.api_version > self.versions[ApiKey.API_VERSIONS][1]:
            return self._versions(header._replace(api_version=0), ErrorCode.UNSUPPORTED_VERSION)
        request = request_class(header.api_key).decode(memoryview(frame), header.api_version, body_at)
        self.seen.append((header, request))
        if header.api_key is ApiKey.API_VERSIONS:
            return self._versions(header)
        reply = self.reply(header, request)
        return encode_response(header, reply) if isinstance(reply, Message) else reply

    def _versions(self, header: RequestHeader, error_code: int = 0) -> list[Part]:
        keys = [
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.versions.items()
        ]
        return encode_response(header, ApiVersionsResponse(error_code=error_code, api_keys=keys))


class Line(asyncio.Transport):
    """One end of a connection without a socket: written bytes reach the node in the next loop iteration."""

    def __init__(self, loop: Network, protocol: Any) -> None:
        super().__init__()
        self.loop = loop
        self.protocol = protocol
        self.aborted = False

    def write(self, data: Any) -> None:
        self.loop.call_soon(self._arrive, bytes(data))

    def _arrive(self, data: bytes) -> None:
        if self.loop.silent or self.aborted:
            return
        answer = read_parts(self.loop.node.answer(data[4:]))  # type: ignore[arg-type]  # always this type here
        if not self.aborted:
            self.protocol.get_buffer(-1)[: len(answer)] = answer
            self.protocol.buffer_updated(len(answer))

    def abort(self) -> None:
        self.aborted = True


class Network(VirtualLoop):
    """A loop in virtual time, with one node to connect to."""

    def __init__(self) -> None:
        super().__init__()
        self.node = Node()
        self.attempts: list[float] = []
        self.lines: list[Line] = []
        self.down = self.unreachable = self.silent = self.hanging = False

    async def create_connection(self, factory: Any, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        self.attempts.append(self.time())
        if self.hanging:
            await self.create_future()
        if self.unreachable:
            raise OSError("no way leads there")
        if self.down:
            raise ConnectionRefusedError("connection refused")
        protocol = factory()
        line = Line(self, protocol)
        self.lines.append(line)
        protocol.connection_made(line)
        return line, protocol

    def peer(self, **limits: Any) -> NetworkClient:
        made = NetworkClientLimits(**{"request_timeout_ms": 2000, **limits})
        return NetworkClient(self, ("127.0.0.1", 9093), "node 1", Random(1), made)
