"""The public keys that verify tokens: a JWKS (RFC 7517) from a file or a URL, which is read again from time to time.

The source is `sasl.oauthbearer.jwks.endpoint.url` of the broker's own settings; nothing that a client sends names
another one. Reads block, in a thread of the executor. While the source fails, the keys that were read last stay in use.
Kafka: `RefreshingHttpsJwks`, `JwksFileVerificationKeyResolver`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import IO, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from joserfc.jwk import KeySet

from broker.network.listeners import is_loopback
from broker.security.security_error import SecurityError
from storage.disk import Disk, reason

_SETTING = "sasl.oauthbearer.jwks.endpoint.url"
_KEY_TYPES = ("RSA", "EC", "OKP")
_MAX_BYTES = 1024 * 1024
_TIMEOUT_S = 10.0
_FILE_INTERVAL_S = 5.0

_log = logging.getLogger("broker.security")


class JwksTimes(NamedTuple):
    """When the source is read again, in seconds."""

    refresh_s: float
    backoff_s: float
    max_backoff_s: float
    """After a failure, and between reads because of tokens with unknown keys."""


class Jwks:
    """The current keys of one source."""

    def __init__(self, url: str, times: JwksTimes, disk: Disk) -> None:
        """`SecurityError` if the URL is not one of a file, of HTTPS, or of HTTP on this machine."""
        parts = urlsplit(url)
        self._read: Callable[[], bytes]
        if parts.scheme == "file":
            path = unquote(parts.path)
            self._read = lambda: disk.read_file(path)
            times = times._replace(refresh_s=min(times.refresh_s, _FILE_INTERVAL_S))
        elif parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
            self._read = lambda: _fetch(url)
        else:
            raise SecurityError(
                f"{_SETTING}={url}: write file:///PATH or https://HOST/...; plain HTTP would let the network "
                "replace the keys"
            )
        self._url = url
        self._times = times
        self._keys = KeySet([])
        self._data = b""
        self._read_at_s = float("-inf")
        self._wait_s = 0.0
        self._is_key_missing = False

    def keys(self) -> KeySet:
        """Return the keys that were read last; none before `load`, so that no token is accepted."""
        return self._keys

    def request_refresh(self) -> None:
        """Read the keys soon, because a token has an unknown one; at most once in the maximum backoff."""
        self._is_key_missing = True

    def is_due(self, now_s: float) -> bool:
        """Return whether it is time to read the keys again."""
        passed_s = now_s - self._read_at_s
        return passed_s >= self._wait_s or (self._is_key_missing and passed_s >= self._times.max_backoff_s)

    async def load(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read the keys for the first time; `SecurityError` if there are none."""
        try:
            await self._load(loop)
        except (OSError, ValueError) as error:
            raise SecurityError(f"{_SETTING}={self._url}: {_why(error)}") from None

    async def refresh(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read the keys again; log a failure."""
        try:
            await self._load(loop)
        except (OSError, ValueError) as error:
            times = self._times
            failed_before = 0 < self._wait_s < times.refresh_s
            self._wait_s = min(2 * self._wait_s if failed_before else times.backoff_s, times.max_backoff_s)
            _log.error("The keys of tokens stay as they are: %s=%s: %s", _SETTING, self._url, _why(error))

    async def _load(self, loop: asyncio.AbstractEventLoop) -> None:
        self._read_at_s, self._is_key_missing = loop.time(), False
        data = await loop.run_in_executor(None, self._read)
        if data != self._data:
            self._keys = parse_jwks(data)
            if self._data:
                _log.info("Tokens are verified by the %d keys that were read now", len(self._keys.keys))
            self._data = data
        self._wait_s = self._times.refresh_s


def parse_jwks(data: bytes) -> KeySet:
    """Return the public keys for signatures in a JWKS; ValueError if there are none."""
    try:
        found: Any = json.loads(data)
        keys = [key for key in found["keys"] if key.get("kty") in _KEY_TYPES and key.get("use", "sig") == "sig"]
        if keys:
            return KeySet.import_key_set({"keys": keys})
    except Exception as error:  # whatever a damaged file makes the library raise
        raise ValueError(f"it is not a JWKS: {type(error).__name__}") from None
    raise ValueError("it has no public key for signatures")


def _fetch(url: str) -> bytes:
    """Return the body at a URL; OSError if that fails, or if the answer leads to another URL."""
    from http.client import HTTPException
    from urllib.request import HTTPRedirectHandler, build_opener

    class NoRedirects(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    response: IO[bytes]
    try:
        with build_opener(NoRedirects).open(url, timeout=_TIMEOUT_S) as response:
            data = response.read(_MAX_BYTES + 1)
    except HTTPException as error:
        raise OSError(f"an invalid HTTP response: {type(error).__name__}") from None
    if len(data) > _MAX_BYTES:
        raise OSError(f"the answer has more than {_MAX_BYTES} bytes")
    return data


def _why(error: Exception) -> str:
    return (reason(error) if isinstance(error, OSError) and error.errno else "") or str(error)
