"""The TCP semantics that the broker and its clients rely on."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from simulation.loop import Loop, Schedule, Trace
from simulation.network import Network, SimulatedServer


class Recorder(asyncio.Protocol):
    """Record all callbacks."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.lost: list[Exception | None] = []
        self.paused: list[bool] = []
        self.ended = False
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> None:
        self.ended = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    def pause_writing(self) -> None:
        self.paused.append(True)

    def resume_writing(self) -> None:
        self.paused.append(False)


class Pair:
    """A server and a client on two hosts."""

    def __init__(self, seed: int = 1) -> None:
        self.schedule = Schedule(Random(seed), Trace())
        self.network = Network(self.schedule, Random(seed))
        self.server_loop: Loop = self.schedule.loop("server")
        self.client_loop: Loop = self.schedule.loop("client")
        self.server, self.client = Recorder(), Recorder()
        self.schedule.run(self.server_loop, self._listen())

    async def _listen(self) -> SimulatedServer:
        listening: SimulatedServer = await self.server_loop.create_server(lambda: self.server, "server", 9092)
        return listening

    def connect(self) -> None:
        async def connect() -> None:
            await self.client_loop.create_connection(lambda: self.client, "server", 9092)
            await asyncio.sleep(1)

        self.schedule.run(self.client_loop, connect())

    def wait(self, seconds: float = 1.0) -> None:
        self.schedule.run(self.schedule.loop("watch"), asyncio.sleep(seconds))


@pytest.fixture
def pair() -> Pair:
    pair = Pair()
    pair.connect()
    return pair


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_whole_and_in_order_both_ways(seed: int) -> None:
    pair = Pair(seed)
    pair.connect()
    sent = Random(seed).randbytes(300_000)
    pair.client.transport.write(sent)
    pair.server.transport.writelines([sent[:1000], sent[1000:]])
    pair.wait(5)
    assert pair.server.received == sent
    assert pair.client.received == sent


def test_connection_without_listener_is_refused(pair: Pair) -> None:
    async def connect() -> None:
        await pair.client_loop.create_connection(Recorder, "server", 1)

    with pytest.raises(ConnectionRefusedError):
        pair.schedule.run(pair.client_loop, connect())


def test_close_flushes_buffer_and_peer_receives_eof(pair: Pair) -> None:
    pair.client.transport.write(bytes(2_000_000))
    pair.client.transport.close()
    pair.wait(10)
    assert len(pair.server.received) == 2_000_000
    assert pair.server.ended
    assert pair.client.lost == pair.server.lost == [None]


def test_reader_that_does_not_read_pauses_writer(pair: Pair) -> None:
    pair.server.transport.pause_reading()
    pair.client.transport.set_write_buffer_limits(0)
    pair.client.transport.write(bytes(3_000_000))
    pair.wait()
    assert pair.client.paused == [True]
    pair.server.transport.resume_reading()
    pair.wait(10)
    assert pair.client.paused == [True, False]
    assert len(pair.server.received) == 3_000_000


def test_link_down_stalls_only_its_direction(pair: Pair) -> None:
    pair.network.link("client", "server").up = False
    pair.client.transport.write(b"there")
    pair.server.transport.write(b"back")
    pair.wait(3)
    assert (pair.server.received, pair.client.received) == (b"", b"back")  # type: ignore[comparison-overlap]  # equal by content
    pair.network.heal()
    pair.wait()
    assert pair.server.received == b"there"


def test_connection_stalled_for_too_long_breaks(pair: Pair) -> None:
    pair.network.link("client", "server").up = False
    pair.client.transport.write(b"there")
    pair.wait(60)
    assert [type(error) for error in pair.client.lost] == [TimeoutError]
    assert pair.server.lost == []  # it sends nothing, so it does not notice


def test_reset_loses_connection_at_both_ends(pair: Pair) -> None:
    pair.network.reset(pair.client.transport)
    pair.wait()
    assert [type(error) for error in pair.client.lost + pair.server.lost] == [ConnectionResetError] * 2


def test_dead_process_closes_its_connections_and_dead_machine_sends_nothing(pair: Pair) -> None:
    other = Pair()
    other.connect()
    for victim, power in ((pair, False), (other, True)):
        victim.server_loop.die()
        victim.network.process_died(victim.server_loop, power=power)
        victim.wait(3)
    assert pair.client.lost == [None]
    assert other.client.lost == []
    other.network.power_on("server")
    other.client.transport.write(b"hello?")
    other.wait(3)
    assert [type(error) for error in other.client.lost] == [ConnectionResetError]


def test_send_through_descriptor_accepts_bytes_up_to_free_room(pair: Pair) -> None:
    transport = pair.network.transports[pair.client.transport.get_extra_info("socket").fileno()]
    sent = transport.send_now(bytes(5_000_000))
    assert sent is not None
    assert 0 < sent < 5_000_000
    assert transport.send_now(b"more") == 0
    pair.wait()
    assert len(pair.server.received) == sent
