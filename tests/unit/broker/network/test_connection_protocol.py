from __future__ import annotations

import asyncio
import logging
import socket
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from broker.network.connection import MAX_HELD_BYTES, MAX_IN_FLIGHT, Connection, Disconnect
from broker.network.connection_protocol import TURN_REQUESTS, DeferredResponse
from broker.runtime.deferred import Deferred
from broker.runtime.purgatory import DelayedOperation, Purgatory
from protocol.api import ApiKey
from protocol.errors import DecodeError
from protocol.framing import LARGE_FRAME_BYTES
from protocol.primitives import Part
from tests.unit.broker.conftest import Run, Serving


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


class Later:
    """Deferred responses that a test completes; the first word of a request is its API."""

    def __init__(self) -> None:
        self.pending: dict[Any, Any] = {}

    def __call__(self, body: bytes, connection: Connection) -> DeferredResponse:
        api, _, _ = body.partition(b" ")
        future = self.pending[body] = asyncio.get_running_loop().create_future()
        return DeferredResponse(ApiKey[api.decode()], future)

    def give(self, body: bytes) -> None:
        self.pending.pop(body).set_result([framed(body)])


async def until(condition: Callable[[], object]) -> None:
    """Run the loop until the condition holds; the timeout of `run` bounds the wait."""
    while not condition():  # noqa: ASYNC110 - the condition has no event
        await asyncio.sleep(0)


