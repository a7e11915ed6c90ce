"""SASL authentication of one connection, as a state machine without I/O (Kafka: `SaslServerAuthenticator`).

    state           request              becomes
    INITIAL         ApiVersions          HANDSHAKE, once it was answered in its version
    INITIAL,        SaslHandshake        AUTHENTICATE; the connection ends if the mechanism is not enabled
      HANDSHAKE
    AUTHENTICATE    SaslAuthenticate,    COMPLETE after the last token; the connection ends if authentication fails.
                    or a bare token      Bare tokens follow version 0 of SaslHandshake
    COMPLETE        SaslHandshake        AUTHENTICATE again (KIP-368), at most once a second
    COMPLETE        another              handled, unless the session has expired: then the connection ends

Any other request ends the connection. Re-authentication needs the same mechanism and leads to the same principal. A
session ends when its credential expires, or after `connections.max.reauth.ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from broker.network.connection import Connection
from broker.security.sasl_mechanisms import AuthenticationError, MechanismError, ServerMechanism
from broker.security.security_error import SecurityError
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.headers import RequestHeader
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.schema import Message

_MIN_REAUTHENTICATION_S = 1.0
_AFTER_MUTE_S = 1.0  # in which requests that waited for the end of a throttling are read
_MAX_LATE_S = 30.0  # a client that is always throttled must authenticate again, too


class State(Enum):
    """What the connection expects next."""

    INITIAL = "INITIAL"
    HANDSHAKE = "HANDSHAKE"
    AUTHENTICATE = "AUTHENTICATE"
    COMPLETE = "COMPLETE"


class SaslError(Exception):
    """The connection has to be closed, after `response` if there is one; the message is for the log."""

    def __init__(self, why: str, response: Message | None = None, *, user: str = "", mechanism: str = "") -> None:
        """`user` and `mechanism` are those that the client claims."""
        super().__init__(why)
        self.response = response
        self.user = user
        self.mechanism = mechanism


class SaslOptions(NamedTuple):
    """What a listener requires: functions, because settings change."""

    mechanisms: Callable[[], Sequence[str]]
    new_mechanism: Callable[[str], ServerMechanism]
    """Returns the broker's side of one of the enabled mechanisms; `SecurityError` if its settings are invalid now."""
    max_reauthentication_ms: Callable[[str], int]
    """Returns `connections.max.reauth.ms` of a mechanism."""


