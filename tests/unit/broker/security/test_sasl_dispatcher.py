"""Authentication over real sockets: frames in, frames and ends of connections out."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from broker.dispatch import encode_response
from broker.network.connection import Connection
from broker.security.authentication_log import AuthenticationLog
from broker.security.sasl_authenticator import SaslAuthenticator, SaslOptions
from broker.security.sasl_dispatcher import SaslDispatcher
from broker.security.sasl_mechanisms import PlainServer
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.headers import RequestHeader, decode_response_header, encode_request_header
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.primitives import Part
from protocol.schema import Message
from tests.unit.broker.conftest import Client, Run, Serving, framed

M = TypeVar("M", bound=Message)
USERS = {"alice": "secret", "bob": "hunter2"}
SOFTWARE = ApiVersionsRequest(client_software_name="me", client_software_version="1")
RIGHT, WRONG = b"\0alice\0secret", b"\0alice\0guess"


def sasl(
    max_reauthentication_ms: int = 0, failure_delay_s: float = 0.0, log: AuthenticationLog | None = None
) -> Callable[[Any], Any]:
    options = SaslOptions(lambda: ("PLAIN", "OTHER"), lambda _: PlainServer(USERS), lambda _: max_reauthentication_ms)
    return lambda dispatch: SaslDispatcher(
        dispatch,
        options,
        asyncio.get_running_loop(),
        failure_delay_s=failure_delay_s,
        log=log or AuthenticationLog("SASL"),
    )


def principal(_body: bytes, connection: Connection) -> list[Part]:
    return [framed(connection.principal.encode())]


def body(request: Message, version: int) -> bytes:
    key = ApiKey(request.API_KEY)  # type: ignore[arg-type]
    return encode_request_header(RequestHeader(key, version, 7, "me")) + request.encode(version)


async def call(client: Client, request: Message, version: int, answer: type[M]) -> M:
    client.send(body(request, version))
    frame = memoryview(await client.receive())
    _, at = decode_response_header(ApiKey(request.API_KEY), version, frame)  # type: ignore[arg-type]
    return answer.decode(frame, version, at)


async def handshake(client: Client, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
    return await call(client, SaslHandshakeRequest(mechanism=mechanism), version, SaslHandshakeResponse)


async def authenticate(client: Client, token: bytes = RIGHT, version: int = 2) -> SaslAuthenticateResponse:
    return await call(client, SaslAuthenticateRequest(auth_bytes=token), version, SaslAuthenticateResponse)


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
    async def steps() -> None:
        async with serving(sasl=sasl()) as served:
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


@pytest.mark.parametrize("first", [METADATA, b"", b"\0", b"\0\x24\0\2\0\0\0\1\0\0", b"\x7f\xff\0\0\0\0\0\1\0\0"])
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
        loop, log = asyncio.get_running_loop(), AuthenticationLog("SASL")
        async with serving(
            sasl=lambda dispatch: SaslDispatcher(dispatch, options, loop, failure_delay_s=0, log=log)
        ) as served:
            client = await served.connect()
            await handshake(client)
            assert (await authenticate(client)).session_lifetime_ms == lifetime_ms
            await asyncio.sleep(0.01)
            client.send(b"request")
            assert await client.closed()
            assert served.script.seen == []

    run(steps())


def test_session_that_expires_while_its_client_is_throttled_is_used_until_it_can_authenticate_again() -> None:
    connection = Connection(1, "SASL", "127.0.0.1")
    options = SaslOptions(lambda: ("PLAIN",), lambda _: PlainServer(USERS), lambda _: 1000)
    authenticator = connection.authenticator = SaslAuthenticator(connection, options)
    authenticator.handshake(1, SaslHandshakeRequest(mechanism="PLAIN"))
    authenticator.authenticate(SaslAuthenticateRequest(auth_bytes=RIGHT), now_s=0.0)
    assert [authenticator.has_expired(now_s) for now_s in (1.0, 1.1)] == [False, True]
    connection.mute(until=5.0)
    assert [authenticator.has_expired(now_s) for now_s in (5.0, 6.0, 6.1)] == [False, False, True]
    connection.mute(until=31.0)
    assert [authenticator.has_expired(now_s) for now_s in (31.0, 31.1)] == [False, True]


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
        loop = asyncio.get_running_loop()
        log = AuthenticationLog("SASL")
        async with serving(
            sasl=lambda dispatch: SaslDispatcher(dispatch, options, loop, failure_delay_s=0.0, log=log)
        ) as served:
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
        async with serving(
            sasl=lambda dispatch: SaslDispatcher(dispatch, options, loop, failure_delay_s=0.0, log=log)
        ) as served:
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
        async with serving(
            sasl=lambda dispatch: SaslDispatcher(dispatch, options, loop, failure_delay_s=0.0, log=log)
        ) as served:
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


def test_connection_may_end_while_a_refusal_after_a_hash_is_delayed(run: Run, serving: Serving) -> None:
    mechanism, log = Hashed(), AuthenticationLog("SASL")
    options = SaslOptions(lambda: ("PLAIN",), lambda _: mechanism, lambda _: 0)
    unhandled: list[dict[str, Any]] = []

    async def steps() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unhandled.append(context))
        async with serving(
            sasl=lambda dispatch: SaslDispatcher(dispatch, options, loop, failure_delay_s=0.05, log=log)
        ) as served:
            client = await served.connect()
            await handshake(client)
            others = asyncio.all_tasks()
            client.send(body(SaslAuthenticateRequest(auth_bytes=WRONG), 2))
            while not log.failed:  # noqa: ASYNC110 - the counter has no event
                await asyncio.sleep(0)
            [connection] = served.server.connections
            connection.abort()
            assert await client.closed()
            refusing = asyncio.all_tasks() - others
            assert len(refusing) == 1
            await asyncio.wait(refusing)
            refusing.clear()
            gc.collect()

    run(steps())
    assert unhandled == []
