"""Tokens that are hashed in a thread before they are handled, over real sockets."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from broker.security.authentication_log import AuthenticationLog
from broker.security.sasl_authenticator import SaslOptions
from broker.security.sasl_mechanisms import PlainServer
from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.unit.broker.conftest import Run, Serving
from tests.unit.broker.sasl_client import (
    RIGHT,
    USERS,
    WRONG,
    authenticate,
    body,
    end_while_refused,
    handshake,
    principal,
    sasl,
)


class Hashed(PlainServer):
    """PLAIN that hashes before its answer, as the first use of a delegation token does."""

    def __init__(self) -> None:
        super().__init__(USERS)
        self.hashed_by: int | None = None

    @property
    def hashing(self) -> Callable[[], object] | None:  # type: ignore[override]
        return self._hash if self.hashed_by is None else None

    def _hash(self) -> None:
        self.hashed_by = threading.get_ident()


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("token", [RIGHT, WRONG, b"damaged"])
def test_hash_of_milliseconds_is_made_in_a_thread(run: Run, serving: Serving, version: int, token: bytes) -> None:
    mechanism = Hashed()
    options = SaslOptions(lambda: ("PLAIN",), lambda _: mechanism, lambda _: 0)

    async def steps() -> None:
        asyncio.get_running_loop()
        log = AuthenticationLog("SASL")
        async with serving(sasl=sasl(options=options, log=log)) as served:
            served.script.answer = principal
            client = await served.connect()
            await handshake(client, version=version)
            sent = token if version == 0 else body(SaslAuthenticateRequest(auth_bytes=token), 2)
            client.send(sent, b"request")  # which waits for the hash, and is handled as the principal's
            if token != RIGHT:
                if version:
                    await client.receive()
                assert await client.closed()
                return
            await client.receive()
            assert await client.receive() == b"User:alice"

    run(steps())
    assert mechanism.hashed_by not in (None, threading.get_ident())


def test_token_stays_as_it_was_while_it_is_hashed_and_others_are_read(run: Run, serving: Serving) -> None:
    mechanism, begun, goes_on = Hashed(), threading.Event(), threading.Event()

    def hash_slowly() -> None:
        begun.set()
        goes_on.wait(30)
        mechanism.hashed_by = threading.get_ident()

    mechanism._hash = hash_slowly  # type: ignore[method-assign]
    mechanisms = iter((mechanism, PlainServer(USERS)))
    options = SaslOptions(lambda: ("PLAIN",), lambda _: next(mechanisms), lambda _: 0)
    log = AuthenticationLog("SASL")

    async def steps() -> None:
        loop = asyncio.get_running_loop()
        async with serving(sasl=sasl(options=options, log=log)) as served:
            client, other = await served.connect(), await served.connect()
            await handshake(client)
            client.send(body(SaslAuthenticateRequest(auth_bytes=RIGHT), 2))
            await loop.run_in_executor(None, begun.wait, 30)
            await handshake(other)
            assert (await authenticate(other, b"\0bob\0hunter2")).error_code == ErrorCode.NONE
            goes_on.set()
            await client.receive()
            served.script.answer = principal
            client.send(b"request")
            assert await client.receive() == b"User:alice"

    run(steps())


def test_connection_may_end_while_a_token_is_hashed(
    run: Run, serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    mechanism, begun, goes_on = Hashed(), threading.Event(), threading.Event()

    def hash_slowly() -> None:
        begun.set()
        goes_on.wait(30)

    mechanism._hash = hash_slowly  # type: ignore[method-assign]
    options = SaslOptions(lambda: ("PLAIN",), lambda _: mechanism, lambda _: 0)
    log = AuthenticationLog("SASL")

    async def steps() -> None:
        loop = asyncio.get_running_loop()
        async with serving(sasl=sasl(options=options, log=log)) as served:
            client = await served.connect()
            await handshake(client)
            client.send(body(SaslAuthenticateRequest(auth_bytes=WRONG), 2))
            await loop.run_in_executor(None, begun.wait, 30)
            [connection] = served.server.connections
            connection.abort()
            assert await client.closed()
            goes_on.set()
            await loop.shutdown_default_executor()

    run(steps())
    assert not caplog.records


@pytest.mark.parametrize("size", [0, 9, 12])
def test_damaged_request_after_a_hash_closes_the_connection(
    run: Run, serving: Serving, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    options = SaslOptions(lambda: ("PLAIN",), lambda _: Hashed(), lambda _: 0)
    unhandled: list[dict[str, Any]] = []

    async def steps() -> None:
        loop, log = asyncio.get_running_loop(), AuthenticationLog("SASL")
        loop.set_exception_handler(lambda _, context: unhandled.append(context))
        async with serving(sasl=sasl(options=options, log=log)) as served:
            client = await served.connect()
            await handshake(client)
            client.send(body(SaslAuthenticateRequest(auth_bytes=RIGHT), 2)[:size])
            assert await client.closed()
            assert log.successful == 0

    run(steps())
    assert unhandled == []
    [line] = [record.getMessage() for record in caplog.records if record.name == "broker.channel"]
    assert line.endswith(" early")


def test_connection_may_end_while_a_refusal_after_a_hash_is_delayed(run: Run, serving: Serving) -> None:
    mechanism, log = Hashed(), AuthenticationLog("SASL")
    options = SaslOptions(lambda: ("PLAIN",), lambda _: mechanism, lambda _: 0)
    unhandled: list[dict[str, Any]] = []

    async def steps() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unhandled.append(context))
        async with serving(sasl=sasl(options=options, failure_delay_s=0.05, log=log)) as served:
            client = await served.connect()
            await handshake(client)
            others = asyncio.all_tasks()
            await end_while_refused(served, client, log)
            refusing = asyncio.all_tasks() - others
            assert len(refusing) == 1
            await asyncio.wait(refusing)
            refusing.clear()
            gc.collect()

    run(steps())
    assert unhandled == []
