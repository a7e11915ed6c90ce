from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from broker.monitoring.counters import Metrics
from broker.network.connection import Connection
from broker.network.connection_counts import ConnectionLimits
from broker.network.connection_limits import Limits
from broker.network.connection_protocol import DeferredResponse
from broker.network.socket_server import BindError, Server, why_not_bound
from protocol.api import ApiKey
from protocol.primitives import Part
from tests.unit.broker.conftest import Run, Serving

LIMITS = Limits(ConnectionLimits(10, 10), max_request_bytes=1 << 20, max_idle_s=600.0)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - the condition has no event
        await asyncio.sleep(0)


def test_port_0_is_any_free_port(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as one, serving() as two:
            assert 0 != one.port != two.port

    run(body())


def test_nothing_is_accepted_before_the_start(run: Run) -> None:
    async def body() -> None:
        server = Server(asyncio.get_running_loop(), LIMITS, Metrics())
        port = await server.bind("PLAINTEXT", "127.0.0.1", 0, lambda *_: None)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        await server.stop(1.0)

    run(body())


def test_inherited_socket_listens_only_from_start(run: Run) -> None:
    async def body() -> None:
        bound = socket.socket()
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        server = Server(asyncio.get_running_loop(), LIMITS, Metrics())
        server.use_sockets({"GIVEN": bound})
        assert await server.bind("GIVEN", "192.0.2.1", 1, lambda body, _: [framed(bytes(body))]) == port
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(framed(b"x"))
        assert await reader.readexactly(5) == framed(b"x")
        writer.close()
        await server.stop(1.0)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    run(body())


def test_error_has_the_address_in_use(run: Run) -> None:
    async def body() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            server = Server(asyncio.get_running_loop(), LIMITS, Metrics())
            with pytest.raises(BindError, match=f"cannot listen on 127.0.0.1:{port}: address already in use"):
                await server.bind("PLAINTEXT", "127.0.0.1", port, lambda *_: None)
            await server.stop(1.0)

    run(body())


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(98, "error while attempting to bind on address: address already in use"), "address already in use"),
        (socket.gaierror(-2, "Name or service not known"), "name or service not known"),
        (OSError("Multiple exceptions"), "multiple exceptions"),
    ],
)
def test_bind_error_reason_omits_the_address(error: OSError, why: str) -> None:
    assert why_not_bound(error) == why


def test_error_has_the_host_that_is_not_local(run: Run) -> None:
    async def body() -> None:
        server = Server(asyncio.get_running_loop(), LIMITS, Metrics())
        with pytest.raises(BindError, match=r"cannot listen on 192\.0\.2\.1:9092: "):
            await server.bind("PLAINTEXT", "192.0.2.1", 9092, lambda *_: None)

    run(body())


def test_an_empty_host_listens_on_every_interface_at_one_port(run: Run) -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        server = Server(loop, LIMITS, Metrics())
        port = await server.bind("PLAINTEXT", "", 0, lambda body, _: [framed(bytes(body))])
        await server.start()
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            try:
                with socket.socket(family) as probe:
                    probe.bind((host, 0))
            except OSError:
                continue  # no such interface on this machine
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(framed(b"x"))
            assert await reader.readexactly(5) == framed(b"x")
            writer.close()
        await server.stop(1.0)

    run(body())