def test_request_gets_a_response(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            client = await served.connect()
            client.send(b"hello")
            assert await client.receive() == b"hello"

    run(body())


def test_pipelined_requests_are_answered_in_order(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            client = await served.connect()
            bodies = [b"%d" % i for i in range(1000)]
            client.send(*bodies)
            assert [await client.receive() for _ in bodies] == bodies

    run(body())


def test_flood_of_requests_does_not_starve_another_client(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            flooding, other = await served.connect(), await served.connect()
            flood = [b"%d" % i for i in range(4 * TURN_REQUESTS)]
            flooding.send(*flood)
            other.send(b"other")
            assert await other.receive() == b"other"
            assert [await flooding.receive() for _ in flood] == flood
            turns = [at // TURN_REQUESTS for at, request in enumerate(served.script.seen) if request == b"other"]
            assert turns < [3]

    run(body())


def test_flood_from_many_clients_does_not_starve_another_client(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            flooding, other = [await served.connect() for _ in range(50)], await served.connect()
            for client in flooding:
                client.send(*[b"flood"] * 2 * TURN_REQUESTS)
            other.send(b"other")
            assert await other.receive() == b"other"
            assert served.script.seen.index(b"other") < len(flooding) * TURN_REQUESTS // 4
            for client in flooding:
                for _ in range(2 * TURN_REQUESTS):
                    assert await client.receive() == b"flood"

    run(body())


def test_large_responses_yield_to_another_client_earlier(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            served.script.answer = lambda request, _: [framed(bytes(request) + bytes(len(request) and 256 * 1024))]
            flooding, other = await served.connect(), await served.connect()
            flooding.send(*[b"all"] * TURN_REQUESTS)
            other.send(b"other")
            await other.receive()
            assert served.script.seen.index(b"other") < TURN_REQUESTS // 4

    run(body())


def test_pending_responses_for_a_client_that_does_not_read_are_bounded(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            served.script.answer = lambda request, _: [framed(bytes(1024 * 1024) if request == b"all" else b"")]
            greedy, other = await served.connect(), await served.connect()
            greedy.reader._transport.pause_reading()  # type: ignore[attr-defined]  # private to asyncio
            greedy.send(*[b"all"] * TURN_REQUESTS)
            await until(lambda: served.script.seen)
            for _ in range(100):
                other.send(b"other")
                await other.receive()
            assert served.script.seen.count(b"all") < TURN_REQUESTS // 4

    run(body())


def test_request_received_in_many_reads_gets_a_response(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            client = await served.connect()
            big = bytes(range(256)) * 4000
            client.send(big, b"small")
            assert [await client.receive(), await client.receive()] == [big, b"small"]

    run(body())


def test_deferred_produce_delays_later_responses_but_not_later_requests(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            later = served.script.answer = Later()
            client = await served.connect()
            client.send(b"PRODUCE 1", b"PRODUCE 2", b"FETCH 3")
            await until(lambda: len(later.pending) == 3)
            later.give(b"FETCH 3")
            later.give(b"PRODUCE 2")
            later.give(b"PRODUCE 1")
            assert [await client.receive() for _ in range(3)] == [b"PRODUCE 1", b"PRODUCE 2", b"FETCH 3"]

    run(body())


def test_deferred_commit_blocks_later_requests(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            later = served.script.answer = Later()
            client = await served.connect()
            other = await served.connect()
            client.send(b"OFFSET_COMMIT 1", b"OFFSET_FETCH 2", b"OFFSET_FETCH 3")
            await until(lambda: served.script.seen)
            overwriting = b"HEARTBEAT " + bytes(1000)  # longer than the content of the shared scratch buffer
            other.send(overwriting)
            await until(lambda: overwriting in later.pending)
            assert served.script.seen == [b"OFFSET_COMMIT 1", overwriting]
            later.give(overwriting)
            for request in (b"OFFSET_COMMIT 1", b"OFFSET_FETCH 2", b"OFFSET_FETCH 3"):
                await until(lambda request=request: request in later.pending)  # type: ignore[misc]  # a lambda with a default has no inferred type
                later.give(request)
                assert await client.receive() == request
            assert served.script.read_only == []  # record batches are patched in place

    run(body())


def test_reading_stops_while_too_many_requests_are_pending(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            later = served.script.answer = Later()
            client = await served.connect()
            requests = [b"FETCH %d " % i + bytes(5000) for i in range(3 * MAX_IN_FLIGHT)]
            client.send(*requests)
            await until(lambda: len(later.pending) == MAX_IN_FLIGHT)
            received = served.server.metrics.received_bytes
            for request in requests:
                assert len(later.pending) <= MAX_IN_FLIGHT
                await until(lambda request=request: request in later.pending)  # type: ignore[misc]  # a lambda with a default has no inferred type
                later.give(request)
                assert await client.receive() == request
            assert received < len(b"".join(requests)) / 2

    run(body())


def test_a_request_without_a_response_gets_none(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            served.script.answer = lambda body, _: None if body == b"quiet" else [framed(body)]
            client = await served.connect()
            client.send(b"quiet", b"loud")
            assert await client.receive() == b"loud"

    run(body())


@pytest.mark.parametrize("reason", [DecodeError("bad bytes"), Disconnect("unknown API 99")])
def test_a_bad_request_closes_the_connection_with_one_line_after_earlier_responses(
    run: Run, serving: Serving, caplog: pytest.LogCaptureFixture, reason: Disconnect | DecodeError
) -> None:
    def answer(body: bytes, connection: Connection) -> list[bytes]:
        if body == b"bad":
            raise reason
        return [framed(body)]

    async def body() -> None:
        async with serving() as served:
            served.script.answer = answer  # type: ignore[assignment]  # replaced for this test
            client = await served.connect()
            client.send(b"good", b"bad", b"after")
            assert await client.receive() == b"good"
            assert await client.closed()
            assert served.script.seen == [b"good", b"bad"]

    with caplog.at_level(logging.INFO):
        run(body())
    lines = [record for record in caplog.records if record.name == "broker.channel"]
    assert [line.getMessage() for line in lines] == [f"Closing the connection from 127.0.0.1 on PLAINTEXT: {reason}"]
    assert lines[0].exc_info is None


def test_requests_after_a_bad_one_are_not_handled_while_earlier_responses_drain(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            later, before = Later(), [b"good"] * (TURN_REQUESTS - 10)

            def answer(request: bytes, connection: Connection) -> list[bytes] | DeferredResponse:
                if request == b"bad":
                    raise DecodeError("bad bytes")
                return [framed(bytes(4000))] if request == b"good" else later(request, connection)

            served.script.answer = answer  # type: ignore[assignment]  # replaced for this test
            client = await served.connect()
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]  # private to asyncio
            await until(lambda: served.server.connections)
            (channel,) = served.server.connections
            channel._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            client.send(b"JOIN_GROUP", *before, b"bad", b"PRODUCE")
            await until(lambda: later.pending)
            later.give(b"JOIN_GROUP")
            await until(lambda: channel.backed_up)
            client.reader._transport.resume_reading()  # type: ignore[attr-defined]  # private to asyncio
            assert await client.receive() == b"JOIN_GROUP"
            for _ in before:
                assert len(await client.receive()) == 4000
            assert await client.closed()
            assert served.script.seen == [b"JOIN_GROUP", *before, b"bad"]

    run(body())


def test_deferred_request_that_fails_closes_the_connection(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            later = served.script.answer = Later()
            client = await served.connect()
            client.send(b"PRODUCE 1")
            await until(lambda: later.pending)
            later.pending[b"PRODUCE 1"].set_exception(Disconnect("no answer is possible"))
            assert await client.closed()

    run(body())


def test_pending_requests_are_answered_before_a_bad_request_closes_the_connection(
    run: Run, serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with serving() as served:
            later = Later()

            def answer(request: bytes, connection: Connection) -> DeferredResponse:
                if request.startswith(b"bad"):
                    raise DecodeError("bad bytes")
                return later(request, connection)

            served.script.answer = answer
            client = await served.connect()
            client.send(b"PRODUCE 1", b"FETCH 2", b"bad", b"bad again")
            await until(lambda: len(served.script.seen) == 3)
            client.send(b"after")
            later.give(b"FETCH 2")
            later.give(b"PRODUCE 1")
            assert [await client.receive(), await client.receive()] == [b"PRODUCE 1", b"FETCH 2"]
            assert await client.closed()
            assert served.script.seen == [b"PRODUCE 1", b"FETCH 2", b"bad"]

    with caplog.at_level(logging.INFO):
        run(body())
    assert caplog.text.count("Closing the connection") == 1


class Waiting(DelayedOperation):
    """An operation of a purgatory that answers a request when it expires."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.body = body
        self.response: Deferred[list[Part] | None] = Deferred(asyncio.get_running_loop())

    def expire(self) -> None:
        self.response.answer([framed(self.body)])


def test_no_request_of_any_connection_is_handled_amid_a_sweep_of_the_purgatory(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            purgatory = Purgatory(lambda: None, lambda _: None)

            def answer(request: bytes, _: Connection) -> DeferredResponse:
                waiting = Waiting(request)
                purgatory.expire_at(waiting, 1.0)
                return DeferredResponse(ApiKey.JOIN_GROUP, waiting.response)

            served.script.answer = answer
            clients = [await served.connect() for _ in range(2)]
            for client in clients:
                client.send(b"first", b"second")
            await until(lambda: len(served.script.seen) == 2)
            purgatory.run(1.0)
            assert served.script.seen == [b"first"] * 2
            assert [await client.receive() for client in clients] == [b"first"] * 2
            await until(lambda: len(served.script.seen) == 4)
            purgatory.run(1.0)
            assert [await client.receive() for client in clients] == [b"second"] * 2

    run(body())


def test_requests_after_a_failed_deferred_one_are_not_answered(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            later = served.script.answer = Later()
            client = await served.connect()
            client.send(b"PRODUCE 1", b"PRODUCE 2", b"PRODUCE 3")
            await until(lambda: len(later.pending) == 3)
            later.pending[b"PRODUCE 2"].set_exception(Disconnect("no answer is possible"))
            await until(lambda: next(iter(served.server.connections)).connection.ending)
            later.give(b"PRODUCE 3")
            later.give(b"PRODUCE 1")
            assert await client.receive() == b"PRODUCE 1"
            assert await client.closed()

    run(body())


def test_a_frame_above_the_limit_closes_the_connection(
    run: Run, serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with serving(max_request_bytes=1000) as served:
            client = await served.connect()
            client.send(bytes(1001))
            assert await client.closed()

    run(body())
    assert "frame of 1001 bytes; the limit is 1000" in caplog.text


def test_the_same_reason_from_the_same_address_is_logged_once(
    run: Run, serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with serving(max_request_bytes=1000) as served:
            for _ in range(3):
                client = await served.connect()
                client.send(bytes(1001))
                assert await client.closed()

    run(body())
    assert caplog.text.count("Closing the connection") == 1


def test_disconnect_cancels_the_deferred_fetch_but_not_the_produce(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            later = served.script.answer = Later()
            client = await served.connect()
            client.send(b"FETCH 1", b"PRODUCE 2", b"FETCH 3")
            await until(lambda: len(later.pending) == 3)
            answered = later.pending[b"FETCH 1"]
            later.give(b"FETCH 1")
            await client.receive()
            client.writer.close()
            await until(lambda: not served.server.connections)
            assert not answered.cancelled()
            assert {request: later.pending[request].cancelled() for request in later.pending} == {
                b"PRODUCE 2": False,
                b"FETCH 3": True,
            }

    run(body())


def test_response_after_a_disconnect_is_dropped(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            later = served.script.answer = Later()
            client = await served.connect()
            client.send(b"PRODUCE 1")
            await until(lambda: later.pending)
            client.writer.close()
            await until(lambda: not served.server.connections)
            later.give(b"PRODUCE 1")
            other = await served.connect()
            other.send(b"PRODUCE 2")
            await until(lambda: b"PRODUCE 2" in later.pending)
            later.give(b"PRODUCE 2")
            assert await other.receive() == b"PRODUCE 2"

    run(body())


def test_tcp_nodelay_is_set(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            client = await served.connect()
            client.send(b"x")
            await client.receive()
            (channel,) = served.server.connections
            sock = channel._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(body())


def test_tiny_requests_behind_a_deferred_one_take_no_more_memory_than_their_bytes(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            later = served.script.answer = Later()
            client = await served.connect()
            large, tiny = b"FETCH " + bytes(LARGE_FRAME_BYTES), [b""] * 100_000
            client.send(large)  # later reads are large
            await until(lambda: large in later.pending)
            tracemalloc.start()
            try:
                client.send(b"JOIN_GROUP 1", *tiny)
                await until(lambda: b"JOIN_GROUP 1" in later.pending)
                held_bytes = served.server.request_memory.used_bytes
                kept_bytes = sum(
                    found.size
                    for found in tracemalloc.take_snapshot().statistics("filename")
                    if found.traceback[0].filename.endswith(("framing.py", "channel.py"))
                )
            finally:
                tracemalloc.stop()
            assert 0 < held_bytes <= 4 * len(tiny)
            assert kept_bytes < held_bytes + 10_000
            await served.server.stop(0)  # pending requests are not answered

    run(body())


def test_requests_behind_large_pending_responses_are_not_handled(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            later = Later()
            served.script.answer = lambda request, connection: (
                later(request, connection) if request == b"FETCH" else [framed(bytes(MAX_HELD_BYTES // 4))]
            )
            client = await served.connect()
            client.send(b"FETCH", *[b"large"] * 20)
            await until(lambda: served.script.seen.count(b"large") == 4)
            for _ in range(10):
                await asyncio.sleep(0)
            assert served.script.seen.count(b"large") == 4
            later.give(b"FETCH")
            assert await client.receive() == b"FETCH"
            for _ in range(20):
                assert len(await client.receive()) == MAX_HELD_BYTES // 4

    run(body())


def test_only_large_requests_wait_for_request_memory(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving(max_queued_bytes=1000) as served:
            memory = served.server.request_memory
            large = [await served.connect() for _ in range(4)]
            small = await served.connect()
            halves = [framed(bytes([number]) * 500_000) for number in range(4)]
            for client, request in zip(large, halves, strict=True):
                client.writer.write(request[:250_000])
            await until(lambda: memory.let_through)
            small.send(b"small")
            assert await small.receive() == b"small"
            for client, request in zip(large, halves, strict=True):
                client.writer.write(request[250_000:])
            for number in (3, 1, 0, 2):
                assert await large[number].receive() == bytes([number]) * 500_000
            assert memory.used_bytes == 0
            assert memory.let_through is None

    run(body())


def test_connection_waiting_for_memory_closes_on_disconnect_or_server_stop(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving(max_queued_bytes=1000) as served:
            memory = served.server.request_memory
            clients = [await served.connect() for _ in range(3)]
            for client in clients:
                client.writer.write(framed(bytes(500_000))[:250_000])
            await until(lambda: memory.let_through and memory._waiting)
            for client in clients:
                client.writer.transport.abort()
            await served.server.stop(10.0)
            assert memory.used_bytes == 0

    run(body())


def test_a_muted_client_waits_while_another_is_served(run: Run, serving: Serving) -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        muted_until = loop.time() + 0.05

        def answer(request: bytes, connection: Connection) -> list[Part]:
            if request == b"mute":
                connection.mute(muted_until)
            return [framed(bytes(request) + (b" late" if loop.time() >= muted_until else b""))]

        async with serving() as served:
            served.script.answer = answer
            muted, other = await served.connect(), await served.connect()
            muted.send(b"mute", b"after")
            assert await muted.receive() == b"mute"
            other.send(b"other")
            await other.receive()
            assert served.script.seen == [b"mute", b"other"]
            assert await muted.receive() == b"after late"

    run(body())


def test_a_stopping_server_answers_what_a_muted_client_has_sent(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:

            def answer(request: bytes, connection: Connection) -> list[Part]:
                if request.startswith(b"mute"):
                    connection.mute(asyncio.get_running_loop().time() + 3600)
                return [framed(bytes(request))]

            served.script.answer = answer
            client = await served.connect()
            client.send(b"mute", b"mute again", b"after")
            assert await client.receive() == b"mute"
            await served.server.stop(5.0)
            assert await client.receive() == b"mute again"
            assert await client.receive() == b"after"
            assert not served.server.connections

    run(body())
