from __future__ import annotations

import socket

import pytest

from barnabas.testing._ports import KeptPort
from barnabas.testing.errors import ClusterError

HOST = "127.0.0.1"


def test_a_kept_port_refuses_connections_until_a_broker_listens_on_it_and_again_afterwards() -> None:
    port = KeptPort(HOST)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, port.port))
        with port.bound() as listening:
            listening.listen()
            socket.create_connection((HOST, port.port)).close()
    port.close()


def test_a_kept_port_is_given_to_no_other_program() -> None:
    port = KeptPort(HOST)
    with port.bound(), pytest.raises(OSError, match="in use"), socket.socket() as other:
        other.bind((HOST, port.port))
    port.close()


def test_a_port_that_a_program_listens_on_is_refused_with_its_address() -> None:
    with socket.create_server((HOST, 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(ClusterError, match=f"cannot listen on {HOST}:{number}: Address already in use"):
            KeptPort(HOST, number)


def test_a_host_that_is_no_address_of_this_machine_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"cannot listen on 192\.0\.2\.1:0: "):
        KeptPort("192.0.2.1")


def test_a_port_has_its_address_as_text() -> None:
    port = KeptPort(HOST)
    assert str(port) == f"{HOST}:{port.port}"
    port.close()
