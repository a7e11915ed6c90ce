"""A TLS client that sends records of its own after the handshake: what no client library sends.

The handshake is OpenSSL's, which logs its secrets; the records are encrypted here (RFC 5246, 5288, 8446).
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_HANDSHAKE = 22
_APPLICATION_DATA = 23
_TLS12_SUITE = "ECDHE-ECDSA-AES128-GCM-SHA256"
_TLS13_SUITE = "TLS_AES_256_GCM_SHA384"
_CLIENT_HELLO = b"\1\0\0\0"
"""As much of a ClientHello as OpenSSL needs to refuse it."""


class TlsConnection:
    """One connection to a broker, after the handshake."""

    def __init__(self, raw: socket.socket, trusted: Path, version: ssl.TLSVersion, key_log: Path) -> None:
        self.socket = raw
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=str(trusted))
        context.minimum_version = context.maximum_version = version
        if version is ssl.TLSVersion.TLSv1_2:
            context.set_ciphers(_TLS12_SUITE)
        key_log.unlink(missing_ok=True)
        context.keylog_filename = str(key_log)
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")
        self._received = b""
        self._until_done(self._session.do_handshake)
        raw.sendall(self._outgoing.read())
        self._secrets = {label: bytes.fromhex(value) for label, _, value in map(str.split, _lines(key_log))}
        self._randoms = {label: bytes.fromhex(value) for label, value, _ in map(str.split, _lines(key_log))}
        self._number = 0
        if version is ssl.TLSVersion.TLSv1_2:
            self._set_keys_of_tls12()
        else:
            assert self._session.cipher()[0] == _TLS13_SUITE  # type: ignore[index]
            self._secret = self._secrets["CLIENT_TRAFFIC_SECRET_0"]
            self._set_keys_of_tls13()

    def close(self) -> None:
        self.socket.close()

    def read(self) -> bytes:
        """Return what the broker sends next; `ssl.SSLError` if it is an alert, b"" at the end."""
        return self._until_done(lambda: self._session.read(1 << 16))

    def renegotiations(self, count: int) -> bytes:
        """Return the records of `count` requests for another handshake in TLS 1.2."""
        return b"".join(self._record_of_tls12(_HANDSHAKE, _CLIENT_HELLO) for _ in range(count))

    def key_updates(self, count: int, *, requested: bool) -> bytes:
        """Return the records of `count` KeyUpdates in TLS 1.3, each of which may request one of the broker."""
        records = []
        for _ in range(count):
            records.append(self._record_of_tls13(_HANDSHAKE, bytes((24, 0, 0, 1, requested))))
            self._secret = _expanded(self._secret, b"traffic upd", 48)
            self._set_keys_of_tls13()
        return b"".join(records)

    def data(self, content: bytes) -> bytes:
        """Return the record of a request in TLS 1.3."""
        return self._record_of_tls13(_APPLICATION_DATA, content)

    def _until_done(self, step: Callable[[], bytes | None]) -> bytes:
        while True:
            try:
                return step() or b""
            except ssl.SSLWantReadError:
                if self._outgoing.pending:
                    self.socket.sendall(self._outgoing.read())
                chunk = self.socket.recv(1 << 16)
                if not chunk:
                    return b""
                self._received = self._received or chunk
                self._incoming.write(chunk)

    def _set_keys_of_tls12(self) -> None:
        server_random = self._received[11:43]  # of the ServerHello in the first record
        seed = b"key expansion" + server_random + self._randoms["CLIENT_RANDOM"]
        keys, block, master = b"", seed, self._secrets["CLIENT_RANDOM"]
        while len(keys) < 40:  # two keys and two salts
            block = hmac.digest(master, block, "sha256")
            keys += hmac.digest(master, block + seed, "sha256")
        self._cipher, self._iv = AESGCM(keys[:16]), keys[32:36]
        self._number = 1  # after the Finished

    def _set_keys_of_tls13(self) -> None:
        self._cipher, self._iv = AESGCM(_expanded(self._secret, b"key", 32)), _expanded(self._secret, b"iv", 12)
        self._number = 0

    def _record_of_tls12(self, kind: int, content: bytes) -> bytes:
        number = self._next()
        header = bytes((kind, 3, 3))
        encrypted = self._cipher.encrypt(self._iv + number, content, number + header + len(content).to_bytes(2, "big"))
        return header + (8 + len(encrypted)).to_bytes(2, "big") + number + encrypted

    def _record_of_tls13(self, kind: int, content: bytes) -> bytes:
        number = self._next()
        header = bytes((_APPLICATION_DATA, 3, 3)) + (len(content) + 17).to_bytes(2, "big")
        nonce = bytes(a ^ b for a, b in zip(self._iv, bytes(4) + number, strict=True))
        return header + self._cipher.encrypt(nonce, content + bytes((kind,)), header)

    def _next(self) -> bytes:
        self._number += 1
        return (self._number - 1).to_bytes(8, "big")


def _lines(key_log: Path) -> list[str]:
    return [line for line in key_log.read_text().splitlines() if line and not line.startswith("#")]


def _expanded(secret: bytes, label: bytes, size: int) -> bytes:
    """Return HKDF-Expand-Label of RFC 8446 with SHA-384 and an empty context."""
    full = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes((len(full),)) + full + b"\0"
    return hmac.new(secret, info + b"\1", hashlib.sha384).digest()[:size]
