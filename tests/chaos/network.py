"""The network between brokers, and from clients to them: a TCP proxy in which each directed link can be broken.

A gate precedes each listener; the broker advertises the gate's address. The client id of a connection's first request
identifies its sender: brokers send `broker-ID`, any other sender is a client. An encrypted connection is identified by
the process that its socket belongs to. So one gate serves the links from all
senders, and each connection uses two links: one for requests, one for responses.

    delayed    data arrives later, in order
    stalled    data arrives when the link is healed
    cut        data is lost, and the connection ends when the link is healed

A stalled or cut link is not visible to its ends: connections stay open, and new ones seem to open.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import struct
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

CLIENTS = 0
"""All senders that are no brokers."""

BROKER = re.compile(rb"(?:(?:(?:broker|controller|raft-client)-)?(\d+)(?:-fetcher-\d+)?)\Z")
"""Client ids of brokers: ours, and those of Apache Kafka's Raft client, fetchers and controller channel."""
CHUNK_BYTES = 1 << 16

# Of linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_ANY_STATE, _ANY_COOKIE = 0xFFFFFFFF, (0xFFFFFFFF, 0xFFFFFFFF)
_HEADER_BYTES = 16
_INODE_AT = _HEADER_BYTES + 68

T = TypeVar("T")


def sender(frame: bytes) -> int:
    """Return the id of the broker that sent a request (without its size field), or `CLIENTS`."""
    length = int.from_bytes(frame[8:10], "big", signed=True)
    found = BROKER.match(frame[10 : 10 + max(0, length)])
    return int(found[1]) if found else CLIENTS


def owner(connection: tuple[int, int], processes: Mapping[int, int]) -> int:
    """Return the node whose process has a connection from one port of 127.0.0.1 to another, or `CLIENTS`; Linux only.

    The kernel looks up the inode of that socket (sock_diag); reading /proc/net/tcp would take as long as a reconnect.
    """
    source, target = connection
    address = socket.inet_aton("127.0.0.1")
    wanted = struct.pack("!HH4s12x4s12x", source, target, address, address) + struct.pack("=III", 0, *_ANY_COOKIE)
    request = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, _ANY_STATE) + wanted
    header = struct.pack("=IHHII", _HEADER_BYTES + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.send(header + request)
        answer = kernel.recv(4096)
    if len(answer) < _INODE_AT + 4:  # an error: the connection has ended
        return CLIENTS
    found = f"socket:[{struct.unpack_from('=I', answer, _INODE_AT)[0]}]"
    for pid, node in processes.items():
        with suppress(OSError):  # the process has ended, or closed a file meanwhile
            if any(os.readlink(path) == found for path in Path(f"/proc/{pid}/fd").iterdir()):
                return node
    return CLIENTS


class Link:
    """The direction from one node to another."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.is_cut = False
        self.connections: set[Connection] = set()
        self._open = asyncio.Event()
        self._open.set()

    def stall(self) -> None:
        self._open.clear()

    def cut(self) -> None:
        self.is_cut = True

    def heal(self) -> None:
        if self.is_cut:
            self.reset()
        self.is_cut = False
        self.delay_s = 0.0
        self._open.set()

    def reset(self) -> None:
        for connection in list(self.connections):
            connection.abort()

    async def carry(self, data: bytes, to: asyncio.StreamWriter) -> None:
        """Deliver the data to the other end, or drop it."""
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        await self._open.wait()
        if not self.is_cut:
            to.write(data)
            await to.drain()


class Connection:
    """One connection through a gate."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writers = [writer]
        self._task = asyncio.current_task()

    def abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        assert self._task is not None
        self._task.cancel()

    async def open(self, address: tuple[str, int]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*address)
        self._writers.append(writer)
        return reader, writer

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


class Network:
    """All gates and links, on an event loop in a thread of its own; its methods are for other threads."""

    def __init__(self) -> None:
        self.processes: Callable[[], Mapping[int, int]] | None = None
        """The node of each broker's process, if the connections are encrypted."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._links: defaultdict[tuple[int, int], Link] = defaultdict(Link)
        self._servers: list[asyncio.Server] = []
        self._accepted: set[asyncio.StreamWriter] = set()
        self._connections: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Network:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def gate(self, node: int, address: tuple[str, int]) -> int:
        """Open a gate before an address of a node and return its port."""

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # Not a coroutine of the server: cancelled before it starts, it would leave the socket open.
            self._accepted.add(writer)
            self._connections.add(self._loop.create_task(self._serve(node, address, reader, writer)))

        async def open_gate() -> int:
            server = await asyncio.start_server(accept, "127.0.0.1", 0)
            self._servers.append(server)
            port: int = server.sockets[0].getsockname()[1]
            return port

        return self._run(open_gate)

    def change(self, sources: set[int], targets: set[int], change: Callable[[Link], object]) -> None:
        """Change every link from one of the sources to one of the targets."""

        async def change_all() -> None:
            for source in sources:
                for target in targets - {source}:
                    change(self._links[source, target])

        self._run(change_all)

    def heal(self) -> None:
        """Heal all links."""

        async def heal_all() -> None:
            for link in self._links.values():
                link.heal()

        self._run(heal_all)

    def _run(self, action: Callable[[], Awaitable[T]]) -> T:
        async def run() -> T:
            return await action()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(30)

    async def _close(self) -> None:
        for server in self._servers:
            for listening in server.sockets:
                self._loop.remove_reader(listening.fileno())
        for _ in range(5):
            await asyncio.sleep(0)  # accepted sockets get their transport, which a closed server would refuse
        for server in self._servers:
            server.close()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._accepted:
            writer.transport.abort()
        for _ in range(2):
            await asyncio.sleep(0)  # a transport closes its socket in the next turn

    async def _serve(
        self, node: int, address: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        connection = Connection(writer)
        links: list[Link] = []
        try:
            if self.processes is None:
                size = await reader.readexactly(4)
                frame = await reader.readexactly(int.from_bytes(size, "big"))
                first, source = size + frame, sender(frame)
            else:
                ports = (writer.get_extra_info(name)[1] for name in ("peername", "sockname"))
                first, source = b"", owner((next(ports), next(ports)), self.processes())
            links = [self._links[source, node], self._links[node, source]]
            for link in links:
                link.connections.add(connection)
            await self._join(connection, address, links, first, reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            for link in links:
                link.connections.discard(connection)
            assert task is not None
            self._connections.discard(task)
            self._accepted.discard(writer)
            connection.close()

    async def _join(
        self,
        connection: Connection,
        address: tuple[str, int],
        links: list[Link],
        first: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        answers, requests = await connection.open(address)
        querying = asyncio.create_task(pump(links[0], reader, requests, first))
        answering = asyncio.create_task(pump(links[1], answers, writer))
        pumps = [querying, answering]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in pumps:
                task.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)


async def pump(link: Link, source: asyncio.StreamReader, target: asyncio.StreamWriter, data: bytes = b"") -> None:
    """Copy data over a link until the source ends."""
    with suppress(OSError):
        if data:
            await link.carry(data, target)
        while data := await source.read(CHUNK_BYTES):
            await link.carry(data, target)
