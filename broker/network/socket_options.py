"""Options of listening sockets from the settings; accepted sockets inherit them.

Without `socket.*.buffer.bytes` the kernel sizes the buffers per connection, which serves large fetches better than
Kafka's default of 100 KB. Likewise the default backlog is longer than Kafka's 50, for many clients that connect at
once. Explicit settings are applied as they are.
"""

import socket
from collections.abc import Iterable
from typing import NamedTuple

from controller.configs.effective import StaticSettings

_BY_SYSTEM = -1
_BUFFERS = (("socket.send.buffer.bytes", socket.SO_SNDBUF), ("socket.receive.buffer.bytes", socket.SO_RCVBUF))


class SocketOptions(NamedTuple):
    """The listen backlog, and (option, value) pairs."""

    backlog: int = 4096  # the kernel may cap it; on overflow a client retries after 1 s
    options: tuple[tuple[int, int], ...] = ()

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
        )
    )
    backlog = "socket.listen.backlog.size"
    return explicit._replace(backlog=settings[backlog]) if backlog in settings.explicit else explicit
