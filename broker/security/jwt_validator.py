"""Validation of JWT access tokens (KIP-768; Kafka: `BrokerJwtValidator`).

A token is accepted if its signature is of one of the configured keys, by an asymmetric algorithm, and its claims have
an expiry in the future, a time of issue in the past, a user, and the expected issuer and audience. Keys are taken from
the configured source only, never from the token. Pure; the package joserfc does the cryptography.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from joserfc import jwt
from joserfc.errors import BadSignatureError, JoseError
from joserfc.jwk import GuestProtocol, Key, KeySet

from broker.security.oauthbearer import BearerToken, InvalidToken

# No `none`, and no HMAC: a public key must never be the secret of a signature (CVE-2015-9235).
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_PARTS = 3
_MAX_CLAIMED_BYTES = 64 * 1024  # of the claims that are read from a token which was refused
_MAX_REASON = 200  # characters of a library's message
_MAX_LIFETIME_MS = (1 << 63) - 1  # what fits into the response


class JwtExpectations(NamedTuple):
    """What a token must have."""

    issuer: str | None
    audiences: Sequence[str]
    """The token must be for one of these; for anyone if empty."""
    clock_skew_s: int
    user_claim: str
    scope_claim: str


class JwtValidator:
    """Validates tokens by the keys of one source."""

    def __init__(
        self, expected: JwtExpectations, keys: Callable[[], KeySet], on_unknown_key: Callable[[], None]
    ) -> None:
        """`keys` returns the current keys; `on_unknown_key` is called for a token of another key."""
        self._expected = expected
        self._keys = keys
        self._on_unknown_key = on_unknown_key

    def validate(self, token: str, now_ms: int) -> BearerToken:
        """Return the user and the lifetime of a token; `InvalidToken`, with the user it claims, if not accepted."""
        try:
            return self._validate(token, now_ms)
        except InvalidToken as error:
            error.user = _claimed_user(token, self._expected.user_claim)
            raise

    def _validate(self, token: str, now_ms: int) -> BearerToken:
        if token.count(".") != _PARTS - 1:
            raise InvalidToken("it is not a signed JWT")
        try:
            claims = jwt.decode(token, self._key_of, algorithms=_ALGORITHMS).claims
            self._claims(now_ms).validate(claims)
            user, lifetime_ms = claims[self._expected.user_claim], int(claims["exp"] * 1000) - now_ms
        except InvalidToken:
            raise
        except BadSignatureError:
            raise InvalidToken("its signature is not by the key that it names") from None
        except JoseError as error:
            raise InvalidToken(f"{error.description or type(error).__name__}"[:_MAX_REASON]) from None
        except Exception as error:  # whatever a damaged token makes the library raise
            raise InvalidToken(f"{type(error).__name__}: {error}"[:_MAX_REASON]) from None
        if not isinstance(user, str) or not user.strip():
            raise InvalidToken(f"its claim {self._expected.user_claim} is not a name")
        scope = claims.get(self._expected.scope_claim, "")
        if not isinstance(scope, str) and not (isinstance(scope, list) and all(isinstance(one, str) for one in scope)):
            raise InvalidToken(f"its claim {self._expected.scope_claim} is neither a text nor a list of texts")
        return BearerToken(user.strip(), min(max(0, lifetime_ms), _MAX_LIFETIME_MS))

    def _key_of(self, token: GuestProtocol) -> Key:
        """Return the key that a token names; the only key if it names none."""
        keys, key_id = self._keys().keys, token.headers().get("kid")
        found = keys if key_id is None else [key for key in keys if key.kid == key_id]
        if key_id is not None and not found:
            self._on_unknown_key()
            raise InvalidToken("it is signed by an unknown key (kid)")
        if len(found) != 1:
            raise InvalidToken("it does not name its key (kid), and there are several")
        return found[0]

    def _claims(self, now_ms: int) -> jwt.JWTClaimsRegistry:
        expected = self._expected
        required: dict[str, Any] = {
            "exp": {"essential": True},
            "iat": {"essential": True},
            expected.user_claim: {"essential": True},
        }
        if expected.issuer is not None:
            required["iss"] = {"essential": True, "value": expected.issuer}
        if expected.audiences:
            required["aud"] = {"essential": True, "values": list(expected.audiences)}
        return jwt.JWTClaimsRegistry(now=now_ms // 1000, leeway=expected.clock_skew_s, **required)


def _claimed_user(token: str, claim: str) -> str:
    """Return the user in a token that was refused, for the log only; "" if it has none that can be read."""
    try:
        _, payload, *_ = token.split(".")
        if len(payload) > _MAX_CLAIMED_BYTES:
            return ""
        user = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))[claim]
    except Exception:  # whatever damaged claims make the decoders raise
        return ""
    return user if isinstance(user, str) else ""
