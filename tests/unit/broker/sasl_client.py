"""A client of a listener with SASL, and the listener's dispatcher, for tests over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from broker.network.connection import Connection
from broker.security.authentication_log import AuthenticationLog
from broker.security.sasl_authenticator import SaslOptions
from broker.security.sasl_dispatcher import SaslDispatcher
from broker.security.sasl_mechanisms import PlainServer
from protocol.api import ApiKey
from protocol.headers import RequestHeader, decode_response_header, encode_request_header
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.primitives import Part
from protocol.schema import Message
from tests.unit.broker.conftest import Client, Served, framed

M = TypeVar("M", bound=Message)
USERS = {"alice": "secret", "bob": "hunter2"}
RIGHT, WRONG = b"\0alice\0secret", b"\0alice\0guess"


def sasl(
    max_reauthentication_ms: int = 0,
    failure_delay_s: float = 0.0,
    log: AuthenticationLog | None = None,
    options: SaslOptions | None = None,
) -> Callable[[Any], Any]:
    """Return what `serving` takes: a dispatcher by the passwords of `USERS`, or by other `options`."""
    options = options or SaslOptions(
        lambda: ("PLAIN", "OTHER"), lambda _: PlainServer(USERS), lambda _: max_reauthentication_ms
    )
    return lambda dispatch: SaslDispatcher(
        dispatch,
        options,
        asyncio.get_running_loop(),
        failure_delay_s=failure_delay_s,
        log=log or AuthenticationLog("SASL"),
    )


def principal(_body: bytes, connection: Connection) -> list[Part]:
    """Answer any request with the principal of its client."""
    return [framed(connection.principal.encode())]


def body(request: Message, version: int) -> bytes:
    """Return a request with its header."""
    key = ApiKey(request.API_KEY)  # type: ignore[arg-type]
    return encode_request_header(RequestHeader(key, version, 7, "me")) + request.encode(version)


async def call(client: Client, request: Message, version: int, answer: type[M]) -> M:
    """Return the response to a request."""
    client.send(body(request, version))
    frame = memoryview(await client.receive())
    _, at = decode_response_header(ApiKey(request.API_KEY), version, frame)  # type: ignore[arg-type]
    return answer.decode(frame, version, at)


async def handshake(client: Client, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
    """Return the response to SaslHandshake."""
    return await call(client, SaslHandshakeRequest(mechanism=mechanism), version, SaslHandshakeResponse)


async def authenticate(client: Client, token: bytes = RIGHT, version: int = 2) -> SaslAuthenticateResponse:
    """Return the response to SaslAuthenticate."""
    return await call(client, SaslAuthenticateRequest(auth_bytes=token), version, SaslAuthenticateResponse)


async def end_while_refused(served: Served, client: Client, log: AuthenticationLog) -> None:
    """End the connection of a client with a wrong password while its refusal is delayed."""
    client.send(body(SaslAuthenticateRequest(auth_bytes=WRONG), 2))
    while not log.failed:  # noqa: ASYNC110 - the counter has no event
        await asyncio.sleep(0)
    [connection] = served.server.connections
    connection.abort()
    assert await client.closed()
