"""Responses with slices of files, on real sockets and real files."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Never, cast

import pytest

from broker.monitoring.counters import Metrics
from broker.network.connection import Connection
from broker.network.send_queue import READ_AHEAD_BYTES, SendQueue
from protocol.errors import DecodeError
from protocol.primitives import Buffer, Part
from storage.disk import File, OsDisk
from storage.log.file_slice import FileSlice
from tests.unit.broker.conftest import Run, Serving

MB = 1024 * 1024


class CountingFile:
    """A file that counts the bytes read; `cold` simulates an empty page cache."""

    def __init__(self, path: Path, cold: bool = False) -> None:
        self.file = OsDisk().open_file(str(path))
        self.path = str(path)
        self.cold = cold
        self.read_bytes = 0
        self.sent_bytes = 0  # of these, sent with sendfile
        self.waits = 0

    def pread(self, size: int, offset: int) -> bytes:
        self.waits += 1
        data = self.file.pread(size, offset)
        self.read_bytes += len(data)
        return data

    def pread_nowait(self, size: int, offset: int) -> Buffer | None:
        if self.cold:
            return None
        data = self.file.pread_nowait(size, offset)
        if data is None:  # the file system does not support RWF_NOWAIT
            data = self.file.pread(size, offset)
        self.read_bytes += len(data)
        return data

    def send_nowait(self, socket: int, size: int, offset: int) -> int | None:
        if self.cold:
            return None
        sent = self.file.send_nowait(socket, size, offset)
        self.read_bytes += sent or 0
        self.sent_bytes += sent or 0
        return sent


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("content") / "segment"
    path.write_bytes(os.urandom(20 * MB))
    return path


@pytest.fixture
def segment(content: Path, tmp_path: Path) -> Path:
    """Return a link of this test to the shared read-only file."""
    path = tmp_path / "segment"
    path.hardlink_to(content)
    return path


def sliced(file: CountingFile, position: int, size: int) -> FileSlice:
    return FileSlice(cast("File", file), position, size)  # read-only use


def framed_parts(*parts: bytes | bytearray | memoryview | FileSlice) -> list[Part]:
    size = sum(part.size_bytes if isinstance(part, FileSlice) else len(part) for part in parts)
    return [size.to_bytes(4, "big"), *parts]


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - the condition has no event
        await asyncio.sleep(0)


@pytest.mark.parametrize("size_bytes", [7, 3 * MB])
@pytest.mark.parametrize("cold", [False, True])
def test_bytes_and_slices_are_sent_in_order(
    run: Run, serving: Serving, segment: Path, cold: bool, size_bytes: int
) -> None:
    file = CountingFile(segment, cold)
    content = segment.read_bytes()
    parts = framed_parts(
        b"head", sliced(file, 10, 5), bytearray(b"mid"), sliced(file, 0, size_bytes), memoryview(b"tail")
    )

    async def body() -> None:
        async with serving() as served:
            served.script.answer = lambda *_: list(parts)
            client = await served.connect()
            for _ in range(3):
                client.send(b"fetch")
                expected = b"head" + content[10:15] + b"mid" + content[:size_bytes] + b"tail"
                assert await client.receive() == expected

    run(body())
    assert bool(file.waits) is cold


def test_large_slices_are_sent_with_sendfile_where_it_cannot_block(run: Run, serving: Serving, segment: Path) -> None:
    file = CountingFile(segment)
    knows_cached = file.file.pread_nowait(1, 0) is not None

    async def body() -> None:
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(sliced(file, 5, MB), b"mid", sliced(file, 0, 100))
            client = await served.connect()
            client.send(b"fetch")
            assert await client.receive() == segment.read_bytes()[5 : 5 + MB] + b"mid" + segment.read_bytes()[:100]
            assert served.server.metrics.sent_bytes == 4 + MB + 3 + 100

    run(body())
    assert file.sent_bytes >= knows_cached * MB * 3 // 4  # the rest is in the transport's buffer if the socket was full
    assert file.read_bytes == MB + 100


class PartialSendFile(CountingFile):
    """A file whose `send_nowait` sends a little, then reports a full socket."""

    def send_nowait(self, socket: int, size: int, offset: int) -> int | None:
        self.waits += 1
        return super().send_nowait(socket, 1000, offset) if self.waits % 2 else 0


def test_bytes_refused_by_a_full_socket_are_sent_later(run: Run, serving: Serving, segment: Path) -> None:
    file = PartialSendFile(segment)

    async def body() -> None:
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(sliced(file, 0, MB), sliced(file, MB, MB), b"tail")
            client = await served.connect()
            client.send(b"fetch")
            assert await client.receive() == segment.read_bytes()[: 2 * MB] + b"tail"

    run(body())
    assert file.waits > 100


def test_response_queued_behind_a_large_one_is_sent_after_it(run: Run, serving: Serving, segment: Path) -> None:
    file = CountingFile(segment)

    async def body() -> None:
        async with serving() as served:
            served.script.answer = lambda request, _: framed_parts(
                *([sliced(file, 0, 10 * MB)] if request == b"large" else []), request
            )
            client = await served.connect(limit=1000)
            client.send(b"small", b"large", b"after", b"large", b"last")
            for request in (b"small", b"large", b"after", b"large", b"last"):
                expected = segment.read_bytes()[: 10 * MB] if request == b"large" else b""
                assert await client.receive() == expected + request

    run(body())


def test_send_order_does_not_depend_on_writelines_pausing_the_protocol(
    run: Run, serving: Serving, segment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_python_3_12(transport: Any, pieces: list[memoryview | bytes]) -> None:  # CVE-2024-12254
        transport._buffer.extend(b"".join(pieces))
        transport._loop._add_writer(transport._sock_fd, transport._write_ready)

    monkeypatch.setattr("asyncio.selector_events._SelectorSocketTransport.writelines", of_python_3_12)
    file, content = CountingFile(segment), segment.read_bytes()

    async def body() -> None:
        async with serving() as served:
            small = [sliced(file, 10_000 * number, 10_000) for number in range(20)]
            served.script.answer = lambda *_: framed_parts(*small, sliced(file, 0, MB), *small)
            client = await served.connect()
            client.send(b"fetch")
            assert await client.receive() == content[:200_000] + content[:MB] + content[:200_000]

    run(body())


def test_file_deleted_while_it_is_sent_arrives_whole(run: Run, serving: Serving, segment: Path) -> None:
    file, content = CountingFile(segment), segment.read_bytes()

    async def body() -> None:
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(sliced(file, 0, 20 * MB))
            client = await served.connect(limit=1000)
            client.send(b"fetch")
            await until(lambda: file.read_bytes)
            assert file.read_bytes < 20 * MB
            segment.unlink()
            assert await client.receive() == content

    run(body())


@pytest.mark.parametrize("cold", [False, True])
def test_responses_before_a_bad_request_are_sent_whole(run: Run, serving: Serving, segment: Path, cold: bool) -> None:
    file = CountingFile(segment, cold)

    def answer(request: bytes, connection: Connection) -> list[Part]:
        if request == b"bad":
            raise DecodeError("bad bytes")
        return framed_parts(sliced(file, 0, 20 * MB))

    async def body() -> None:
        async with serving() as served:
            served.script.answer = answer
            client = await served.connect()
            client.send(b"fetch", b"bad")
            assert await client.receive() == segment.read_bytes()
            assert await client.closed()

    run(body())


def test_client_that_does_not_read_costs_one_megabyte(run: Run, serving: Serving, segment: Path) -> None:
    file = CountingFile(segment)

    async def body() -> None:
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(sliced(file, 0, 20 * MB))
            client = await served.connect(limit=1000)
            client.send(b"fetch")
            await until(lambda: file.read_bytes)
            other = await served.connect()
            (channel,) = (c for c in served.server.connections if c._send_queue.backed_up)
            in_sockets = served.server.metrics.sent_bytes - channel._transport.get_write_buffer_size()
            assert file.read_bytes <= in_sockets + READ_AHEAD_BYTES
            assert file.read_bytes < 20 * MB
            served.script.answer = lambda *_: framed_parts(b"quick")
            other.send(b"fetch")
            assert await other.receive() == b"quick"
            assert await client.receive() == segment.read_bytes()

    run(body())


def test_reading_stops_while_the_client_does_not_read(run: Run, serving: Serving, segment: Path) -> None:
    file = CountingFile(segment)

    async def body() -> None:
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(sliced(file, 0, 20 * MB))
            client = await served.connect(limit=1000)
            client.send(b"1", b"2", b"3")
            await until(lambda: file.read_bytes)
            client.send(b"4")
            for _ in range(100):
                await asyncio.sleep(0)
            assert served.script.seen == [b"1", b"2", b"3"]  # received in one read with the first
            for _ in range(4):
                await client.receive()
            assert served.script.seen == [b"1", b"2", b"3", b"4"]

    run(body())


@pytest.mark.parametrize("cold", [False, True])
def test_slice_truncated_while_it_is_sent_closes_the_connection(
    run: Run, serving: Serving, segment: Path, cold: bool, caplog: pytest.LogCaptureFixture
) -> None:
    file = CountingFile(segment, cold)

    async def body() -> None:
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(sliced(file, 19 * MB, 2 * MB))
            client = await served.connect()
            client.send(b"fetch")
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await client.receive()

    run(body())
    assert "Sending a response failed" in caplog.text
    assert not any(record.exc_info for record in caplog.records)


def test_slice_truncated_while_its_rest_is_queued_closes_the_connection(
    run: Run, serving: Serving, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    segment = tmp_path / "cut"
    segment.write_bytes(bytes(20 * MB))
    file = CountingFile(segment)

    async def body() -> None:
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(sliced(file, 0, 20 * MB))
            client = await served.connect(limit=1000)
            client.send(b"fetch")
            await until(lambda: file.read_bytes)
            os.truncate(segment, 19 * MB)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await client.receive()
            await until(lambda: not served.server.connections)

    run(body())
    assert "Sending a response failed" in caplog.text
    assert not any(record.exc_info for record in caplog.records)


class BrokenFile(CountingFile):
    """A file whose reads fail; a read in a thread blocks until `released` is set."""

    def __init__(self, path: Path, cold: bool = False) -> None:
        super().__init__(path, cold)
        self.released = threading.Event()

    def pread(self, size: int, offset: int) -> Never:
        self.waits += 1
        self.released.wait(30)
        raise OSError(errno.EIO, "Input/output error")

    def pread_nowait(self, size: int, offset: int) -> None:
        return None if self.cold else self.pread(size, offset)

    def send_nowait(self, socket: int, size: int, offset: int) -> None:
        return None


@pytest.mark.parametrize("cold", [False, True])
def test_a_slice_that_cannot_be_read_closes_the_connection(
    run: Run, serving: Serving, segment: Path, cold: bool, caplog: pytest.LogCaptureFixture
) -> None:
    file = BrokenFile(segment, cold)
    file.released.set()

    async def body() -> None:
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(sliced(file, 0, MB))
            client = await served.connect()
            client.send(b"fetch")
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await client.receive()

    run(body())
    assert "Sending a response failed: Input/output error" in caplog.text
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.parametrize("cold", [False, True])
def test_a_small_slice_that_cannot_be_read_closes_the_connection(
    run: Run, serving: Serving, segment: Path, cold: bool, caplog: pytest.LogCaptureFixture
) -> None:
    file = BrokenFile(segment, cold)
    file.released.set()

    async def body() -> None:
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(sliced(file, 0, 10))
            client = await served.connect()
            client.send(b"fetch")
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await client.receive()

    run(body())
    assert "Sending a response failed: Input/output error" in caplog.text
    assert not any(record.exc_info for record in caplog.records)


def test_nothing_is_sent_after_an_unreadable_slice(run: Run, segment: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, transport, drained = BrokenFile(segment, cold=True), EncryptingTransport(None), []

    async def body() -> None:
        outbox = SendQueue(asyncio.get_running_loop(), transport, Metrics(), lambda: drained.append(True))
        outbox.send([b"head", sliced(file, 0, MB)])
        outbox.pause()
        file.released.set()
        await until(lambda: caplog.records)
        outbox.send([b"the next response"])
        outbox.resume()
        assert outbox.backed_up
        await until(lambda: transport.aborted)

    run(body())
    assert transport.written == b"head"
    assert not drained


def test_unreadable_slice_on_a_closed_connection_logs_nothing(run: Run, serving: Serving, segment: Path) -> None:
    file, complaints = BrokenFile(segment, cold=True), []

    async def body() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(sliced(file, 0, MB))
            client = await served.connect()
            client.send(b"fetch")
            await until(lambda: file.waits)
            (channel,) = served.server.connections
            channel.abort()
            await until(lambda: not served.server.connections)
            file.released.set()
            await asyncio.get_running_loop().shutdown_default_executor()
            gc.collect()

    run(body())
    assert complaints == []


@pytest.mark.parametrize("cold", [False, True])
def test_disconnected_client_leaves_no_state(
    run: Run, serving: Serving, segment: Path, cold: bool, caplog: pytest.LogCaptureFixture
) -> None:
    file = CountingFile(segment, cold)

    async def body() -> None:
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(sliced(file, 0, 20 * MB))
            client = await served.connect(limit=1000)
            client.send(b"fetch")
            await until(lambda: file.read_bytes)
            client.writer.transport.abort()
            await until(lambda: not served.server.connections)

    run(body())
    assert file.read_bytes < 20 * MB
    assert not caplog.records


class EncryptingTransport(asyncio.Transport):
    """Stores written bytes; its socket must not be used directly: data must be encrypted."""

    def __init__(self, connected: socket.socket | None) -> None:
        super().__init__({"socket": connected, "sslcontext": object()})
        self.written = bytearray()
        self.aborted = False
        self.fails = False

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.written += data
        self.aborted = self.fails

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


def test_encrypting_transport_is_never_bypassed(segment: Path) -> None:
    here, there = socket.socketpair()
    with here, there:
        there.setblocking(False)
        transport, file = EncryptingTransport(here), CountingFile(segment)
        outbox = SendQueue(None, transport, Metrics(), lambda: None)  # type: ignore[arg-type]  # not used here
        outbox.send(framed_parts(sliced(file, 0, 2 * MB)))
        assert bytes(transport.written) == (2 * MB).to_bytes(4, "big") + segment.read_bytes()[: 2 * MB]
        with pytest.raises(BlockingIOError):
            there.recv(1)


def test_failed_socket_stops_reading_slices(segment: Path) -> None:
    file, transport, drained = CountingFile(segment), EncryptingTransport(None), []
    outbox = SendQueue(None, transport, Metrics(), lambda: drained.append(True))  # type: ignore[arg-type]  # not used here
    transport.fails = True
    outbox.send([memoryview(b"head"), *(sliced(file, number * MB, MB) for number in range(20))])
    assert transport.written[:4] == b"head"
    assert file.read_bytes <= READ_AHEAD_BYTES
    outbox.resume()
    assert not drained


def test_stop_sends_the_current_response_whole(run: Run, serving: Serving, segment: Path) -> None:
    file = CountingFile(segment)

    async def body() -> None:
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(sliced(file, 0, 20 * MB))
            client = await served.connect(limit=1000)
            client.send(b"fetch")
            await until(lambda: file.read_bytes)
            stopping = asyncio.ensure_future(served.server.stop(20.0))
            assert await client.receive() == segment.read_bytes()
            await stopping

    run(body())
