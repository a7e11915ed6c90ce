"""Authentication over real sockets: frames in, frames and ends of connections out."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable
from typing import Any

import pytest

from broker.dispatch import encode_response
from broker.network.connection import Connection
from broker.network.socket_options import SESSION_RECEIVE_BYTES
from broker.security.authentication_log import AuthenticationLog
from broker.security.sasl_authenticator import SaslOptions
from broker.security.sasl_dispatcher import SaslDispatcher
from broker.security.sasl_mechanisms import PlainServer
from broker.security.security_error import SecurityError
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.headers import RequestHeader
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.primitives import Part
from tests.unit.broker.conftest import Run, Serving, framed
from tests.unit.broker.sasl_client import (
    RIGHT,
    USERS,
    WRONG,
    authenticate,
    body,
    call,
    end_while_refused,
    handshake,
    principal,
    sasl,
)

SOFTWARE = ApiVersionsRequest(client_software_name="me", client_software_version="1")


@pytest.mark.parametrize("version", [0, 1, 2])
def test_authenticated_client_is_served_as_its_principal(run: Run, serving: Serving, version: int) -> None:
    log = AuthenticationLog("SASL")

    async def steps() -> None:
        async with serving(sasl=sasl(log=log)) as served:
            served.script.answer = principal
            client = await served.connect()
            assert (await handshake(client)).mechanisms == ["PLAIN", "OTHER"]
            answer = await authenticate(client, version=version)
            assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
            client.send(b"request")
            assert await client.receive() == b"User:alice"

    run(steps())
    assert (log.successful, log.successful_only_once) == (1, version == 0)


def answer_versions(error_code: int) -> Callable[[bytes, Connection], list[Part]]:
    answer = ApiVersionsResponse(error_code=error_code, api_keys=[])
    return lambda *_: encode_response(RequestHeader(ApiKey.API_VERSIONS, 4, 7, "me"), answer)


def test_api_versions_before_the_authentication_is_for_the_first_dispatcher(run: Run, serving: Serving) -> None:
    """The other one throttles, and a client could use up the quota of another's client id."""

    async def steps() -> None:
        dispatchers: list[SaslDispatcher] = []

        def made(dispatch: Any) -> SaslDispatcher:
            dispatchers.append(sasl()(dispatch))
            return dispatchers[0]

        async with serving(sasl=made) as served:
            served.script.answer = answer_versions(ErrorCode.NONE)
            client = await served.connect()
            dispatchers[0].dispatch_with(lambda *_: [framed(b"throttled")])
            assert (await call(client, SOFTWARE, 4, ApiVersionsResponse)).error_code == 0
            await handshake(client)
            await authenticate(client)
            client.send(body(SOFTWARE, 4))
            assert await client.receive() == b"throttled"

    run(steps())


def test_api_versions_can_be_sent_again_only_if_it_was_invalid(run: Run, serving: Serving) -> None:
    async def steps() -> None:
        async with serving(sasl=sasl()) as served:
            client = await served.connect()
            for error_code in (ErrorCode.INVALID_REQUEST, ErrorCode.NONE):
                served.script.answer = answer_versions(error_code)
                answer = await call(client, SOFTWARE, 4, ApiVersionsResponse)
                assert answer.error_code == error_code
            client.send(body(SOFTWARE, 4))
            assert await client.closed()

    run(steps())


def test_bare_tokens_follow_version_0_of_the_handshake(run: Run, serving: Serving) -> None:
    log = AuthenticationLog("SASL")

    async def steps() -> None:
        async with serving(sasl=sasl(log=log)) as served:
            served.script.answer = principal
            client = await served.connect()
            await handshake(client, version=0)
            client.send(RIGHT)
            assert await client.receive() == b""
            client.send(b"request")
            assert await client.receive() == b"User:alice"
            other = await served.connect()
            await handshake(other, version=0)
            other.send(WRONG)
            assert await other.closed()

    run(steps())
    assert (log.successful, log.successful_only_once, log.failed) == (1, 1, 1)


