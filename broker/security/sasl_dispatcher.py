"""Dispatcher of a listener with SASL: authenticates clients, and passes on the requests of authenticated ones.

A failed authentication is answered after `connection.failed.authentication.delay.ms`, which slows down guessing, and
then the connection is closed. Until a client is authenticated its frames may have `sasl.server.max.receive.size` bytes
(CVE-2023-34455 and others).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING

from broker.dispatch import encode_response
from broker.network.connection import Connection, Disconnect
from broker.network.connection_protocol import DeferredResponse
from broker.security.authentication_log import AuthenticationLog
from broker.security.sasl_authenticator import SaslAuthenticator, SaslError, SaslOptions, State
from protocol.api import APIS, ApiKey
from protocol.errors import DecodeError
from protocol.headers import decode_request_header
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.primitives import Part, read_parts
from protocol.schema import Message

if TYPE_CHECKING:
    from broker.network.connection_protocol import Dispatch

_API_KEY = Struct(">h")
_SIZE = Struct(">i")
_CORRELATION_ID = Struct(">i")
_ERROR_CODE = Struct(">h")


class SaslDispatcher:
    """Authenticates the connections of one listener."""

    def __init__(
        self,
        dispatch: Dispatch,
        options: SaslOptions,
        loop: asyncio.AbstractEventLoop,
        *,
        failure_delay_s: float,
        log: AuthenticationLog,
    ) -> None:
        """`dispatch` handles the requests of authenticated clients, and ApiVersions before."""
        self._log = log
        self._dispatch = self._dispatch_before_login = dispatch
        self._options = options
        self._loop = loop
        self._failure_delay_s = failure_delay_s

    def dispatch_with(self, dispatch: Dispatch) -> None:
        """Hand the later requests of authenticated clients to another dispatcher.

        Not ApiVersions before the authentication: a client could use up the quota of another's client id.
        """
        self._dispatch = dispatch

    def __call__(self, frame: memoryview, connection: Connection) -> list[Part] | DeferredResponse | None:
        """Handle one frame. `DecodeError` and `Disconnect` mean that the connection must be closed."""
        authenticator = connection.authenticator
        if authenticator is None:
            authenticator = connection.authenticator = SaslAuthenticator(connection, self._options)
        now_s = self._loop.time()
        if authenticator.state is State.COMPLETE:
            is_handshake = len(frame) >= 2 and _API_KEY.unpack_from(frame)[0] == ApiKey.SASL_HANDSHAKE
            if not (is_handshake and authenticator.may_reauthenticate(now_s)):
                if authenticator.has_expired(now_s):
                    self._log.expired += 1
                    raise Disconnect("its SASL session has expired, and it did not authenticate again")
                return self._dispatch(frame, connection)
            authenticator.reauthenticate(now_s)
        hashing = authenticator.hashing
        if hashing is not None:
            kept = memoryview(bytearray(frame))
            response = self._loop.create_task(self._take_after(hashing, authenticator, kept, connection))
            response.add_done_callback(_retrieve)
            return DeferredResponse(ApiKey.SASL_AUTHENTICATE, response)
        return self._take(authenticator, frame, connection, now_s)

    async def _take_after(
        self,
        hashing: Callable[[], object],
        authenticator: SaslAuthenticator,
        frame: memoryview,
        connection: Connection,
    ) -> list[Part] | None:
        """Return the response to a frame that is handled once a thread has done `hashing`."""
        await self._loop.run_in_executor(None, hashing)
        if connection.closed:
            return None
        try:
            outcome = self._take(authenticator, frame, connection, self._loop.time())
        except DecodeError as error:
            raise Disconnect(str(error)) from None
        return await outcome.response if isinstance(outcome, DeferredResponse) else outcome

    def _take(
        self, authenticator: SaslAuthenticator, frame: memoryview, connection: Connection, now_s: float
    ) -> list[Part] | DeferredResponse | None:
        """Handle one frame of a client that is not authenticated yet."""
        if authenticator.takes_bare_tokens:
            return self._take_bare_token(authenticator, frame, connection, now_s)
        return self._handle(authenticator, frame, connection, now_s)

    def _take_bare_token(
        self, authenticator: SaslAuthenticator, frame: memoryview, connection: Connection, now_s: float
    ) -> list[Part] | DeferredResponse:
        try:
            token = authenticator.token(bytes(frame), now_s)
        except SaslError as error:
            return self._refuse(error, None, authenticator, connection, now_s)
        self._count_success(authenticator, now_s, only_once=True)
        return [_SIZE.pack(len(token)) + token]

    def _handle(
        self, authenticator: SaslAuthenticator, frame: memoryview, connection: Connection, now_s: float
    ) -> list[Part] | DeferredResponse | None:
        header, body_at = decode_request_header(frame)
        key, version, _, _ = header
        try:
            authenticator.check(header)
        except SaslError as error:
            raise Disconnect(str(error)) from None
        if key is ApiKey.API_VERSIONS:
            answered = self._dispatch_before_login(frame, connection)
            if version in APIS[key].versions and isinstance(answered, list) and not _error_code_in(answered):
                authenticator.versions_sent()
            return answered
        if version not in APIS[key].versions:
            raise Disconnect(f"{APIS[key].name} has no version {version}")
        try:
            answer: Message
            if key is ApiKey.SASL_HANDSHAKE:
                answer = authenticator.handshake(version, SaslHandshakeRequest.decode(frame, version, body_at))
            else:
                answer = authenticator.authenticate(SaslAuthenticateRequest.decode(frame, version, body_at), now_s)
        except SaslError as error:
            response = None if error.response is None else encode_response(header, error.response)
            return self._refuse(error, response, authenticator, connection, now_s)
        self._count_success(authenticator, now_s, only_once=version == 0)
        return encode_response(header, answer)

    def _count_success(self, authenticator: SaslAuthenticator, now_s: float, *, only_once: bool) -> None:
        if authenticator.state is State.COMPLETE:
            self._log.succeeded(now_s=now_s, again=authenticator.is_reauthenticating, only_once=only_once)

    def _refuse(
        self,
        error: SaslError,
        response: list[Part] | None,
        authenticator: SaslAuthenticator,
        connection: Connection,
        now_s: float,
    ) -> DeferredResponse:
        """Return a response that comes after the delay, and ends the connection."""
        self._log.refused(
            str(error),
            user=error.user,
            host=connection.client_host,
            mechanism=error.mechanism,
            now_s=now_s,
            again=authenticator.is_reauthenticating,
        )
        refused: asyncio.Future[list[Part] | None] = self._loop.create_future()
        self._loop.call_later(
            self._failure_delay_s,
            _end,
            refused,
            Disconnect(f"failed authentication: {error}", response, is_logged=True),
        )
        return DeferredResponse(ApiKey.SASL_AUTHENTICATE, refused)


def _error_code_in(api_versions: list[Part]) -> int:
    """Return the error code in a response to ApiVersions, behind its size and correlation id."""
    code: int = _ERROR_CODE.unpack_from(read_parts(api_versions[:1]), _SIZE.size + _CORRELATION_ID.size)[0]
    return code


def _retrieve(response: asyncio.Future[list[Part] | None]) -> None:
    """Mark the exception as retrieved, for a connection that is closed already."""
    if not response.cancelled():
        response.exception()


def _end(refused: asyncio.Future[list[Part] | None], reason: Disconnect) -> None:
    if not refused.done():
        refused.set_exception(reason)
        refused.exception()  # marks it as retrieved, for a connection that is closed already
