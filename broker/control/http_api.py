"""HTTP/1.1 of the control API, by h11: one task a connection, one request at a time on each.

Every request needs the API's token, as `Authorization: Bearer TOKEN` or as the password of Basic authentication: the
second is what clients send for a URL with `:TOKEN@` before the host. It is compared before the body is read.

A request that waits is cancelled when its client closes the connection. A response is a JSON object, or lines of text
that are sent as they come.
"""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from hmac import compare_digest
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import h11

from broker.control.api_problem import ApiProblem

if TYPE_CHECKING:
    import socket

MAX_CONNECTIONS = 256
MAX_HEAD_BYTES = 32 * 1024
MAX_BODY_BYTES = 64 << 20
_READ_BYTES = 64 * 1024
_JSON = "application/json"

_log = logging.getLogger("broker.control")


class ApiRequest(NamedTuple):
    """A request, after authentication; `path` is as sent, `body` the parsed JSON, an empty object without one."""

    method: str
    path: str
    query: Mapping[str, str]
    body: object


class ApiResponse(NamedTuple):
    """A response: a JSON object, or lines of text."""

    content: Mapping[str, object] | AsyncIterator[str]
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = _JSON


Answer = Callable[[ApiRequest], Awaitable[ApiResponse]]


class HttpApi:
    """The connections of the API's clients."""

    def __init__(self, answer: Answer, token: str) -> None:
        """`answer` may raise `ApiProblem`; any other exception is logged, and answered with status 500."""
        self._answer = answer
        self._token = token.encode()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int, bound: socket.socket | None = None) -> int:
        """Listen on an address, or on a bound socket, and return the port; OSError if that fails."""
        if bound is not None:
            self._server = await asyncio.start_server(self._accept, sock=bound)
        else:
            self._server = await asyncio.start_server(self._accept, host, port)
        listening: int = self._server.sockets[0].getsockname()[1]
        return listening

    async def stop(self) -> None:
        """Stop listening, and close all connections."""
        if self._server is not None:
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
        connection = _HttpConnection(reader, writer, self._answer, self._token)
        try:
            await connection.serve()
        except (ConnectionError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()


class _HttpConnection:
    """One connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer, token: bytes
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._token = token
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._reading: asyncio.Task[bytes] | None = None

    async def serve(self) -> None:
        """Serve requests until the client closes the connection or breaks the protocol."""
        try:
            while await self._serve_one():
                self._http.start_next_cycle()
        except h11.RemoteProtocolError as error:
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                await self._send(_refusal(HTTPStatus(error.error_status_hint), str(error)), closing=True)
        finally:
            if self._reading is not None:
                self._reading.cancel()

    async def _serve_one(self) -> bool:
        """Serve a request; return whether another may follow."""
        head = await self._next_event()
        if not isinstance(head, h11.Request):
            return False  # the client has closed the connection
        if not _is_authorised(head, self._token):
            refusal = _refusal(HTTPStatus.UNAUTHORIZED, "the request needs the token of this broker's control API")
            await self._send(refusal, closing=True)
            return False
        if self._http.they_are_waiting_for_100_continue:
            self._writer.write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        body = bytearray()
        while not isinstance(event := await self._next_event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                return False
            body += event.data
            if len(body) > MAX_BODY_BYTES:
                too_long = f"the body has more than {MAX_BODY_BYTES} bytes"
                await self._send(_refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, too_long), closing=True)
                return False
        response = await self._answered(head, bytes(body))
        if response is None:
            return False
        await self._send(response, is_head=head.method == b"HEAD")
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _answered(self, head: h11.Request, body: bytes) -> ApiResponse | None:
        """Return the response; None if the client closed the connection before."""
        answering = asyncio.ensure_future(self._respond(head, body))
        try:
            while not answering.done():
                reading = self._read_ahead()
                await asyncio.wait((answering, reading), return_when=asyncio.FIRST_COMPLETED)
                if not reading.done() or answering.done():
                    continue
                if not reading.result():
                    return None
                # The next request is pipelined: its client does not close the connection meanwhile.
                await asyncio.wait((answering,))
            return answering.result()
        finally:
            answering.cancel()

    async def _respond(self, head: h11.Request, body: bytes) -> ApiResponse:
        try:
            target = urlsplit(head.target.decode("ascii"))
            try:
                parsed = json.loads(body) if body else {}
            except ValueError as error:
                return _refusal(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}")
            query = dict(parse_qsl(target.query, keep_blank_values=True))
            method = "GET" if head.method == b"HEAD" else head.method.decode("ascii")
            return await self._answer(ApiRequest(method, target.path, query, parsed))
        except ApiProblem as problem:
            return _refusal(problem.status, str(problem), problem.fields)
        except Exception as error:
            _log.exception("%s %s failed", head.method.decode("ascii"), head.target.decode("ascii"))
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            received = await self._read_ahead()
            self._reading = None
            self._http.receive_data(received)
        return event

    def _read_ahead(self) -> asyncio.Task[bytes]:
        """Return the read in progress, or start one."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._reader.read(_READ_BYTES))
        return self._reading

    async def _send(self, response: ApiResponse, *, closing: bool = False, is_head: bool = False) -> None:
        headers = [("Content-Type", response.content_type)]
        if closing:
            headers.append(("Connection", "close"))
        if response.status is HTTPStatus.UNAUTHORIZED:
            headers.append(("WWW-Authenticate", "Bearer"))
        if isinstance(response.content, Mapping):
            data = json.dumps(response.content, ensure_ascii=False).encode() + b"\n"
            headers.append(("Content-Length", str(len(data))))
            head = h11.Response(status_code=response.status, headers=headers, reason=response.status.phrase)
            self._write(head, *([] if is_head else [h11.Data(data=data)]), h11.EndOfMessage())
        else:
            self._write(h11.Response(status_code=response.status, headers=headers, reason=response.status.phrase))
            await self._send_lines(response.content)
            self._write(h11.EndOfMessage())
        await self._writer.drain()

    async def _send_lines(self, lines: AsyncIterator[str]) -> None:
        """Send lines as they come; ConnectionError once the client is gone."""
        following = aiter(lines)
        while True:
            line = asyncio.ensure_future(anext(following, None))
            try:
                while not line.done():
                    reading = self._read_ahead()
                    await asyncio.wait((line, reading), return_when=asyncio.FIRST_COMPLETED)
                    if reading.done() and not line.done():
                        raise ConnectionResetError("the client has closed the connection")
                found = line.result()
            finally:
                line.cancel()
            if found is None:
                return
            self._write(h11.Data(data=found.encode()))
            await self._writer.drain()

    def _write(self, *events: h11.Event) -> None:
        self._writer.write(b"".join(self._http.send(event) or b"" for event in events))


def _refusal(status: HTTPStatus, message: str, fields: Mapping[str, object] = {}) -> ApiResponse:
    return ApiResponse({"message": message, **fields}, status)


def _is_authorised(head: h11.Request, token: bytes) -> bool:
    given = next((value for name, value in head.headers if name == b"authorization"), b"")
    scheme, _, credentials = given.partition(b" ")
    credentials = credentials.strip()
    if scheme.lower() == b"basic":
        try:
            credentials = b64decode(credentials, validate=True).partition(b":")[2]
        except Base64Error:
            return False
    elif scheme.lower() != b"bearer":
        return False
    return compare_digest(credentials, token)
