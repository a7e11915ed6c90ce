"""Ports that the kernel chose, kept for a broker while it is down."""

from __future__ import annotations

import socket
import sys

from barnabas.testing.errors import ClusterError


class KeptPort:
    """A port of this machine that no other program gets, although a broker listens on it only now and then.

    A socket is bound to it and never listens: while no broker does, the system refuses connections.
    """

    def __init__(self, host: str, port: int = 0) -> None:
        """Bind `port`, or one that the kernel chooses; ClusterError if that fails."""
        self.host = host
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self._keeper = socket.socket(family, socket.SOCK_STREAM)
            try:
                if port:
                    self._keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self._keeper.bind(address)
                # Not before bind where the kernel chooses, which could then choose a port in use.
                self._keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            except OSError:
                self._keeper.close()
                raise
        except OSError as error:
            raise ClusterError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        self.port: int = self._keeper.getsockname()[1]

    def bound(self) -> socket.socket:
        """Return a new bound socket for a broker; ClusterError if another program has taken the port."""
        if sys.platform != "linux":
            self._keeper.close()  # other systems bind a port once only
        made = socket.socket(self._keeper.family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((self.host, self.port))
        except OSError as error:
            made.close()
            raise ClusterError(f"cannot listen on {self.host}:{self.port}: {error.strerror or error}") from error
        return made

    def close(self) -> None:
        """Give the port up."""
        self._keeper.close()

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
