"""Delegation tokens and their HMACs (KIP-48; Kafka: `TokenInformation`, `DelegationTokenManager`).

The metadata log has the tokens, not their HMACs: each node derives the HMAC of a token, which is the password of its
bearer, from the token's id and `delegation.token.secret.key`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import NamedTuple

from protocol.records.metadata import DelegationTokenRecord

_HASH = "sha512"


class DelegationToken(NamedTuple):
    """A token. Principals are `type:name`; times are in ms since 1970."""

    token_id: str
    owner: str
    """The principal that the bearer is authenticated as."""
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    """The latest time to which the token can be renewed."""
    expiry_ms: int

    def may_renew(self, principal: str) -> bool:
        """Return whether a principal may renew the token and let it expire."""
        return principal == self.owner or principal in self.renewers

    def may_be_seen_by(self, principal: str) -> bool:
        """Return whether a principal may see the token without an ACL (Kafka: `TokenInformation.ownerOrRenewer`)."""
        return principal == self.requester or self.may_renew(principal)

    def has_expired(self, now_ms: int) -> bool:
        """Return whether the token is no longer valid."""
        return self.max_ms < now_ms or self.expiry_ms < now_ms


class TokenHmacs:
    """The HMACs by one secret key, each computed once."""

    def __init__(self, secret_key: str) -> None:
        self._key = secret_key.encode()
        self._tokens: Mapping[str, DelegationToken] = {}
        self._hmacs: dict[str, bytes] = {}
        # By a digest, so that the time of a look-up does not depend on how much of an HMAC was guessed.
        self._by_digest: dict[bytes, str] = {}

    def of(self, token_id: str) -> bytes:
        """Return the HMAC of a token."""
        return self._hmacs.get(token_id) or self.derive(token_id)

    def derive(self, text: str) -> bytes:
        """Return the HMAC of any text."""
        return hmac.digest(self._key, text.encode(), _HASH)

    def find(self, tokens: Mapping[str, DelegationToken], token_hmac: bytes) -> DelegationToken | None:
        """Return the one of `tokens` that has an HMAC, or None; the mapping itself never changes."""
        if tokens is not self._tokens:
            self._follow(tokens)
        token_id = self._by_digest.get(_digest(token_hmac))
        if token_id is None or not hmac.compare_digest(self._hmacs[token_id], token_hmac):
            return None
        return tokens[token_id]

    def _follow(self, tokens: Mapping[str, DelegationToken]) -> None:
        for token_id in self._hmacs.keys() - tokens.keys():
            del self._by_digest[_digest(self._hmacs.pop(token_id))]
        for token_id in tokens.keys() - self._hmacs.keys():
            found = self._hmacs[token_id] = self.derive(token_id)
            self._by_digest[_digest(found)] = token_id
        self._tokens = tokens


class TokenRules(NamedTuple):
    """The settings of tokens."""

    hmacs: TokenHmacs | None
    """None without a secret key: there are no tokens."""
    max_lifetime_ms: int
    expiry_time_ms: int


def _digest(token_hmac: bytes) -> bytes:
    return hashlib.sha256(token_hmac).digest()


def token_of(record: DelegationTokenRecord) -> DelegationToken:
    """Return the token in a record."""
    return DelegationToken(
        token_id=record.token_id,
        owner=record.owner,
        requester=record.requester,
        renewers=tuple(record.renewers),
        issued_ms=record.issue_timestamp,
        max_ms=record.max_timestamp,
        expiry_ms=record.expiration_timestamp,
    )


def token_record(token: DelegationToken) -> DelegationTokenRecord:
    """Return the record of a token."""
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issued_ms,
        max_timestamp=token.max_ms,
        expiration_timestamp=token.expiry_ms,
        token_id=token.token_id,
    )