def test_client_may_authenticate_again_by_version_1_after_a_bare_token(run: Run, serving: Serving) -> None:
    log = AuthenticationLog("SASL")

    async def steps() -> None:
        async with serving(sasl=sasl(log=log)) as served:
            client = await served.connect()
            await handshake(client, version=0)
            client.send(RIGHT)
            assert await client.receive() == b""
            assert (await handshake(client)).error_code == ErrorCode.NONE
            assert (await authenticate(client)).error_code == ErrorCode.NONE

    run(steps())
    assert log.successful_again == 1


def test_shortest_frames_of_an_authenticated_client_are_handed_on(run: Run, serving: Serving) -> None:
    async def steps() -> None:
        async with serving(sasl=sasl()) as served:
            client = await served.connect()
            await handshake(client)
            await authenticate(client)
            for frame in (b"\0", b"\0\x12"):
                client.send(frame)
                assert await client.receive() == frame

    run(steps())


def test_failed_authentication_is_answered_and_closes_after_the_delay(
    run: Run, serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    async def steps() -> None:
        async with serving(sasl=sasl(failure_delay_s=0.05)) as served:
            client = await served.connect()
            await handshake(client)
            began = asyncio.get_running_loop().time()
            answer = await authenticate(client, WRONG)
            assert asyncio.get_running_loop().time() - began >= 0.04
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert answer.error_message == "Authentication failed: Invalid username or password"
            assert await client.closed()

    run(steps())
    assert [record.getMessage() for record in caplog.records] == [
        'Refused authentication: user="alice" host="127.0.0.1" listener=SASL mechanism="PLAIN" '
        'reason="Authentication failed: Invalid username or password"'
    ]


def test_damaged_token_is_refused_with_a_general_message(run: Run, serving: Serving) -> None:
    async def steps() -> None:
        async with serving(sasl=sasl()) as served:
            client = await served.connect()
            await handshake(client)
            answer = await authenticate(client, b"damaged")
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert answer.error_message == (
                "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"
            )
            assert answer.auth_bytes == b""
            assert await client.closed()

    run(steps())


def test_mechanism_that_is_not_enabled_is_answered_with_the_enabled_ones(run: Run, serving: Serving) -> None:
    async def steps() -> None:
        async with serving(sasl=sasl()) as served:
            client = await served.connect()
            answer = await handshake(client, "GSSAPI")
            assert (answer.error_code, answer.mechanisms) == (
                ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                ["PLAIN", "OTHER"],
            )
            assert await client.closed()

    run(steps())


VERSIONS = b"\0\x12\0\0\0\0\0\1\0\0"
METADATA = b"\0\3\0\1\0\0\0\1\0\0" + b"\0\0\0\0"
UNKNOWN_VERSION = b"\0\x11\0\2\0\0\0\1\0\0" + b"\0\5PLAIN"


@pytest.mark.parametrize(
    "first", [METADATA, b"", b"\0", b"\0\x24\0\2\0\0\0\1\0\0", UNKNOWN_VERSION, b"\x7f\xff\0\0\0\0\0\1\0\0"]
)
def test_other_first_requests_close_the_connection(run: Run, serving: Serving, first: bytes) -> None:
    async def steps() -> None:
        async with serving(sasl=sasl()) as served:
            client = await served.connect()
            client.send(first)
            assert await client.closed()
            assert served.script.seen == []

    run(steps())


def test_versions_may_be_requested_once_before_the_handshake(run: Run, serving: Serving) -> None:
    async def steps() -> None:
        async with serving(sasl=sasl()) as served:
            client, other = await served.connect(), await served.connect()
            for each in (client, other):
                each.send(VERSIONS)
                assert await each.receive() == VERSIONS
            await handshake(client)
            await authenticate(client)
            other.send(VERSIONS)
            assert await other.closed()

    run(steps())


def test_versions_may_be_requested_again_if_their_own_version_was_unknown(run: Run, serving: Serving) -> None:
    async def steps() -> None:
        async with serving(sasl=sasl()) as served:
            client = await served.connect()
            for request in (b"\0\x12\0\x63" + VERSIONS[4:] + b"\0", VERSIONS):  # the unknown one has tagged fields
                client.send(request)
                assert await client.receive() == request
            assert (await handshake(client)).error_code == ErrorCode.NONE

    run(steps())


def test_request_between_handshake_and_token_closes_the_connection(run: Run, serving: Serving) -> None:
    async def steps() -> None:
        async with serving(sasl=sasl()) as served:
            client = await served.connect()
            await handshake(client)
            client.send(METADATA)
            assert await client.closed()
            assert served.script.seen == []

    run(steps())


def test_requests_are_small_until_the_client_is_authenticated(run: Run, serving: Serving) -> None:
    async def steps() -> None:
        async with serving(sasl=sasl(), first_request_bytes=1000) as served:
            client, other = await served.connect(), await served.connect()
            await handshake(client)
            await authenticate(client)
            client.send(bytes(2000))
            assert await client.receive() == bytes(2000)
            other.send(bytes(2000))
            assert await other.closed()

    run(steps())


@pytest.mark.parametrize("size", [1000, 1001])
def test_first_limit_of_requests_is_that_of_the_listener_before_any_of_their_bytes(
    run: Run, serving: Serving, size: int
) -> None:
    """CVE-2023-34455 and others: memory for what an unauthenticated client announces."""

    async def steps() -> None:
        async with serving(sasl=sasl(), first_request_bytes=1000) as served:
            client = await served.connect()
            request = body(SaslHandshakeRequest(mechanism=""), 1)
            mechanism = "x" * (size - len(request))
            if size > 1000:
                client.writer.write(size.to_bytes(4))
            else:
                assert (await handshake(client, mechanism)).error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert await client.closed()

    run(steps())


def test_session_that_expired_ends_with_the_next_request(run: Run, serving: Serving) -> None:
    log = AuthenticationLog("SASL")

    async def steps() -> None:
        async with serving(sasl=sasl(max_reauthentication_ms=1, log=log)) as served:
            client = await served.connect()
            await handshake(client)
            assert (await authenticate(client)).session_lifetime_ms == 1
            await asyncio.sleep(0.01)
            client.send(b"request")
            assert await client.closed()
            assert served.script.seen == []

    run(steps())
    assert log.expired == 1


@pytest.mark.parametrize("session_ms", [0, 60_000])
def test_little_waits_in_front_of_the_next_authentication_of_a_client_whose_session_ends(
    run: Run, serving: Serving, session_ms: int
) -> None:
    async def steps() -> None:
        async with serving(sasl=sasl(max_reauthentication_ms=session_ms), first_request_bytes=4096) as served:
            client = await served.connect()
            await handshake(client)
            await authenticate(client)
            (connection,) = served.server.connections
            accepted = connection._transport.get_extra_info("socket")
            buffer = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            # Linux doubles it.
            assert (buffer in (SESSION_RECEIVE_BYTES, 2 * SESSION_RECEIVE_BYTES)) == (session_ms > 0)

    run(steps())


@pytest.mark.parametrize(("max_reauthentication_ms", "lifetime_ms"), [(0, 5), (2, 2), (60_000, 5)])
def test_session_ends_when_the_credential_expires_or_before(
    run: Run, serving: Serving, max_reauthentication_ms: int, lifetime_ms: int
) -> None:
    def expiring(_: str) -> PlainServer:
        mechanism = PlainServer(USERS)
        mechanism.credential_lifetime_ms = 5
        return mechanism

    options = SaslOptions(lambda: ("PLAIN",), expiring, lambda _: max_reauthentication_ms)

    async def steps() -> None:
        async with serving(sasl=sasl(options=options)) as served:
            client = await served.connect()
            await handshake(client)
            assert (await authenticate(client)).session_lifetime_ms == lifetime_ms
            await asyncio.sleep(0.01)
            client.send(b"request")
            assert await client.closed()
            assert served.script.seen == []

    run(steps())


def test_client_that_authenticates_again_is_served_on(run: Run, serving: Serving) -> None:
    log = AuthenticationLog("SASL")

    async def steps() -> None:
        async with serving(sasl=sasl(max_reauthentication_ms=60_000, log=log)) as served:
            served.script.answer = principal
            client = await served.connect()
            for _ in range(2):
                await handshake(client)
                assert (await authenticate(client)).session_lifetime_ms == 60_000
                client.send(b"request")
                assert await client.receive() == b"User:alice"
            # A third time within a second is no re-authentication: the dispatcher refuses it.
            client.send(body(SaslHandshakeRequest(mechanism="PLAIN"), 1))
            assert await client.receive() == b"User:alice"

    run(steps())
    assert (log.successful, log.successful_again, log.failed, log.failed_again) == (1, 1, 0, 0)


@pytest.mark.parametrize(
    ("mechanism", "token", "message"),
    [
        ("PLAIN", b"\0bob\0hunter2", "Cannot change principals during re-authentication from User.alice: User.bob"),
        (
            "OTHER",
            RIGHT,
            "SASL mechanism 'OTHER' requested by client is not supported for re-authentication of mechanism 'PLAIN'",
        ),
        (
            "PLAIN",
            b"x",
            "Authentication failed during re-authentication due to invalid credentials with SASL mechanism PLAIN",
        ),
    ],
)
def test_re_authentication_keeps_mechanism_and_principal(
    run: Run, serving: Serving, mechanism: str, token: bytes, message: str
) -> None:
    log = AuthenticationLog("SASL")

    async def steps() -> None:
        async with serving(sasl=sasl(log=log)) as served:
            client = await served.connect()
            await handshake(client)
            await authenticate(client)
            await handshake(client, mechanism)
            answer = await authenticate(client, token)
            assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, message)
            assert await client.closed()

    run(steps())
    assert (log.successful, log.successful_again, log.failed, log.failed_again) == (1, 0, 0, 1)


