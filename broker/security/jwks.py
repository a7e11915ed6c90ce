"""The public keys that verify tokens: a JWKS (RFC 7517) from a file or a URL, which is read again from time to time.

The source is `sasl.oauthbearer.jwks.endpoint.url` of the broker's own settings; nothing that a client sends names
another one. Reads block, in a thread of the executor. While the source fails, the keys that were read last stay in use.
Kafka: `RefreshingHttpsJwks`, `JwksFileVerificationKeyResolver`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from joserfc.jwk import JWKRegistry, KeySet

from broker.network.listeners import is_loopback
from broker.runtime.log_output import quoted
from broker.runtime.rate_limited_log import LogOnce
from broker.security.security_error import SecurityError
from storage.disk import Disk, reason

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

_SETTING = "sasl.oauthbearer.jwks.endpoint.url"
_KEY_TYPES = ("RSA", "EC", "OKP")
_MAX_BYTES = 1024 * 1024
_TIMEOUT_S = 10.0  # for a connection, and for each read
_MOST_S = 30.0  # for the whole answer, which a server could send byte by byte
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
        self._new_reading: Callable[[], _KeyFile | _Download]
        if parts.scheme == "file" and parts.netloc in ("", "localhost"):
            path = unquote(parts.path)
            self._new_reading = lambda: _KeyFile(path, disk)
            times = times._replace(refresh_s=min(times.refresh_s, _FILE_INTERVAL_S))
        elif parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
            self._new_reading = lambda: _Download(url)
        else:
            why = {
                "http": "; plain HTTP would let the network replace the keys",
                "file": f"; {parts.netloc} is taken as the name of a host",
            }.get(parts.scheme, "")
            raise SecurityError(f"{_SETTING}={url}: write file:///PATH or https://HOST/...{why}")
        self._url = url
        self._times = times
        self._keys = KeySet([])
        self._data = b""
        self._read_at_s = float("-inf")
        self._wait_s = 0.0
        self._is_key_missing = False
        self._unusable = LogOnce()

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
        reading = self._new_reading()
        late = loop.call_later(_MOST_S, reading.give_up)
        try:
            data = await loop.run_in_executor(None, reading.read)
        finally:
            late.cancel()
            reading.give_up()  # if the node stops: a process ends only once its threads have
        if data != self._data:
            self._keys = parse_jwks(data, self._log_unusable)
            if self._data:
                _log.info("Tokens are verified by the %d keys that were read now", len(self._keys.keys))
            self._data = data
        self._wait_s = self._times.refresh_s

    def _log_unusable(self, why: str) -> None:
        if self._unusable.should_log(why):
            _log.warning("Ignoring a key that cannot be used: %s=%s: %s", _SETTING, self._url, why)


def parse_jwks(data: bytes, on_unusable: Callable[[str], None]) -> KeySet:
    """Return the public keys for signatures in a JWKS; ValueError if there are none.

    Keys that cannot be used, as those of an unknown curve, are left out (RFC 7517, section 5): `on_unusable` is called
    with the reason of each. Keys of other types and uses are left out without one.
    """
    try:
        found: Any = json.loads(data)
        listed = list(found["keys"])
    except Exception as error:  # whatever damaged text makes the decoder raise
        why = "it is not JSON" if isinstance(error, ValueError) else 'it is not an object with a list of "keys"'
        raise ValueError(f"{why}, so it is not a JWKS (RFC 7517)") from None
    keys = []
    for each in listed:
        try:
            if each.get("kty") in _KEY_TYPES and each.get("use", "sig") == "sig":
                key = JWKRegistry.import_key(each)
                key.get_op_key("verify")  # raises if `key_ops` has others only
                keys.append(key)
        except Exception as error:  # whatever a damaged key makes the library raise
            name = each.get("kid", "") if isinstance(each, dict) else ""
            on_unusable(f"kid={quoted(str(name))}: {quoted(f'{type(error).__name__}: {error}')}")
    if not keys:
        raise ValueError("it has no public key for signatures")
    return KeySet(keys)


class _Download:
    """One download from a URL, in a thread, that the event loop can give up."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sockets: list[socket.socket] = []
        self._is_given_up = False

    def read(self) -> bytes:
        """Return the body; OSError if that fails or is given up, or if the answer leads to another URL."""
        from http.client import HTTPException

        response: IO[bytes]
        try:
            with self._opener().open(self._url, timeout=_TIMEOUT_S) as response:
                data = response.read(_MAX_BYTES + 1)
        except (HTTPException, OSError) as error:
            if isinstance(error, OSError) and not self._is_given_up:
                raise
            failure = type(error).__name__
        else:
            failure = ""
        if self._is_given_up:
            raise OSError(f"the answer is not complete after {_MOST_S:g} s")
        if failure:
            raise OSError(f"an invalid HTTP response: {failure}")
        if len(data) > _MAX_BYTES:
            raise OSError(f"the answer has more than {_MAX_BYTES} bytes")
        return data

    def give_up(self) -> None:
        """Let `read` fail at once."""
        self._is_given_up = True
        for each in self._sockets:
            with suppress(OSError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)  # that of TLS sockets would change what is being read

    def _opener(self) -> OpenerDirector:
        """Return an opener that follows no redirection, and whose sockets are known here.

        HTTPS may use the proxy in `https_proxy`, which cannot replace the keys; plain HTTP stays on this machine.
        """
        from http.client import HTTPConnection, HTTPSConnection
        from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, ProxyHandler, build_opener

        sockets = self._sockets

        class NoRedirects(HTTPRedirectHandler):
            def redirect_request(self, *_: Any) -> None:
                return None

        class Plain(HTTPConnection):
            def connect(self) -> None:
                super().connect()
                sockets.append(self.sock)

        class Encrypted(HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                sockets.append(self.sock)

        class Http(HTTPHandler):
            def http_open(self, request: Any) -> Any:
                return self.do_open(Plain, request)

        class Https(HTTPSHandler):
            def https_open(self, request: Any) -> Any:
                return self.do_open(Encrypted, request)

        proxies = ProxyHandler() if urlsplit(self._url).scheme == "https" else ProxyHandler({})
        return build_opener(proxies, NoRedirects, Http, Https)


class _KeyFile:
    """One reading of a file."""

    def __init__(self, path: str, disk: Disk) -> None:
        self._path = path
        self._disk = disk

    def read(self) -> bytes:
        return self._disk.read_regular_file(self._path, _MAX_BYTES)

    def give_up(self) -> None:
        """Do nothing: a file is read as fast as the disk is."""


def _why(error: Exception) -> str:
    cause = getattr(error, "reason", None)  # of URLError, whose own text has the form <urlopen error ...>
    if isinstance(cause, OSError):
        error = cause
    if isinstance(error, TimeoutError):
        return f"no answer within {_TIMEOUT_S:g} s"
    return getattr(error, "strerror", None) or (reason(error) if isinstance(error, OSError) else "") or str(error)
