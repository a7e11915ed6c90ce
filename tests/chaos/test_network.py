"""The network passes everything on, and breaks exactly the selected links in the selected way."""

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from tests.chaos.network import CLIENTS, Link, Network, owner, sender

A_WHILE_S = 0.2


def hello(client_id: str, correlation_id: int = 7) -> bytes:
    frame = struct.pack(">hhih", 18, 0, correlation_id, len(client_id)) + client_id.encode()
    return struct.pack(">i", len(frame)) + frame


class Echo:
    """A server that sends back what it receives."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._socket.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        try:
            while True:
                accepted, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=[accepted], daemon=True).start()
        except OSError:
            pass

    def _serve(self, accepted: socket.socket) -> None:
        try:
            with accepted:
                while data := accepted.recv(4096):
                    accepted.sendall(data)
        except OSError:
            pass


class Caller:
    """A connection through a gate to node 2."""

    def __init__(self, port: int, name: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 10)
        self._hello = hello(name)

    def send(self) -> None:
        self._socket.sendall(self._hello)

    def receives(self, timeout_s: float = 10) -> bool:
        """Return whether a whole response arrives in time; raise ConnectionError if the connection ends instead."""
        self._socket.settimeout(timeout_s)
        try:
            data = self._socket.recv(len(self._hello), socket.MSG_WAITALL)
        except TimeoutError:
            return False
        if data != self._hello:
            raise ConnectionError
        return True

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


@pytest.fixture
def port(network: Network) -> Iterator[int]:
    echo = Echo()
    yield network.gate(2, echo.address)
    echo.close()


@pytest.fixture
def broker(port: int) -> Iterator[Caller]:
    caller = Caller(port, "broker-1")
    caller.send()
    assert caller.receives()
    yield caller
    caller.close()


def test_process_of_a_connection_identifies_its_sender() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
        listening.accept()[0],
    ):
        ports = (client.getsockname()[1], listening.getsockname()[1])
        init = 1  # a process without this connection
        assert owner(ports, {init: 3, os.getpid(): 2}) == 2
        assert owner(ports, {init: 3}) == CLIENTS
    assert owner((1, 2), {os.getpid(): 2}) == CLIENTS


def test_encrypted_connections_use_the_links_of_their_process(network: Network, port: int) -> None:
    network.processes = lambda: {os.getpid(): 1}
    with closing(Caller(port, "rdkafka")) as caller:
        caller.send()
        assert caller.receives()
        network.change({1}, {2}, Link.stall)
        caller.send()
        assert not caller.receives(0.1)
        network.heal()
        assert caller.receives()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("broker-1", 1),
        ("controller-23", 23),
        ("raft-client-2", 2),
        ("broker-3-fetcher-0", 3),
        ("3", 3),
        ("rdkafka", CLIENTS),
        ("broker-1x", CLIENTS),
        ("", CLIENTS),
    ],
)
def test_client_id_identifies_sender(name: str, expected: int) -> None:
    assert sender(hello(name)[4:]) == expected


def test_request_without_client_id_is_from_client() -> None:
    assert sender(struct.pack(">hhih", 18, 0, 7, -1)) == CLIENTS


@pytest.mark.parametrize(("sources", "targets"), [({1}, {2}), ({2}, {1})], ids=["requests", "answers"])
def test_stalled_link_delivers_when_it_is_healed(
    network: Network, broker: Caller, sources: set[int], targets: set[int]
) -> None:
    network.change(sources, targets, Link.stall)
    broker.send()
    assert not broker.receives(A_WHILE_S)
    network.heal()
    assert broker.receives()


@pytest.mark.parametrize(("sources", "targets"), [({1}, {2}), ({2}, {1})], ids=["requests", "answers"])
def test_cut_link_loses_data_and_ends_connection_when_it_is_healed(
    network: Network, broker: Caller, sources: set[int], targets: set[int]
) -> None:
    network.change(sources, targets, Link.cut)
    broker.send()
    assert not broker.receives(A_WHILE_S)
    network.heal()
    with pytest.raises(ConnectionError):
        broker.receives()


def test_new_connection_over_cut_link_seems_to_open(network: Network, port: int) -> None:
    network.change({1}, {2}, Link.cut)
    broker = Caller(port, "broker-1")
    broker.send()
    assert not broker.receives(A_WHILE_S)
    broker.close()


def test_other_links_pass_everything(network: Network, broker: Caller, port: int) -> None:
    network.change({3, CLIENTS}, {2}, Link.cut)
    network.change({1}, {3}, Link.stall)
    broker.send()
    assert broker.receives()
    client = Caller(port, "rdkafka")
    client.send()
    assert not client.receives(A_WHILE_S)
    client.close()


def test_delayed_link_is_slow_and_keeps_order(network: Network, broker: Caller) -> None:
    network.change({1}, {2}, lambda link: setattr(link, "delay_s", 2 * A_WHILE_S))
    broker.send()
    assert not broker.receives(A_WHILE_S)
    assert broker.receives()


def test_reset_ends_connections_and_lets_new_ones_pass(network: Network, broker: Caller, port: int) -> None:
    network.change({1}, {2}, Link.reset)
    with pytest.raises(ConnectionError):
        broker.receives()
    again = Caller(port, "broker-1")
    again.send()
    assert again.receives()
    again.close()


def test_connection_ends_with_its_target(network: Network) -> None:
    unknown_client = socket.create_server(("127.0.0.1", 0))
    port = network.gate(2, unknown_client.getsockname())
    unknown_client.close()
    caller = Caller(port, "broker-1")
    caller.send()
    with pytest.raises(ConnectionError):
        caller.receives()
    caller.close()


def test_just_accepted_connections_are_closed_at_the_end() -> None:
    callers: list[socket.socket] = []
    with Network() as network:
        port = network.gate(2, ("127.0.0.1", 1))
        callers += [socket.create_connection(("127.0.0.1", port), 10) for _ in range(50)]
    for caller in callers:
        caller.settimeout(10)
        with caller, suppress(ConnectionResetError):
            assert caller.recv(1) == b""
