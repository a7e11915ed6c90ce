"""SCRAM-SHA-256 and SCRAM-SHA-512, the broker's and the client's side (RFC 5802, 7677).

Pure. An unknown user gets a decoy (`scram_decoys`) and fails with the proof, after the same work as one with a wrong
password. Kafka, which refuses an unknown user at once: `ScramSaslServer`, `ScramSaslClient`, `ScramFormatter`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable

from broker.security.sasl_mechanisms import MechanismError, check_authorization_id
from broker.security.token_credentials import TokenCredentials
from controller.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism

_NAME, _NONCE = r"(?:[^,=\0]++|=2C|=3D)++", r"[\x21-\x2b\x2d-\x7e]+"
_BASE64, _EXTENSIONS = r"[A-Za-z0-9/+]+={0,2}", r"(?:,[A-Za-z]+=[^\0,]+)*"
_BY_TOKEN = "tokenauth=true"  # noqa: S105  # an extension
_CLIENT_FIRST = re.compile(rf"(n,(?:a=({_NAME}))?,)((?:m=[^\0,]+,)?n=({_NAME}),r=({_NONCE})({_EXTENSIONS}))")
_CLIENT_FINAL = re.compile(rf"(c=({_BASE64}),r=({_NONCE}){_EXTENSIONS}),p=({_BASE64})")
_SERVER_FIRST = re.compile(rf"r=({_NONCE}),s=({_BASE64}),i=([1-9][0-9]*){_EXTENSIONS}")
_SERVER_FINAL = re.compile(rf"(?:e=([^\0,]+)|v=({_BASE64})){_EXTENSIONS}")

_NONCE_TWICE = " It has the client's part twice, as librdkafka before 2.6.1 sends it: update librdkafka"


class ScramServer:
    """SCRAM, by stored credentials; by those of delegation tokens with the extension `tokenauth=true`."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential_of: Callable[[str], ScramCredential | None],
        nonce: str,
        decoy_of: Callable[[str], ScramCredential],
        tokens: TokenCredentials | None = None,
    ) -> None:
        """`credential_of` returns the credential of a user; `nonce` is the broker's part of the nonce.

        `decoy_of` returns what a user without a credential is challenged with; `tokens` has those of delegation tokens.
        """
        self._tokens = tokens
        self._decoy_of = decoy_of
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._nonce = nonce
        self._claimed = ""
        self._known = False
        self._credential: ScramCredential | None = None
        self._binding = self._messages = b""
        self.user: str | None = None
        self.credential_lifetime_ms: int | None = None
        self.token_authenticated = False

    @property
    def hashing(self) -> Callable[[], object] | None:
        """Return the function that makes the credential of a challenged token; None if it is not needed."""
        if self._tokens is None or self._credential is None or not self.token_authenticated:
            return None
        return self._tokens.hashing(self._mechanism, self._claimed)

    def respond(self, token: bytes) -> bytes:
        """Return the server's first or final message."""
        try:
            try:
                text = token.decode()
            except UnicodeDecodeError:
                raise MechanismError("Invalid SCRAM message: not UTF-8") from None
            return self._final(text, self._credential) if self._credential is not None else self._first(text)
        except MechanismError as error:
            error.user = self._claimed  # that of the first message
            raise

    def _first(self, text: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise MechanismError("Invalid SCRAM client first message format")
        header, authorization_id, bare, name, nonce, extensions = match.groups()
        user = name.replace("=2C", ",").replace("=3D", "=")
        check_authorization_id((authorization_id or "").replace("=2C", ",").replace("=3D", "="), user)
        self.token_authenticated = _BY_TOKEN in extensions.lower().split(",")
        found = None if self.token_authenticated else self._credential_of(user)
        if self.token_authenticated and self._tokens is not None:
            decoy = self._tokens.decoy_of(self._mechanism, user)
        else:
            decoy = self._decoy_of(user)
        self._claimed, self._known = user, found is not None
        self._credential = credential = found or decoy
        self._nonce = nonce + self._nonce
        self._binding = header.encode()
        answer = f"r={self._nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}".encode()
        self._messages = bare.encode() + b"," + answer
        return answer

    def _final(self, text: str, credential: ScramCredential) -> bytes:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise MechanismError("Invalid SCRAM client final message format")
        without_proof, binding, nonce, proof_text = match.groups()
        binding_bytes, proof = _decoded(binding), _decoded(proof_text)
        if nonce != self._nonce:
            hint = _NONCE_TWICE if nonce.endswith(self._nonce) else ""
            raise MechanismError(f"Invalid client nonce in the final client message.{hint}")
        if binding_bytes != self._binding:
            raise MechanismError("Invalid channel binding in the final client message")
        mechanism, known, token = self._mechanism, self._known, None
        if self._tokens is not None and self.token_authenticated:
            token = self._tokens.of(mechanism, self._claimed)
        if token is not None:
            credential, known = token.credential, True
        message = self._messages + b"," + without_proof.encode()
        signature = mechanism.hmac(credential.stored_key, message)
        if len(proof) != len(signature):
            raise MechanismError("Invalid client credentials")
        client_key = _xor(signature, proof)
        valid = hmac.compare_digest(mechanism.hash(client_key), credential.stored_key)
        if not valid or not known:
            raise MechanismError("Invalid client credentials")
        if token is None:
            self.user = self._claimed
        elif token.lifetime_ms < 0:
            raise MechanismError("The delegation token has expired")
        else:
            self.user, self.credential_lifetime_ms = token.owner, token.lifetime_ms
        return b"v=" + b64encode(mechanism.hmac(credential.server_key, message))


class ScramClient:
    """SCRAM for a user and its password."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, nonce: str) -> None:
        self._mechanism = mechanism
        self._password = password.encode()
        self._nonce = nonce
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={nonce}".encode()
        self._expected: bytes | None = None

    @property
    def hashes_next(self) -> bool:
        """Return whether the password was not yet hashed."""
        return self._expected is None

    def first(self) -> bytes:
        """Return the client's first message."""
        return b"n,," + self._bare

    def respond(self, token: bytes) -> bytes | None:
        """Return the client's final message; None once the server has proved that it knows the credential."""
        text = token.decode(errors="replace")
        if self._expected is not None:
            match = _SERVER_FINAL.fullmatch(text)
            if match is None or match[2] is None or not hmac.compare_digest(_decoded(match[2]), self._expected):
                raise MechanismError("the server does not know the credential")
            return None
        match = _SERVER_FIRST.fullmatch(text)
        if match is None or not match[1].startswith(self._nonce) or match[1] == self._nonce:
            raise MechanismError("invalid SCRAM server first message")
        iterations = int(match[3])
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise MechanismError(f"the server requests {iterations} SCRAM iterations")
        mechanism = self._mechanism
        salted = hashlib.pbkdf2_hmac(mechanism.hash_name, self._password, _decoded(match[2]), iterations)
        client_key = mechanism.hmac(salted, b"Client Key")
        without_proof = f"c=biws,r={match[1]}".encode()
        message = self._bare + b"," + token + b"," + without_proof
        proof = _xor(client_key, mechanism.hmac(mechanism.hash(client_key), message))
        self._expected = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), message)
        return without_proof + b",p=" + b64encode(proof)


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error:
        raise MechanismError("Invalid SCRAM message: damaged base64") from None


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
