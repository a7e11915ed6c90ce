"""SCRAM mechanisms and the credentials that are stored of a password.

RFC 5802; Kafka: `ScramMechanism`, `ScramFormatter`.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

from protocol.records.metadata import UserScramCredentialRecord

MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384


class ScramMechanism(NamedTuple):
    """A SCRAM mechanism: its number in records and requests, its name, and its hash."""

    number: int
    name: str
    hash_name: str

    def hmac(self, key: bytes, data: bytes) -> bytes:
        """Return the HMAC of `data`."""
        return hmac.digest(key, data, self.hash_name)

    def hash(self, data: bytes) -> bytes:
        """Return the hash of `data`."""
        return hashlib.new(self.hash_name, data).digest()


SCRAM_MECHANISMS = (ScramMechanism(1, "SCRAM-SHA-256", "sha256"), ScramMechanism(2, "SCRAM-SHA-512", "sha512"))
SCRAM_BY_NUMBER = {mechanism.number: mechanism for mechanism in SCRAM_MECHANISMS}
SCRAM_BY_NAME = {mechanism.name: mechanism for mechanism in SCRAM_MECHANISMS}


DECOY_KEY = "", SCRAM_MECHANISMS[0].number
"""User and mechanism of the credential whose server key is the secret of decoys; no client can use this name."""
DECOY_SECRET_BYTES = 32


class ScramCredential(NamedTuple):
    """What the broker stores of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def credential_from(mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
    """Return the credential of a salted password."""
    client_key = mechanism.hmac(salted_password, b"Client Key")
    return ScramCredential(salt, mechanism.hash(client_key), mechanism.hmac(salted_password, b"Server Key"), iterations)


def decoy_secret_record(secret: bytes) -> UserScramCredentialRecord:
    """Return the record of the secret from which all brokers of the cluster derive decoys.

    It has the form of a credential, which Apache Kafka can read.
    """
    user, mechanism = DECOY_KEY
    no_key = bytes(DECOY_SECRET_BYTES)
    return UserScramCredentialRecord(
        name=user, mechanism=mechanism, salt=b"decoys", stored_key=no_key, server_key=secret, iterations=MIN_ITERATIONS
    )
