"""Decoys: the credentials by which users without one are challenged, so that clients cannot tell who has one.

A decoy has iterations and a salt as stored credentials have them: bytes of the same number, or text as Apache Kafka's
tools make it. It is derived from a random secret (`controller.scram.DECOY_KEY`) that is stored in the metadata log with
the first credential. So all brokers give a user the same decoy, also after a restart, and while other users are changed
to credentials of the same forms. A metadata log of Apache Kafka has no such secret: until a credential is altered, the
secret is the server key of the first user by name. Without any credential it is random, and lasts as long as the
process; there are no users to tell apart then.

Pure. Source: RFC 5802 has no rule for unknown users; `ScramFormatter.secureRandomString` is the form of Kafka's salts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import NamedTuple

from controller.scram import DECOY_KEY, MIN_ITERATIONS, ScramCredential, ScramMechanism

_KAFKA_SALT = re.compile(rb"[0-9a-z]{24,26}")
_KAFKA_SALT_BITS = 130  # a random number, written in base 36
_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"


class _Form(NamedTuple):
    """What a client sees of a credential, apart from the values in the salt."""

    salt_bytes: int
    """0 if the salt is one of Apache Kafka's."""
    iterations: int


class ScramDecoys:
    """The decoys of one mechanism."""

    def __init__(
        self, mechanism: ScramMechanism, credentials: Mapping[tuple[str, int], ScramCredential], spare_secret: bytes
    ) -> None:
        """`credentials` are those of all users and mechanisms; `spare_secret` is used if there are none."""
        self.credentials = credentials
        self._size = len(mechanism.hash(b""))
        secret = credentials[min(credentials)].server_key if credentials else spare_secret  # DECOY_KEY is the lowest
        self._key = hashlib.sha256(b"SCRAM decoys" + secret).digest()
        users = ((key, stored) for key, stored in credentials.items() if key != DECOY_KEY)
        forms = {_form(stored) for (_, number), stored in users if number == mechanism.number}
        self._forms = sorted(forms) or [_Form(0, MIN_ITERATIONS)]

    def of(self, user: str) -> ScramCredential:
        """Return the decoy of a user; no password has its keys."""
        # The highest hash decides, so that most decoys keep their form when a credential of a new form is stored.
        form = max(self._forms, key=lambda form: self._digest(f"{form.salt_bytes} {form.iterations} {user}", 8))
        salt = self._digest(user, form.salt_bytes) if form.salt_bytes else self._kafka_salt(user)
        return ScramCredential(salt, bytes(self._size), bytes(self._size), form.iterations)

    def _kafka_salt(self, user: str) -> bytes:
        number = int.from_bytes(self._digest(user, 17)) >> 17 * 8 - _KAFKA_SALT_BITS
        digits = bytearray()
        while number:
            number, digit = divmod(number, len(_DIGITS))
            digits.append(_DIGITS[digit])
        return bytes(reversed(digits))

    def _digest(self, text: str, size: int) -> bytes:
        return hashlib.shake_256(self._key + text.encode()).digest(size)


def _form(credential: ScramCredential) -> _Form:
    is_kafkas = _KAFKA_SALT.fullmatch(credential.salt) is not None
    return _Form(0 if is_kafkas else len(credential.salt), credential.iterations)