class SaslAuthenticator:
    """The authentication of one connection."""

    __slots__ = (
        "_began_s",
        "_connection",
        "_expires_s",
        "_mechanism",
        "_name",
        "_options",
        "_unmuted_s",
        "state",
        "takes_bare_tokens",
    )

    def __init__(self, connection: Connection, options: SaslOptions) -> None:
        """Authenticate the client of `connection`, which gets its principal at the end."""
        self._connection = connection
        self._options = options
        self._mechanism: ServerMechanism | None = None
        self._name = ""
        self._began_s = float("-inf")  # when the last re-authentication began
        self._expires_s = float("inf")
        self._unmuted_s = float("-inf")  # when the client's last throttling ends
        self.state = State.INITIAL
        self.takes_bare_tokens = False
        """Whether the next frame is a token without a request's header."""

    @property
    def is_reauthenticating(self) -> bool:
        """Return whether the client had authenticated before."""
        return self._began_s != float("-inf")

    def has_expired(self, now_s: float) -> bool:
        """Return whether the client should have authenticated again.

        What a throttled client sent in time, its next authentication too, is read only after the throttling.
        """
        late_s = now_s - self._expires_s
        return late_s > 0 and (late_s > _MAX_LATE_S or now_s - self._unmuted_s > _AFTER_MUTE_S)

    def muted(self, until_s: float) -> None:
        """Record that the client is throttled: nothing is read from its connection until then."""
        self._unmuted_s = until_s

    def may_reauthenticate(self, now_s: float) -> bool:
        """Return whether a SaslHandshake of an authenticated client begins a re-authentication."""
        return now_s - self._began_s >= _MIN_REAUTHENTICATION_S

    def reauthenticate(self, now_s: float) -> None:
        """Begin the re-authentication; `handshake` follows."""
        self._began_s = now_s
        self.state = State.HANDSHAKE

    def check(self, header: RequestHeader) -> None:
        """Raise `SaslError` if the request is not the one that is expected before the authentication is complete."""
        key = header.api_key
        if self.state is State.AUTHENTICATE:
            expected: tuple[ApiKey, ...] = (ApiKey.SASL_AUTHENTICATE,)
            during = "authentication"
        else:
            during = "handshake"
            expected = (ApiKey.SASL_HANDSHAKE,)
            if self.state is State.INITIAL:
                expected += (ApiKey.API_VERSIONS,)
        if key not in expected:
            raise SaslError(f"Unexpected Kafka request of type {key.name} during SASL {during}.")

    @property
    def hashing(self) -> Callable[[], object] | None:
        """Return the function to run in a thread before the client's next token is handled; None if there is none."""
        return None if self._mechanism is None else self._mechanism.hashing

    def versions_sent(self) -> None:
        """Expect SaslHandshake: ApiVersions was answered."""
        self.state = State.HANDSHAKE

    def handshake(self, version: int, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        """Return the response to SaslHandshake; `SaslError` if the mechanism is not enabled or cannot be used."""
        mechanisms = list(self._options.mechanisms())
        if request.mechanism not in mechanisms:
            raise SaslError("Unsupported SASL mechanism", _unsupported(mechanisms), mechanism=request.mechanism)
        if self._name and self._name != request.mechanism:
            self._mechanism = _Refusing(
                f"SASL mechanism '{request.mechanism}' requested by client is not supported for re-authentication of "
                f"mechanism '{self._name}'"
            )
        else:
            try:
                self._mechanism = self._options.new_mechanism(request.mechanism)
            except SecurityError as error:  # of settings that were altered since the start
                others = [name for name in mechanisms if name != request.mechanism]
                raise SaslError(str(error), _unsupported(others), mechanism=request.mechanism) from None
            self._name = request.mechanism
        self.takes_bare_tokens = version == 0
        self.state = State.AUTHENTICATE
        return SaslHandshakeResponse(mechanisms=mechanisms)

    def authenticate(self, request: SaslAuthenticateRequest, now_s: float) -> SaslAuthenticateResponse:
        """Return the response to SaslAuthenticate; `SaslError` if the authentication fails."""
        try:
            token, lifetime_ms = self._respond(request.auth_bytes, now_s)
        except AuthenticationError as error:
            raise SaslError(str(error), _failed(str(error)), user=error.user, mechanism=self._name) from None
        except MechanismError as error:
            during = "re-authentication" if self.is_reauthenticating else "authentication"
            message = (
                f"Authentication failed during {during} due to invalid credentials with SASL mechanism {self._name}"
            )
            raise SaslError(str(error), _failed(message), user=error.user, mechanism=self._name) from None
        return SaslAuthenticateResponse(error_message=None, auth_bytes=token, session_lifetime_ms=lifetime_ms)

    def token(self, token: bytes, now_s: float) -> bytes:
        """Return the answer to a bare token; `SaslError` if the authentication fails, without an answer."""
        try:
            return self._respond(token, now_s)[0]
        except (AuthenticationError, MechanismError) as error:
            raise SaslError(str(error), user=error.user, mechanism=self._name) from None

    def _respond(self, token: bytes, now_s: float) -> tuple[bytes, int]:
        """Return the mechanism's token and the session's lifetime in ms."""
        mechanism = self._mechanism
        if mechanism is None:
            raise MechanismError("a token without a handshake")
        answer = mechanism.respond(bytes(token))
        if mechanism.user is None:
            return answer, 0
        principal = f"User:{mechanism.user}"
        before = self._connection.principal
        if self.is_reauthenticating and principal != before:
            raise AuthenticationError(
                f"Cannot change principals during re-authentication from {before.replace(':', '.', 1)}: "
                f"{principal.replace(':', '.', 1)}",
                mechanism.user,
            )
        self._mechanism = None
        self.takes_bare_tokens = False
        limit_ms = self._options.max_reauthentication_ms(self._name)
        lifetimes_ms = [limit_ms] if limit_ms > 0 else []
        if mechanism.credential_lifetime_ms is not None:
            lifetimes_ms.append(mechanism.credential_lifetime_ms)
        self._expires_s = now_s + min(lifetimes_ms) / 1000 if lifetimes_ms else float("inf")
        self._connection.authenticated(
            principal, by_token=mechanism.token_authenticated, session_ends=bool(lifetimes_ms)
        )
        self.state = State.COMPLETE
        return answer, min(lifetimes_ms, default=0)


class _Refusing:
    """Refuses the mechanism of a re-authentication."""

    token_authenticated = False
    hashing = None

    def __init__(self, why: str) -> None:
        self.user: str | None = None
        self.credential_lifetime_ms: int | None = None
        self._why = why

    def respond(self, token: bytes) -> bytes:  # noqa: ARG002
        raise AuthenticationError(self._why)


def _unsupported(mechanisms: list[str]) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)


def _failed(message: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message, auth_bytes=b""
    )
