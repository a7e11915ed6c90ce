from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from broker.monitoring.http_server import MAX_CONNECTIONS, REQUEST_BYTES, HttpServer, Page
from tests.certificates import Certificates


@pytest.fixture
def querying() -> Callable[..., list[bytes]]:
    """Serve pages, send bytes, and return the bytes received until the server closes."""

    def querying(pages: dict[str, Callable[[], Page]], *requests: bytes, clock: Any = time.perf_counter) -> list[bytes]:
        async def query(port: int, request: bytes) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            try:
                return await reader.read()
            except ConnectionResetError:
                return b""
            finally:
                writer.close()

        async def body() -> list[bytes]:
            server = HttpServer(pages, clock)
            port = await server.start("127.0.0.1", 0)
            try:
                return [await query(port, request) for request in requests]
            finally:
                await server.stop()

        return asyncio.run(asyncio.wait_for(body(), 30))

    return querying


PAGES = {"/page": lambda: Page(HTTPStatus.OK, ("one\n", "two\n"))}


def test_a_page_is_served_in_chunks(querying: Callable[..., list[bytes]]) -> None:
    (answer,) = querying(PAGES, b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"Content-Type: text/plain; charset=utf-8",
        b"Transfer-Encoding: chunked",
        b"Connection: close",
    ]
    assert body == b"8\r\none\ntwo\n\r\n0\r\n\r\n"


def test_http_1_0_client_gets_an_unchunked_page(querying: Callable[..., list[bytes]]) -> None:
    (answer,) = querying(PAGES, b"GET /page?x=1 HTTP/1.0\r\n\r\n")
    assert answer.endswith(b"\r\n\r\none\ntwo\n")
    assert b"chunked" not in answer


def test_head_response_has_no_body(querying: Callable[..., list[bytes]]) -> None:
    (answer,) = querying(PAGES, b"HEAD /page HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /other HTTP/1.1", b"404 Not Found"),
        (b"POST /page HTTP/1.1", b"405 Method Not Allowed"),
        (b"GET /page HTTP/2", b"400 Bad Request"),
        (b"\xff\x00", b"400 Bad Request"),
    ],
)
def test_other_requests_are_errors(querying: Callable[..., list[bytes]], request_line: bytes, status: bytes) -> None:
    (answer,) = querying(PAGES, request_line + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status)


def test_endless_request_is_closed(querying: Callable[..., list[bytes]]) -> None:
    assert querying(PAGES, b"GET /page HTTP/1.1\r\n" + b"x" * 2 * REQUEST_BYTES) == [b""]


def test_failing_page_closes_its_connection_and_the_next_is_served(
    querying: Callable[..., list[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Iterator[str | None]:
        yield "one\n" * 20_000
        raise RuntimeError("a bug")

    pages = PAGES | {"/broken": lambda: Page(HTTPStatus.OK, broken())}  # type: ignore[arg-type]  # only this comes here
    cut, whole = querying(pages, b"GET /broken HTTP/1.1\r\n\r\n", b"GET /page HTTP/1.1\r\n\r\n")
    assert not cut.endswith(b"0\r\n\r\n")
    assert whole.endswith(b"0\r\n\r\n")
    assert "a bug" in caplog.text


def test_long_page_yields_to_the_loop(querying: Callable[..., list[bytes]]) -> None:
    """The fake clock advances 1 ms per line."""
    turns = 0
    milliseconds = itertools.count()

    def page() -> Iterator[str]:
        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.get_running_loop().create_task(others())
        yield from (f"{number}\n" for number in range(1000))
        task.cancel()

    (answer,) = querying(
        {"/": lambda: Page(HTTPStatus.OK, page())}, b"GET / HTTP/1.0\r\n\r\n", clock=lambda: next(milliseconds) / 1000
    )
    assert answer.endswith(b"\n998\n999\n")
    assert turns > 100


def test_number_of_concurrent_connections_is_bounded() -> None:
    async def body() -> None:
        server = HttpServer(PAGES, time.perf_counter)
        port = await server.start("127.0.0.1", 0)
        open_ones = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CONNECTIONS)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        open_ones[0][1].write(b"GET /page HTTP/1.0\r\n\r\n")
        assert (await open_ones[0][0].read()).endswith(b"two\n")
        for _, opened in [*open_ones, (reader, writer)]:
            opened.close()
        await server.stop()

    asyncio.run(asyncio.wait_for(body(), 30))


@contextlib.asynccontextmanager
async def secured(token: str | None, tls: Callable[[], ssl.SSLContext] | None) -> AsyncIterator[str]:
    server = HttpServer(PAGES, time.perf_counter)
    port = await server.start("127.0.0.1", 0, token, tls)
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{port}/page"
    finally:
        await server.stop()


async def get(url: str, authorization: str | None = None, trusted: Path | None = None) -> tuple[int, bytes]:
    """Return status and body, as Python's own client does."""
    context = None if trusted is None else ssl.create_default_context(cafile=trusted)

    def request() -> tuple[int, bytes]:
        headers = {} if authorization is None else {"Authorization": authorization}
        try:
            with urlopen(Request(url, headers=headers), timeout=20, context=context) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            with error:
                return error.code, error.read()

    return await asyncio.get_running_loop().run_in_executor(None, request)


@pytest.mark.parametrize("page", ["page", "missing"])
def test_with_a_token_every_request_needs_it(page: str) -> None:
    async def check() -> None:
        async with secured("secret", None) as url:
            url = url.replace("page", page)
            for wrong in (None, "Bearer", "Bearer secre", "Bearer secrets", "Basic secret", "Bearer \u00e9"):
                assert await get(url, wrong) == (401, b"Unauthorized\n")
            for right in ("Bearer secret", "bearer  secret "):
                assert (await get(url, right))[0] == (200 if page == "page" else 404)

    asyncio.run(asyncio.wait_for(check(), 30))


def test_pages_are_served_over_tls_with_the_current_certificate(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    contexts = [ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) for _ in range(2)]
    contexts[0].load_cert_chain(certificates.issue("elsewhere", "elsewhere"))
    contexts[1].load_cert_chain(certificates.broker)

    async def check() -> None:
        async with secured("secret", lambda: contexts[0]) as url:
            with pytest.raises(URLError, match=r"not valid for '127\.0\.0\.1'"):
                await get(url, "Bearer secret", certificates.trusted)
            contexts.pop(0)
            assert await get(url, "Bearer secret", certificates.trusted) == (200, b"one\ntwo\n")
            assert (await get(url, None, certificates.trusted))[0] == 401
            with pytest.raises((URLError, ConnectionError)):
                await get(url.replace("https", "http"), "Bearer secret")

    asyncio.run(asyncio.wait_for(check(), 30))


def test_unfinished_handshakes_count_as_connections(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker)

    async def check() -> None:
        async with secured(None, lambda: context) as url:
            _, _, address = url.partition("//")
            port = int(address.partition(":")[2].partition("/")[0])
            waiting = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CONNECTIONS)]
            for _, writer in waiting:
                writer.write(b"\x16\x03\x01\x02")
            reader, one_more = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            for writer in (one_more, *(writer for _, writer in waiting)):
                writer.close()

    asyncio.run(asyncio.wait_for(check(), 30))
