"""SCRAM credentials of delegation tokens (KIP-48; Kafka: `DelegationTokenManager.prepareScramCredentials`).

The bearer of a token authenticates by SCRAM with the extension `tokenauth=true`, with the token's id as user and the
base64 of its HMAC as password. No credential is stored: each broker makes one when a token is first used, in a thread,
after the challenge. Salts are derived from the secret key, so that ids without a token are challenged like those with
one, and all brokers alike.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from controller.delegation_tokens import DelegationToken, TokenHmacs
from controller.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism, credential_from

_SALT_BYTES = 24
_USER = "User:"


class TokenCredential(NamedTuple):
    """The credential of a token, and the user that its bearer becomes."""

    owner: str
    """The name of that user."""
    lifetime_ms: int
    """Time until the token expires; negative if it has."""
    credential: ScramCredential


class TokenCredentials:
    """The credentials of all tokens."""

    def __init__(
        self, hmacs: TokenHmacs, tokens: Callable[[], Mapping[str, DelegationToken]], now_ms: Callable[[], int]
    ) -> None:
        """`tokens` returns the current ones, `now_ms` the wall clock."""
        self._now_ms = now_ms
        self._hmacs = hmacs
        self._tokens = tokens
        self._made: dict[tuple[str, str], ScramCredential] = {}

    def of(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        """Return the credential of a token, expired or not; None if no user has such a token."""
        token = self._tokens().get(token_id)
        if token is None or not token.owner.startswith(_USER):
            return None
        credential = self._made_of(mechanism, token_id)
        lifetime_ms = min(token.expiry_ms, token.max_ms) - self._now_ms()
        return TokenCredential(token.owner.removeprefix(_USER), lifetime_ms, credential)

    def hashing(self, mechanism: ScramMechanism, token_id: str) -> Callable[[], object] | None:
        """Return the function that makes the credential of a token, to run in a thread; None if it is not needed."""
        tokens = self._tokens()
        if token_id not in tokens or (mechanism.name, token_id) in self._made:
            return None
        if len(self._made) > 4 * len(tokens):
            # A credential that a thread adds meanwhile is lost: `of` makes it again.
            self._made = {key: self._made[key] for key in tuple(self._made) if key[1] in tokens}
        return partial(self._made_of, mechanism, token_id)

    def decoy_of(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        """Return the credential by which each id is challenged, and one without a token refused: no password fits."""
        no_key = bytes(len(mechanism.hash(b"")))
        return ScramCredential(self._salt(mechanism, token_id), no_key, no_key, MIN_ITERATIONS)

    def _made_of(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        """Return the credential of a token, made once."""
        made = self._made.get((mechanism.name, token_id))
        if made is not None:
            return made
        salt = self._salt(mechanism, token_id)
        salted = hashlib.pbkdf2_hmac(mechanism.hash_name, b64encode(self._hmacs.of(token_id)), salt, MIN_ITERATIONS)
        made = self._made[mechanism.name, token_id] = credential_from(mechanism, salt, salted, MIN_ITERATIONS)
        return made

    def _salt(self, mechanism: ScramMechanism, token_id: str) -> bytes:
        return self._hmacs.derive(f"{mechanism.name} salt of {token_id}")[:_SALT_BYTES]
