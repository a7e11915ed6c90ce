r"""SASL/OAUTHBEARER, the broker's side (RFC 7628, KIP-255; Kafka: `OAuthBearerSaslServer`).

The client's only token is `n,a=USER,\x01auth=Bearer TOKEN\x01NAME=VALUE\x01\x01`, with any number of extensions. An
invalid bearer token is answered with a JSON error; the client answers that with `\x01`, and the authentication fails.
Pure. `jwt_validator` validates the bearer token, a JWT.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from broker.security.sasl_mechanisms import AuthenticationError, MechanismError

OAUTHBEARER = "OAUTHBEARER"
_AUTH = "auth="
INVALID_TOKEN = b'{"status":"invalid_token"}'

# Half a megabyte of anyone's text is matched: possessive, so that no part of it is tried twice.
_NAME = r"(?:[^,=\0\x01]++|=2C|=3D)++"
_FIRST = re.compile(rf"n,(?:a=({_NAME}))?,\x01((?:[A-Za-z]++=[\x21-\x7e \t\r\n]*+\x01)*+)\x01")
_BEARER = re.compile(r"[Bb]earer ++([-_.~+/A-Za-z0-9]++=*+)")


class InvalidToken(Exception):  # noqa: N818 - the server's answer, not a failure of the broker
    """A bearer token is not accepted; the message is for the log and has no part of the token's signature.

    `user` is the unverified name in the token, empty if it has none.
    """

    def __init__(self, message: str, user: str = "") -> None:
        super().__init__(message)
        self.user = user


class BearerToken(NamedTuple):
    """A validated token."""

    user: str
    lifetime_ms: int
    """Time until it expires; 0 if it expired within the allowed clock skew."""


class OAuthBearerServer:
    """OAUTHBEARER, by a function that validates bearer tokens."""

    token_authenticated = False  # by a delegation token
    hashing = None

    def __init__(self, validate: Callable[[str], BearerToken]) -> None:
        """`validate` returns the validated token, or raises `InvalidToken`."""
        self._validate = validate
        self._refusal: MechanismError | None = None
        self.user: str | None = None
        self.credential_lifetime_ms: int | None = None

    def respond(self, token: bytes) -> bytes:
        """Authenticate by the client's token, or end a failed authentication."""
        if self._refusal is not None:
            raise self._refusal
        claimed, bearer_token = _parse(token)
        try:
            found = self._validate(bearer_token)
        except InvalidToken as error:
            self._refusal = MechanismError(f"Invalid OAuth bearer token: {error}", error.user or claimed)
            return INVALID_TOKEN
        if claimed and claimed != found.user:
            raise AuthenticationError(
                f"Authentication failed: Client requested an authorization id ({claimed}) that is different from the "
                f"token's principal name ({found.user})",
                found.user,
            )
        self.user, self.credential_lifetime_ms = found
        return b""


def _parse(token: bytes) -> tuple[str, str]:
    """Return the authorization id, empty without one, and the bearer token; `MechanismError` if there is not one."""
    try:
        first = _FIRST.fullmatch(token.decode())
    except UnicodeDecodeError:
        first = None
    values = [] if first is None else [pair[len(_AUTH) :] for pair in first[2].split("\x01") if pair.startswith(_AUTH)]
    bearer = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    if first is None or bearer is None:
        raise MechanismError("Invalid OAUTHBEARER client first message")
    return (first[1] or "").replace("=2C", ",").replace("=3D", "="), bearer[1]
