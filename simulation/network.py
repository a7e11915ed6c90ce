"""TCP between simulated hosts: byte streams that are delayed, split anywhere, stalled and broken.

While a directed link is down nothing passes: connections stall, continue when it is up again, and break after a
timeout. When a process dies, its kernel closes its connections; when a machine loses power, it sends nothing until it
is up again. `transport.py` has one connection.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from simulation.loop import Loop, Schedule
from simulation.transport import Socket, Stream, Transport, Wires

_CONNECT_S = (1.0, 2.0, 4.0, 8.0)
_FIRST_PORT = 32768


class Network(Wires):
    """The hosts' addresses and listening sockets, and what connections use."""

    def __init__(self, schedule: Schedule, random: Random) -> None:
        super().__init__(schedule, random)
        schedule.network = self
        self._addresses: dict[str, str] = {}
        self._servers: dict[tuple[str, int], SimulatedServer] = {}
        self._ports = count(_FIRST_PORT)
        self._waiting_to_connect: list[Loop] = []

    # Hosts and links

    def resolve(self, host: str) -> str:
        """Return a host's address, assigned at the first call."""
        if host in self._addresses.values():
            return host
        if host not in self._addresses:
            self._addresses[host] = f"10.0.0.{len(self._addresses) + 1}"
        return self._addresses[host]

    def heal(self) -> None:
        """Restore every link and host."""
        for link in self._links.values():
            link.up = True
        self.slow.clear()

    @property
    def waiting_to_connect(self) -> bool:
        """Return whether a live process waits before it repeats a connection attempt (TCP handshake)."""
        return any(not loop.dead for loop in self._waiting_to_connect)

    def reset(self, transport: Transport) -> None:
        """Break a connection, as a middlebox may."""
        error = ConnectionResetError(errno.ECONNRESET, "the network broke the connection")
        for end in (transport, transport.peer):
            end.broken(error)

    def process_died(self, loop: Loop, *, power: bool) -> None:
        """Close what a dead process had open, as its kernel does; with `power`, the kernel is gone too."""
        for address, server in list(self._servers.items()):
            if server.loop is loop:
                del self._servers[address]
        for transport in list(self.transports.values()):
            if transport.loop is loop:
                transport.orphaned(silently=power)
        if power:
            self._off.add(loop.host)

    def power_on(self, host: str) -> None:
        """Answer again for `host`, also on connections to its former kernel."""
        self._off.discard(host)

    # The loops' interface

    def listen(self, loop: Loop, factory: Callable[[], Any], host: str, port: int, *, serve: bool) -> SimulatedServer:
        address = self.resolve(host or loop.host)
        if port == 0:
            port = next(self._ports)
        if (loop.host, port) in self._servers:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        server = self._servers[loop.host, port] = SimulatedServer(self, loop, factory, (address, port))
        server.serving = serve
        return server

    def close(self, server: SimulatedServer) -> None:
        self._servers = {address: other for address, other in self._servers.items() if other is not server}

    async def connect(self, loop: Loop, factory: Callable[[], Any], host: str, port: int) -> Any:
        target = self._host_of(self.resolve(host))
        there, back = self.link(loop.host, target), self.link(target, loop.host)
        for wait_s in _CONNECT_S:
            await asyncio.sleep(there.latency_s + back.latency_s)
            if there.up and back.up and target not in self._off:
                break
            self._waiting_to_connect.append(loop)
            try:
                await asyncio.sleep(wait_s)
            finally:
                self._waiting_to_connect.remove(loop)
        else:
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        server = self._servers.get((target, port))
        if server is None or not server.serving:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        here = (self.resolve(loop.host), next(self._ports))
        client = Transport(self, loop, here, server.address)
        accepted = Transport(self, server.loop, server.address, here)
        client.connect(accepted, Stream(self, client, accepted), Stream(self, accepted, client))
        protocol = factory()
        client.begin(protocol)
        server.loop.call_soon(_accept, accepted, server)
        return client, protocol

    def _host_of(self, address: str) -> str:
        return next(host for host, known in self._addresses.items() if known == address)


def _accept(accepted: Transport, server: SimulatedServer) -> None:
    if not accepted.is_closing():
        accepted.begin(server.factory())


class SimulatedServer:
    """A listening socket, as `asyncio.Server`."""

    def __init__(self, network: Network, loop: Loop, factory: Callable[[], Any], address: tuple[str, int]) -> None:
        self.loop = loop
        self.factory = factory
        self.address = address
        self.serving = False
        self.sockets = (Socket(address),)
        self._network = network

    async def start_serving(self) -> None:
        self.serving = True

    def is_serving(self) -> bool:
        return self.serving

    def close(self) -> None:
        self.serving = False
        self._network.close(self)

    async def wait_closed(self) -> None:
        """Do nothing: all is closed."""
