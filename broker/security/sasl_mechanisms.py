"""SASL mechanisms, the broker's and the client's side, and PLAIN (RFC 4616; Kafka: `PlainSaslServer`).

Pure: tokens in, tokens out. A server mechanism raises `AuthenticationError` with a message for the client, or
`MechanismError`, whose message is only for the log (Kafka: `SaslAuthenticationException`, `SaslException`). Secrets are
compared in constant time. SCRAM is `scram`.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Protocol

PLAIN = "PLAIN"


class AuthenticationError(Exception):
    """The client is not authenticated; the message is for the client, `user` for the log: the name that it claims."""

    def __init__(self, message: str, user: str = "") -> None:
        super().__init__(message)
        self.user = user


class MechanismError(Exception):
    """The client is not authenticated, or its token is invalid; the message and `user` are for the log only."""

    def __init__(self, message: str, user: str = "") -> None:
        super().__init__(message)
        self.user = user


class ServerMechanism(Protocol):
    """The broker's side of one authentication."""

    user: str | None
    """The authenticated user; None before."""
    credential_lifetime_ms: int | None
    """Time until the credential of the authenticated user expires; None if it never does."""
    token_authenticated: bool
    """Whether the client uses a delegation token."""

    @property
    def hashing(self) -> Callable[[], object] | None:
        """Return the function to run in a thread before the next `respond`; None if that takes no milliseconds."""

    def respond(self, token: bytes) -> bytes:
        """Return the token for the client."""


class ClientMechanism(Protocol):
    """The client's side of one authentication."""

    @property
    def hashes_next(self) -> bool:
        """Return whether the next `respond` takes milliseconds, and belongs on a thread."""

    def first(self) -> bytes:
        """Return the first token."""

    def respond(self, token: bytes) -> bytes | None:
        """Return the next token; None if the server has authenticated this client and, with SCRAM, itself."""


class PlainServer:
    """PLAIN, by the passwords of `users`."""

    token_authenticated = False
    hashing = None

    def __init__(self, users: Mapping[str, str]) -> None:
        """`users` has the password of each user."""
        self._users = users
        self.user: str | None = None
        self.credential_lifetime_ms: int | None = None

    def respond(self, token: bytes) -> bytes:
        """Authenticate by the only token, `authorization id NUL user NUL password`."""
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise MechanismError("Invalid SASL/PLAIN response: not UTF-8") from None
        if len(parts) != 3:
            raise MechanismError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user or not password:
            raise MechanismError(f"Authentication failed: {'password' if user else 'username'} not specified", user)
        expected = self._users.get(user)
        equal = hmac.compare_digest(
            password.encode(), (password[::-1] + "x" if expected is None else expected).encode()
        )
        if expected is None or not equal:
            raise AuthenticationError("Authentication failed: Invalid username or password", user)
        check_authorization_id(authorization_id, user)
        self.user = user
        return b""


def check_authorization_id(authorization_id: str, user: str) -> None:
    """Raise `AuthenticationError` for an authorization id of another user (CVE-2017-12610)."""
    if authorization_id and authorization_id != user:
        raise AuthenticationError(
            "Authentication failed: Client requested an authorization id that is different from username", user
        )


class PlainClient:
    """PLAIN for a user and its password."""

    hashes_next = False

    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()

    def first(self) -> bytes:
        """Return the only token."""
        return self._token

    def respond(self, token: bytes) -> None:
        """Return None: the server has answered."""
