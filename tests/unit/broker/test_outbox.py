"""Responses with slices of files, on real sockets and real files."""

import asyncio
import errno
import gc
import os
import threading

import pytest

from broker.outbox import READ_AHEAD_BYTES
from protocol.errors import DecodeError
from storage.disk import OsDisk
from storage.segment import FileSlice

MB = 1024 * 1024


class CountingFile:
    """A file on disk that counts what is read of it; `cold` pretends that none of it is in memory."""

    def __init__(self, path, cold=False):
        self.file = OsDisk().open_file(str(path))
        self.path = str(path)
        self.cold = cold
        self.read_bytes = 0
        self.waits = 0

    def pread(self, size, offset):
        self.waits += 1
        data = self.file.pread(size, offset)
        self.read_bytes += len(data)
        return data

    def pread_nowait(self, size, offset):
        if self.cold:
            return None
        data = self.file.pread_nowait(size, offset)
        if data is None:  # a file system that cannot tell
            data = self.file.pread(size, offset)
        self.read_bytes += len(data)
        return data


@pytest.fixture
def segment(tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(os.urandom(20 * MB))
    return path


def framed_parts(*parts):
    size = sum(part.size_bytes if isinstance(part, FileSlice) else len(part) for part in parts)
    return [size.to_bytes(4, "big"), *parts]


async def until(condition):
    while not condition():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0)


@pytest.mark.parametrize("size_bytes", [7, 3 * MB])
@pytest.mark.parametrize("cold", [False, True])
def test_bytes_and_slices_leave_in_order(run, serving, segment, cold, size_bytes):
    file = CountingFile(segment, cold)
    content = segment.read_bytes()
    parts = framed_parts(
        b"head", FileSlice(file, 10, 5), bytearray(b"mid"), FileSlice(file, 0, size_bytes), memoryview(b"tail")
    )

    async def body():
        async with serving() as served:
            served.script.answer = lambda *_: list(parts)
            client = await served.connect()
            for _ in range(3):
                client.send(b"fetch")
                expected = b"head" + content[10:15] + b"mid" + content[:size_bytes] + b"tail"
                assert await client.receive() == expected

    run(body())
    assert bool(file.waits) is cold


@pytest.mark.parametrize("cold", [False, True])
def test_what_was_answered_before_a_bad_request_leaves_whole(run, serving, segment, cold):
    file = CountingFile(segment, cold)

    def answer(request, connection):
        if request == b"bad":
            raise DecodeError("bad bytes")
        return framed_parts(FileSlice(file, 0, 20 * MB))

    async def body():
        async with serving() as served:
            served.script.answer = answer
            client = await served.connect()
            client.send(b"fetch", b"bad")
            assert await client.receive() == segment.read_bytes()
            assert await client.closed()

    run(body())


def test_a_reader_that_does_not_read_costs_one_megabyte(run, serving, segment):
    file = CountingFile(segment)

    async def body():
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(FileSlice(file, 0, 20 * MB))
            client = await served.connect(limit=1000)
            client.send(b"fetch")
            await until(lambda: file.read_bytes)
            other = await served.connect()
            (channel,) = (c for c in served.server.connections if c._outbox.backed_up)
            in_sockets = served.server.metrics.sent_bytes - channel._transport.get_write_buffer_size()
            assert file.read_bytes <= in_sockets + READ_AHEAD_BYTES
            assert file.read_bytes < 20 * MB
            served.script.answer = lambda *_: framed_parts(b"quick")
            other.send(b"fetch")
            assert await other.receive() == b"quick"
            assert await client.receive() == segment.read_bytes()

    run(body())


def test_requests_are_not_read_while_responses_are_not_taken(run, serving, segment):
    file = CountingFile(segment)

    async def body():
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(FileSlice(file, 0, 20 * MB))
            client = await served.connect(limit=1000)
            client.send(b"1", b"2", b"3")
            await until(lambda: file.read_bytes)
            client.send(b"4")
            for _ in range(100):
                await asyncio.sleep(0)
            assert served.script.seen == [b"1", b"2", b"3"]  # these came in one piece with the first
            for _ in range(4):
                await client.receive()
            assert served.script.seen == [b"1", b"2", b"3", b"4"]

    run(body())


@pytest.mark.parametrize("cold", [False, True])
def test_a_slice_that_is_cut_off_while_it_is_sent_closes_the_connection(run, serving, segment, cold, caplog):
    file = CountingFile(segment, cold)

    async def body():
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(FileSlice(file, 19 * MB, 2 * MB))
            client = await served.connect()
            client.send(b"fetch")
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await client.receive()

    run(body())
    assert "A response could not be sent whole" in caplog.text
    assert not any(record.exc_info for record in caplog.records)


class BrokenFile(CountingFile):
    """A file of which nothing can be read; where that takes a thread, not before it is `released`."""

    def __init__(self, path, cold=False):
        super().__init__(path, cold)
        self.released = threading.Event()

    def pread(self, size, offset):
        self.waits += 1
        self.released.wait(30)
        raise OSError(errno.EIO, "Input/output error")

    def pread_nowait(self, size, offset):
        return None if self.cold else self.pread(size, offset)


@pytest.mark.parametrize("cold", [False, True])
def test_a_slice_that_cannot_be_read_closes_the_connection(run, serving, segment, cold, caplog):
    file = BrokenFile(segment, cold)
    file.released.set()

    async def body():
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(FileSlice(file, 0, MB))
            client = await served.connect()
            client.send(b"fetch")
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await client.receive()

    run(body())
    assert "A response could not be sent whole: [Errno 5] Input/output error" in caplog.text
    assert not any(record.exc_info for record in caplog.records)


def test_a_slice_that_cannot_be_read_when_the_connection_is_closed_already_is_nothing_to_tell(run, serving, segment):
    file, complaints = BrokenFile(segment, cold=True), []

    async def body():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(FileSlice(file, 0, MB))
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
def test_a_reader_that_leaves_is_forgotten(run, serving, segment, cold):
    file = CountingFile(segment, cold)

    async def body():
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(FileSlice(file, 0, 20 * MB))
            client = await served.connect(limit=1000)
            client.send(b"fetch")
            await until(lambda: file.read_bytes)
            client.writer.transport.abort()
            await until(lambda: not served.server.connections)

    run(body())
    assert file.read_bytes < 20 * MB


def test_stopping_sends_a_response_to_its_end(run, serving, segment):
    file = CountingFile(segment)

    async def body():
        async with serving() as served:
            served.script.answer = lambda *_: framed_parts(FileSlice(file, 0, 20 * MB))
            client = await served.connect(limit=1000)
            client.send(b"fetch")
            await until(lambda: file.read_bytes)
            stopping = asyncio.ensure_future(served.server.stop(20.0))
            assert await client.receive() == segment.read_bytes()
            await stopping

    run(body())
