"""The choice of addresses for the tests' brokers."""

from __future__ import annotations

import socket

import pytest

from tests import broker_process
from tests.broker_process import first_ephemeral_port, free_address


class Drawing:
    """A random source with known values."""

    def __init__(self, *ports: int) -> None:
        self._ports = iter(ports)

    def randrange(self, _first: int, _end: int) -> int:
        return next(self._ports)


def port_of(address: str) -> int:
    return int(address.removeprefix("127.0.0.1:"))


def test_broker_ports_are_below_the_ephemeral_range() -> None:
    ports = [port_of(free_address()) for _ in range(50)]
    assert max(ports) < first_ephemeral_port()
    assert len(set(ports)) == len(ports)


def test_free_address_skips_used_and_returned_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    former, free = (port_of(free_address()) for _ in range(2))
    monkeypatch.setattr(broker_process, "_RETURNED", {former})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(broker_process, "_RANDOM", Drawing(taken.getsockname()[1], former, free))
        assert port_of(free_address()) == free
