"""Minimal HTTP server for a scraper and probes: GET and HEAD of a few paths, one request per connection.

A request is at most `REQUEST_BYTES` long and must arrive within `TIMEOUT_S`, with the TLS handshake; the client must
read each piece of the response within `TIMEOUT_S` too. Connections beyond `MAX_CONNECTIONS` are closed. A response is
made and sent in slices of `SLICE_S`, between which the event loop runs.

With a token, a request must have it as `Authorization: Bearer TOKEN`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hmac import compare_digest
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import ssl

    Stream: TypeAlias = "asyncio.StreamWriter | _EncryptedStream"

REQUEST_BYTES = 8 * 1024
TIMEOUT_S = 10.0
MAX_CONNECTIONS = 16
SLICE_S = 0.005
_PIECE_CHARACTERS = 64 * 1024
_END = b"\r\n\r\n"

_log = logging.getLogger("broker.monitoring")


class Page(NamedTuple):
    """A response; `lines` may be generated while it is sent."""

    status: HTTPStatus
    lines: Iterable[str]
    content_type: str = "text/plain; charset=utf-8"


class HttpServer:
    """Serves pages by path."""

    def __init__(self, pages: Mapping[str, Callable[[], Page]], clock: Callable[[], float]) -> None:
        """`pages` is by path; `clock` is in seconds, finer than the loop's."""
        self._pages = pages
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self._token: bytes | None = None
        self._tls: Callable[[], ssl.SSLContext] | None = None

    async def start(
        self, host: str, port: int, token: str | None = None, tls: Callable[[], ssl.SSLContext] | None = None
    ) -> int:
        """Listen and return the port; OSError if that fails.

        Requests need `token`, if there is one. `tls` returns the context of a new connection.
        """
        self._token, self._tls = token.encode() if token else None, tls
        self._server = await asyncio.start_server(self._accept, host or None, port, limit=REQUEST_BYTES)
        listening: int = self._server.sockets[0].getsockname()[1]
        return listening

    async def stop(self) -> None:
        """Stop listening, and cancel responses in progress."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._tasks) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._tasks.add(task)
        encrypted = None if self._tls is None else _EncryptedStream(self._tls(), reader, writer)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                head = await (encrypted or reader).readuntil(_END)
            request_line, *fields = head.decode("latin-1").split("\r\n")
            await self._answer(request_line, fields, encrypted or writer)
            if encrypted is not None:
                encrypted.end()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            writer.transport.abort()
        except Exception:
            _log.exception("Serving a page failed")
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, request_line: str, fields: Sequence[str], writer: Stream) -> None:
        method, _, rest = request_line.partition(" ")
        target, _, version = rest.partition(" ")
        chunked = version == "HTTP/1.1"
        page = self._page(method, target, version) if self._is_authorised(fields) else _error(HTTPStatus.UNAUTHORIZED)
        framing = "Transfer-Encoding: chunked\r\n" if chunked else ""
        if page.status is HTTPStatus.UNAUTHORIZED:
            framing += "WWW-Authenticate: Bearer\r\n"
        writer.write(
            f"HTTP/1.1 {page.status} {page.status.phrase}\r\nContent-Type: {page.content_type}\r\n"
            f"{framing}Connection: close\r\n\r\n".encode()
        )
        if method == "HEAD":
            return
        for piece in self._slices(page.lines):
            data = piece.encode()
            writer.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
            async with asyncio.timeout(TIMEOUT_S):
                await writer.drain()
            await asyncio.sleep(0)
        if chunked:
            writer.write(b"0\r\n\r\n")

    def _is_authorised(self, fields: Sequence[str]) -> bool:
        if self._token is None:
            return True
        values = (
            value.strip() for name, _, value in (field.partition(":") for field in fields) if _is_credentials(name)
        )
        scheme, _, given = next(values, "").partition(" ")
        return scheme.lower() == "bearer" and compare_digest(given.strip().encode("latin-1"), self._token)

    def _page(self, method: str, target: str, version: str) -> Page:
        if not version.startswith("HTTP/1."):
            return _error(HTTPStatus.BAD_REQUEST)
        page = self._pages.get(target.partition("?")[0])
        if page is None:
            return _error(HTTPStatus.NOT_FOUND, *self._pages)
        return page() if method in ("GET", "HEAD") else _error(HTTPStatus.METHOD_NOT_ALLOWED)

    def _slices(self, lines: Iterable[str]) -> Iterable[str]:
        """Yield the lines joined into pieces, each made in about `SLICE_S` or less."""
        begun, size, piece = self._clock(), 0, []
        for line in lines:
            piece.append(line)
            size += len(line)
            if size >= _PIECE_CHARACTERS or self._clock() - begun >= SLICE_S:
                yield "".join(piece)
                begun, size, piece = self._clock(), 0, []
        if piece:
            yield "".join(piece)


class _EncryptedStream:
    """The stream of a connection with TLS, in memory: a connection counts from before its handshake on."""

    def __init__(self, context: ssl.SSLContext, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import ssl  # only here: a node without TLS does not need it

        self._reader, self._writer = reader, writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._more, self._failed = ssl.SSLWantReadError, ssl.SSLError

    async def readuntil(self, end: bytes) -> bytes:
        """Return what the client sends up to `end`, after the handshake; raises as a `StreamReader` does."""
        found = bytearray()
        while end not in found:
            if len(found) > REQUEST_BYTES:
                raise asyncio.LimitOverrunError("the request is too long", len(found))
            try:
                data = self._tls.read(REQUEST_BYTES)
            except self._more:
                self._flush()
                encrypted = await self._reader.read(REQUEST_BYTES)
                if not encrypted:
                    raise asyncio.IncompleteReadError(bytes(found), None) from None
                self._incoming.write(encrypted)
                continue
            except self._failed as error:
                self._flush()  # the alert that names the failure
                self._writer.close()
                raise ConnectionError(str(error)) from None
            if not data:
                raise asyncio.IncompleteReadError(bytes(found), None)
            found += data
        return bytes(found[: found.index(end) + len(end)])

    def write(self, data: bytes) -> None:
        """Encrypt and send."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        self._flush()

    async def drain(self) -> None:
        """Wait until the client has read most of it."""
        await self._writer.drain()

    def end(self) -> None:
        """Send the end of the TLS connection."""
        with suppress(self._failed):  # the client's part of the end is not awaited
            self._tls.unwrap()
        self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._writer.write(self._outgoing.read())


def _is_credentials(name: str) -> bool:
    return name.strip().lower() == "authorization"


def _error(status: HTTPStatus, *paths: str) -> Page:
    return Page(status, (f"{status.phrase}\n", *(f"{path}\n" for path in paths)))
