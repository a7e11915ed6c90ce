"""Options of listening sockets from the settings; accepted sockets inherit them.

Without `socket.*.buffer.bytes` the kernel sizes the buffers per connection, which serves large fetches better than
Kafka's default of 100 KB. Likewise the default backlog is longer than Kafka's 50, for many clients that connect at
once. Explicit settings are applied as they are.

A client whose SASL session ends has Kafka's receive buffer too: in one of many megabytes, its re-authentication would
wait behind what it sent before until the session has expired.
"""

import socket
from collections.abc import Iterable
from typing import NamedTuple

from controller.configs.effective import StaticSettings

_BY_SYSTEM = -1
SESSION_RECEIVE_BYTES = 102_400
_BUFFERS = (("socket.send.buffer.bytes", socket.SO_SNDBUF), ("socket.receive.buffer.bytes", socket.SO_RCVBUF))


class SocketOptions(NamedTuple):
    """The listen backlog, (option, value) pairs, and the receive buffer of clients whose sessions end."""

    backlog: int = 4096  # the kernel may cap it; on overflow a client retries after 1 s
    options: tuple[tuple[int, int], ...] = ()
    session_receive_bytes: int | None = SESSION_RECEIVE_BYTES

    def apply(self, sockets: Iterable[socket.socket]) -> None:
        """Set the options on listening sockets; accepted ones inherit them."""
        for listening in sockets:
            for option, value in self.options:
                listening.setsockopt(socket.SOL_SOCKET, option, value)


def socket_options(settings: StaticSettings) -> SocketOptions:
    """Return the options that the settings set explicitly."""
    explicit = SocketOptions(
        options=tuple(
            (option, settings[name])
            for name, option in _BUFFERS
            if name in settings.explicit and settings[name] != _BY_SYSTEM
        ),
        session_receive_bytes=None if "socket.receive.buffer.bytes" in settings.explicit else SESSION_RECEIVE_BYTES,
    )
    backlog = "socket.listen.backlog.size"
    return explicit._replace(backlog=settings[backlog]) if backlog in settings.explicit else explicit