def test_connections_above_the_limit_are_closed(run: Run, serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with serving(ConnectionLimits(2, 10)) as served:
            kept = [await served.connect() for _ in range(2)]
            await until(lambda: len(served.server.connections) == 2)
            assert await (await served.connect()).closed()
            kept[0].writer.close()
            await until(lambda: len(served.server.connections) == 1)
            again = await served.connect()
            again.send(b"x")
            assert await again.receive() == b"x"

    run(body())
    assert "max.connections=2 is reached" in caplog.text


def test_connections_are_refused_before_logs_run_out_of_fds(
    run: Run, serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with serving(ConnectionLimits(10, 10, max_descriptors=1)) as served:
            kept = await served.connect()
            kept.send(b"x")
            await kept.receive()
            assert await (await served.connect()).closed()

    run(body())
    assert "the open file limit (1 connections) is reached" in caplog.text


def test_connections_of_one_host_are_limited(run: Run, serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with serving(ConnectionLimits(10, 1)) as served:
            kept = await served.connect()
            kept.send(b"x")
            await kept.receive()
            assert await (await served.connect()).closed()
            assert served.server.metrics.connections_refused == 1

    run(body())
    assert "max.connections.per.ip=1 is reached" in caplog.text


def test_idle_connections_are_closed_except_with_pending_requests(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving(max_idle_s=0.0) as served:
            loop = asyncio.get_running_loop()
            pending = loop.create_future()
            served.script.answer = lambda *_: DeferredResponse(ApiKey.FETCH, pending)
            silent, waiting = await served.connect(), await served.connect()
            waiting.send(b"fetch")
            await until(lambda: served.script.seen and len(served.server.connections) == 2)
            deadline = loop.time()
            await until(lambda: loop.time() > deadline)
            served.server.close_idle()
            assert await silent.closed()
            pending.set_result([framed(b"data")])
            assert await waiting.receive() == b"data"

    run(body())


def test_client_with_a_recent_response_is_not_idle(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving(max_idle_s=600.0) as served:
            pending = asyncio.get_running_loop().create_future()
            served.script.answer = lambda *_: DeferredResponse(ApiKey.FETCH, pending)
            client = await served.connect()
            client.send(b"fetch")
            await until(lambda: served.script.seen)
            (channel,) = served.server.connections
            channel.used_at -= 1_000
            pending.set_result([framed(b"data")])
            await until(lambda: channel.idle)
            served.server.close_idle()
            assert await client.receive() == b"data"
            assert served.server.connections

    run(body())


def test_client_that_does_not_read_its_response_is_closed(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving(max_idle_s=0.0) as served:
            loop = asyncio.get_running_loop()
            served.script.answer = lambda *_: [framed(bytes(64 << 20))]
            client = await served.connect()
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]  # private to asyncio
            client.send(b"all")
            await until(lambda: any(channel.backed_up for channel in served.server.connections))
            deadline = loop.time()
            await until(lambda: loop.time() > deadline)
            served.server.close_idle()
            await until(lambda: not served.server.connections)

    run(body())


def test_client_that_reads_a_large_response_slowly_is_not_idle(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving(max_idle_s=600.0) as served:
            served.script.answer = lambda *_: [framed(bytes(64 << 20))]
            client = await served.connect()
            client.send(b"all")
            await until(lambda: served.server.connections)
            (channel,) = served.server.connections
            await until(lambda: channel.backed_up)
            channel.used_at = begun = channel.used_at - 1_000
            assert len(await client.receive()) == 64 << 20
            assert channel.used_at > begun
            served.server.close_idle()
            assert served.server.connections

    run(body())


def test_stop_answers_received_requests(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            loop = asyncio.get_running_loop()
            futures = [loop.create_future() for _ in range(2)]
            served.script.answer = lambda body, _: DeferredResponse(ApiKey.OFFSET_COMMIT, futures[int(body)])
            client = await served.connect()
            client.send(b"0", b"1")
            await until(lambda: served.script.seen)
            stopping = loop.create_task(served.server.stop(20.0))
            await asyncio.sleep(0)
            with pytest.raises(OSError, match=r".*"):
                await asyncio.open_connection("127.0.0.1", served.port)
            for i, future in enumerate(futures):
                future.set_result([framed(b"%d" % i)])
                assert await client.receive() == b"%d" % i
            assert await client.closed()
            await stopping

    run(body())


def test_stop_has_a_time_limit(run: Run, serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with serving() as served:
            never = asyncio.get_running_loop().create_future()
            served.script.answer = lambda *_: DeferredResponse(ApiKey.FETCH, never)
            client = await served.connect()
            client.send(b"fetch")
            await until(lambda: served.script.seen)
            await served.server.stop(0.0)
            assert await client.closed()

    run(body())
    assert "Closing 1 connection: responses were not read in time" in caplog.text


def test_refusals_are_logged_at_a_limited_rate(run: Run, serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with serving(ConnectionLimits(0, 10)) as served:
            for _ in range(20):
                assert await (await served.connect()).closed()
            assert served.server.metrics.connections_refused == 20

    run(body())
    assert [record.getMessage() for record in caplog.records if record.name == "broker.server"] == [
        "Refusing a connection from 127.0.0.1 on PLAINTEXT: max.connections=0 is reached"
    ]


def test_new_limits_apply_to_new_connections(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving(ConnectionLimits(10, 10)) as served:
            kept = await served.connect()
            limits = ConnectionLimits(10, 1, overrides={"localhost": 2})
            served.server.limit(served.server.limits._replace(connections=limits))
            await until(lambda: "127.0.0.1" in served.server.limits.connections.overrides)
            for client in (kept, await served.connect()):
                client.send(b"x")
                assert await client.receive() == b"x"
            assert await (await served.connect()).closed()

    run(body())


def test_override_addresses_are_normalized(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            limits = ConnectionLimits(10, 10, overrides={"0:0:0:0:0:0:0:1": 2})
            served.server.limit(served.server.limits._replace(connections=limits))
            await until(lambda: served.server.limits.connections.overrides.get("::1") == 2)

    run(body())


def test_unresolvable_override_host_is_logged_and_ignored(
    run: Run, serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with serving() as served:
            limits = ConnectionLimits(10, 10, overrides={"no.such.host.invalid": 2, "127.0.0.1": 3})
            served.server.limit(served.server.limits._replace(connections=limits))
            await until(lambda: caplog.records)
            assert served.server.limits.connections.overrides["127.0.0.1"] == 3

    run(body())
    assert "max.connections.per.ip.overrides has no effect on no.such.host.invalid: " in caplog.text


def test_stop_does_not_wait_for_a_socket_accepted_in_the_same_loop_iteration(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            (listening,) = served.server._sockets[0][1].sockets
            loop = asyncio.get_running_loop()
            known = await served.connect()
            await until(lambda: served.server.connections)
            with socket.create_connection(listening.getsockname()) as late:
                late.setblocking(False)
                begun = loop.time()
                await served.server.stop(20.0)
                assert loop.time() - begun < 10
                assert await known.closed()
                with suppress(ConnectionResetError):
                    assert await asyncio.wait_for(loop.sock_recv(late, 1), 10) == b""
            assert not served.server.connections

    run(body())


def test_large_request_must_arrive_in_time_if_request_memory_is_limited(
    run: Run, serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with serving(max_queued_bytes=1, max_request_bytes=1 << 30) as served:
            server = served.server
            idle, slow, other = [await served.connect() for _ in range(3)]
            idle.writer.write((1 << 20).to_bytes(4, "big") + b"begun")
            await until(lambda: server.request_memory.full)
            slow.writer.write((1 << 20).to_bytes(4, "big") + b"begun")
            await until(lambda: server.request_memory.let_through)
            other.send(bytes(1 << 19))
            server.close_slow()
            server.close_slow()
            assert await slow.closed()
            assert len(await other.receive()) == 1 << 19

    run(body())
    assert "its request arrives slowly, and queued.max.request.bytes is reached" in caplog.text


def login(request: bytes, connection: Connection) -> list[Part]:
    if request == b"login":
        connection.authenticated("User:a", by_token=False)
    return [framed(request)]


def test_clients_that_do_not_authenticate_leave_memory_to_those_that_did(
    run: Run, serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with serving(first_request_bytes=1 << 19, max_unauthenticated_bytes=1 << 19) as served:
            server, served.script.answer = served.server, login
            attackers = [await served.connect() for _ in range(10)]
            for attacker in attackers:
                attacker.writer.write((1 << 19).to_bytes(4, "big") + bytes((1 << 19) - 1))
            await until(lambda: server.unauthenticated_memory.full and server.unauthenticated_memory.let_through)
            client = await served.connect()
            client.send(b"login")
            assert await client.receive() == b"login"
            client.writer.write(framed(bytes(1 << 20))[: 1 << 19])
            await until(lambda: server.request_memory.used_bytes)
            client.writer.write(framed(bytes(1 << 20))[1 << 19 :])
            assert await client.receive() == bytes(1 << 20)
            assert server.unauthenticated_memory.full
            server.close_slow()
            server.close_slow()
            await until(lambda: len(server.connections) <= len(attackers))
            assert server.request_memory.used_bytes == 0

    run(body())
    assert "its request arrives slowly, and the limit of memory before the authentication is reached" in caplog.text


def test_failing_close_callback_is_logged_and_the_connection_removed(run: Run, serving: Serving) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async def body() -> None:
        reported: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.set_result(context))
        async with serving() as served:

            def answer(request: bytes, connection: Connection) -> list[Part]:
                connection.on_close("fails", fail)
                return [framed(request)]

            served.script.answer = answer
            client = await served.connect()
            client.send(b"x")
            assert await client.receive() == b"x"
            client.writer.close()
            assert isinstance((await reported)["exception"], ZeroDivisionError)
            assert not served.server.connections

    run(body())
