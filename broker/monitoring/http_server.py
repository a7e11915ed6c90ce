"""Minimal HTTP server for a scraper and probes: GET and HEAD of a few paths, one request per connection.

A request is at most `REQUEST_BYTES` long and must arrive within `TIMEOUT_S`; the client must read each piece of the
response within `TIMEOUT_S` too. Connections beyond `MAX_CONNECTIONS` are closed. A response is made and sent in slices
of `SLICE_S`, between which the event loop runs.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import NamedTuple

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

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port; OSError if that fails."""
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
        try:
            async with asyncio.timeout(TIMEOUT_S):
                head = await reader.readuntil(_END)
            await self._answer(head.decode("latin-1").split("\r\n", 1)[0], writer)
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            writer.transport.abort()
        except Exception:
            _log.exception("Serving a page failed")
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, request_line: str, writer: asyncio.StreamWriter) -> None:
        method, _, rest = request_line.partition(" ")
        target, _, version = rest.partition(" ")
        chunked = version == "HTTP/1.1"
        page = self._page(method, target, version)
        framing = "Transfer-Encoding: chunked\r\n" if chunked else ""
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


def _error(status: HTTPStatus, *paths: str) -> Page:
    return Page(status, (f"{status.phrase}\n", *(f"{path}\n" for path in paths)))
