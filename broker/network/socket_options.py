"""What the settings ask of listening sockets, and of the accepted ones, which take over their options.

Without `socket.*.buffer.bytes` the system sizes the buffers by what a connection needs, which serves large fetches
better than Kafka's default of 100 KB; so does a longer queue than Kafka's of 50 when many clients come at once. What is
set holds.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from controller.configs.effective import StaticSettings

_BY_SYSTEM = -1
_BUFFERS = (("socket.send.buffer.bytes", socket.SO_SNDBUF), ("socket.receive.buffer.bytes", socket.SO_RCVBUF))


class SocketOptions(NamedTuple):
    """The length of the queue of connections to accept, and (option, value) pairs."""

    backlog: int = 4096  # the kernel takes less if it has to; where it overflows, a client waits a second to try again
    options: tuple[tuple[int, int], ...] = ()

    def apply(self, sockets: Iterable[socket.socket]) -> None:
        """Set the options on listening sockets; the accepted ones take them over."""
        for listening in sockets:
            for option, value in self.options:
                listening.setsockopt(socket.SOL_SOCKET, option, value)


def socket_options(settings: StaticSettings) -> SocketOptions:
    """Return what was set."""
    asked = SocketOptions(
        options=tuple(
            (option, settings[name])
            for name, option in _BUFFERS
            if name in settings.explicit and settings[name] != _BY_SYSTEM
        )
    )
    backlog = "socket.listen.backlog.size"
    return asked._replace(backlog=settings[backlog]) if backlog in settings.explicit else asked