def test_connection_may_end_while_a_refusal_is_delayed(run: Run, serving: Serving) -> None:
    log, unhandled = AuthenticationLog("SASL"), list[dict[str, Any]]()

    async def steps() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unhandled.append(context))
        async with serving(sasl=sasl(failure_delay_s=0.01, log=log)) as served:
            client = await served.connect()
            await handshake(client)
            await end_while_refused(served, client, log)
            ended = loop.create_future()
            loop.call_later(0.01, ended.set_result, None)  # after the refusal, which was scheduled before
            await ended
            gc.collect()

    run(steps())
    assert unhandled == []


@pytest.mark.parametrize("version", [0, 1])
def test_mechanism_whose_settings_became_invalid_is_refused_with_a_line_that_names_the_setting(
    run: Run, serving: Serving, caplog: pytest.LogCaptureFixture, version: int
) -> None:
    log = AuthenticationLog("SASL")

    def broken(_mechanism: str) -> PlainServer:
        raise SecurityError("listener.name.sasl.plain.sasl.jaas.config is not set")

    def made(dispatch: Any) -> SaslDispatcher:
        options = SaslOptions(lambda: ("PLAIN", "OTHER"), broken, lambda _: 0)
        return SaslDispatcher(dispatch, options, asyncio.get_running_loop(), failure_delay_s=0.0, log=log)

    async def steps() -> None:
        async with serving(sasl=made) as served:
            for _ in range(3):
                client = await served.connect()
                answer = await handshake(client, version=version)
                assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
                assert answer.mechanisms == ["OTHER"]
                assert await client.closed()

    run(steps())
    assert log.failed == 3
    assert [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == [
        'Refused authentication: user="" host="127.0.0.1" listener=SASL mechanism="PLAIN" '
        'reason="listener.name.sasl.plain.sasl.jaas.config is not set"'
    ]
