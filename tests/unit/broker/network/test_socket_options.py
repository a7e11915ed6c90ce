"""Socket options from the broker configs."""

from __future__ import annotations

import socket

from broker.network.socket_options import SocketOptions, socket_options
from broker.settings import Option, check_settings


def requested(**settings: int) -> SocketOptions:
    return socket_options(
        check_settings({name.replace("_", "."): Option(str(value), "test") for name, value in settings.items()})
    )


def test_unset_options_are_left_to_the_system() -> None:
    assert requested() == SocketOptions()
    unset = requested(socket_send_buffer_bytes=-1, socket_receive_buffer_bytes=-1)
    assert unset == SocketOptions(session_receive_bytes=None)


def test_socket_options_that_are_set_take_effect() -> None:
    found = requested(socket_send_buffer_bytes=20_000, socket_receive_buffer_bytes=30_000, socket_listen_backlog_size=7)
    assert found == SocketOptions(7, ((socket.SO_SNDBUF, 20_000), (socket.SO_RCVBUF, 30_000)), None)


def test_listening_sockets_get_the_options_that_accepted_sockets_inherit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        SocketOptions(options=((socket.SO_SNDBUF, 20_000),)).apply([listening])
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in (20_000, 40_000)  # Linux doubles it
