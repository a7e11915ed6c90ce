"""Listening sockets, and the limits on the connections that they accept.

Binding, accepting and closing are separate steps: a broker binds first, because the ports (0 asks for any
free one) belong to its registration; it accepts when it can serve; and it stops by closing the listening
sockets, answering what it has received, and only then the connections.

One connection is `channel`'s.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from broker.network.busy_polling import Lingering
from broker.network.connection_counts import ConnectionCounts
from broker.network.connection_limits import Limits
from broker.network.connection_protocol import Channel, Listener
from broker.network.socket_options import SocketOptions
from broker.runtime.rate_limited_log import SaidLately
from protocol.framing import SCRATCH_BYTES
from protocol.plural import count_of
from protocol.request_memory import RequestMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from broker.monitoring.counters import Metrics
    from broker.network.connection_protocol import Dispatch

_SAID_INTERVAL_S = 10.0
_SLOW_BYTES = 16 * 1024
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - what an empty host asks for

_log = logging.getLogger("broker.server")


class BindError(Exception):
    """An address cannot be listened on; the message says which and why."""


class Server:
    """All listeners and connections of a broker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        metrics: Metrics,
        options: SocketOptions = SocketOptions(),  # noqa: B008 - a value that does not change
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`clock` is what `lingering` goes by; without one the broker goes to sleep at once."""
        self.loop = loop
        self._options = options
        self.metrics = metrics
        self.lingering = Lingering(loop, metrics, clock)
        self.limits = limits
        self.request_memory = RequestMemory(limits.max_queued_bytes)
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.next_connection_id: Callable[[], int] = partial(next, count(1))
        self._given: dict[str, socket.socket] = {}
        self._sockets: list[tuple[str, asyncio.Server]] = []
        self.connections: dict[Channel, None] = {}  # in the order in which they came
        self.resuming = 0
        """The connections whose requests go on in the next turn of the loop."""
        self.counts = ConnectionCounts()
        self._refused = SaidLately(_SAID_INTERVAL_S)
        self.closings = SaidLately(_SAID_INTERVAL_S)
        """How often connections were closed, by address, listener and reason."""
        self._progress: dict[Channel, tuple[int, int]] = {}
        self._looking_up: asyncio.Task[None] | None = None
        self._stopping = False
        self._all_gone: asyncio.Future[None] | None = None

    def take(self, sockets: dict[str, socket.socket]) -> None:
        """Have the listeners of these names listen on sockets that are bound already, instead of binding them."""
        self._given = sockets

    async def bind(self, name: str, host: str, port: int, dispatch: Dispatch) -> int:
        """Bind a listener and return its port; an empty host stands for all interfaces, port 0 for any port.

        Raises `BindError`. Nothing is accepted before `start`.
        """
        factory = partial(Channel, Listener(self, name, dispatch))
        given = self._given.pop(name, None)
        if given is not None:
            server = await self.loop.create_server(
                factory, sock=given, backlog=self._options.backlog, start_serving=False
            )
            self._options.apply(server.sockets)
            self._sockets.append((name, server))
            return int(server.sockets[0].getsockname()[1])
        for address in await self._addresses(host, port):
            try:
                server = await self.loop.create_server(
                    factory, address, port, backlog=self._options.backlog, reuse_address=True, start_serving=False
                )
            except OSError as error:
                if address == _EVERYWHERE[1] and error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                    continue  # a machine without IPv6
                raise BindError(_why(host, port, error)) from error
            self._options.apply(server.sockets)
            self._sockets.append((name, server))
            port = server.sockets[0].getsockname()[1]
        return port

    async def _addresses(self, host: str, port: int) -> tuple[str, ...]:
        if not host:
            return _EVERYWHERE
        try:
            found = await self.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise BindError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        return (str(found[0][4][0]),)  # one address even of a name that has more: port 0 has to mean one port

    async def start(self, names: Collection[str] | None = None) -> None:
        """Accept connections, of the listeners with these `names` or of all; `BindError` if another was faster."""
        for name, server in self._sockets:
            if server.is_serving() or (names is not None and name not in names):
                continue
            host, port = server.sockets[0].getsockname()[:2]
            try:
                await server.start_serving()
            except OSError as error:
                raise BindError(_why(host, port, error)) from error

    async def stop(self, timeout_s: float) -> None:
        """Accept no more, answer what has been received, close; cut off what is left after `timeout_s`."""
        self._stopping = True  # sockets that were accepted in this turn of the loop are yet to come
        for _, server in self._sockets:
            server.close()
        if self.connections:
            self._all_gone = self.loop.create_future()
            for channel in list(self.connections):
                channel.finish()
            _, late = await asyncio.wait((self._all_gone,), timeout=timeout_s)
            if late:
                _log.warning(
                    "Closing %s whose client did not take its responses", count_of(len(self.connections), "connection")
                )
                for channel in list(self.connections):
                    channel.abort()

    def close_idle(self) -> None:
        """Close the connections that for too long have sent nothing while it was their turn, or taken nothing."""
        deadline = self.loop.time() - self.limits.max_idle_s
        for channel in list(self.connections):
            if channel.used_at < deadline and (channel.idle or channel.backed_up):
                channel.abort()

    def close_slow(self) -> None:
        """Where memory for requests is short, close those that have room and sent little since the last call."""
        known, self._progress = self._progress, {}
        if not self.request_memory.full:
            return
        for channel in list(self.connections):
            reader = channel.reader
            if not reader.unfinished or reader.starved:
                continue
            completed, filled_bytes = self._progress[channel] = reader.progress
            if channel in known and (completed, filled_bytes - _SLOW_BYTES) < known[channel]:
                _log.warning(
                    "Closing the connection from %s on %s: its request comes slowly, and %s is reached",
                    channel.connection.client_host,
                    channel.connection.listener,
                    "queued.max.request.bytes",
                )
                channel.abort()

    def limit(self, limits: Limits) -> None:
        """Go by other limits from now on; by the addresses that `overrides` means as soon as they are known."""
        self.limits = limits
        if limits.connections.overrides:
            self._looking_up = self.loop.create_task(self._look_up(limits))

    async def _look_up(self, limits: Limits) -> None:
        overrides = dict(limits.connections.overrides)
        for host, most in limits.connections.overrides.items():
            try:
                found = await self.loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except OSError as error:
                _log.warning("max.connections.per.ip.overrides has no effect on %s: %s", host, error.strerror or error)
            else:
                overrides.update((str(address[0]), most) for *_, address in found)
        if self.limits is limits:
            self.limits = limits._replace(connections=limits.connections._replace(overrides=overrides))

    def admit(self, channel: Channel) -> bool:
        """Count a new connection; False if there are too many already."""
        if self._stopping:
            return False
        host, listener = channel.connection.client_host, channel.connection.listener
        limit = self.counts.reached(self.limits.connections, listener, host)
        if limit is None:
            self.connections[channel] = None
            self.counts.add(listener, host)
            self.metrics.connections_accepted += 1
            return True
        self.metrics.connections_refused += 1
        if times := self._refused.count(f"{listener} {limit}", self.loop.time()):
            more = f" ({count_of(times - 1, 'other')} since the last such line)" if times > 1 else ""
            _log.warning("Refusing a connection from %s on %s: %s is reached%s", host, listener, limit, more)
        return False

    def forget(self, channel: Channel) -> None:
        """Note that a connection is gone."""
        if channel not in self.connections:
            return
        del self.connections[channel]
        self.counts.remove(channel.connection.listener, channel.connection.client_host)
        if self._all_gone is not None and not self.connections and not self._all_gone.done():
            self._all_gone.set_result(None)


def why_not_bound(error: OSError) -> str:
    """Return why a socket was not bound, in lower case: without the address, which asyncio writes before it."""
    # Errors of name resolution have negative numbers of their own.
    text = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
    return text[:1].lower() + text[1:]


def _why(host: str, port: int, error: OSError) -> str:
    reason = why_not_bound(error)
    hint = "; choose another port with --listen HOST:PORT" if error.errno == errno.EADDRINUSE else ""
    return f"cannot listen on {host or '*'}:{port}: {reason}{hint}"
