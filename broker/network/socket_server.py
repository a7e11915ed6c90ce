"""Server: the listening sockets and the connections that they accept (Kafka: `SocketServer`).

Binding, accepting and closing are separate steps. A broker binds first, because its registration has the ports (0 binds
any free one); it accepts when it can serve. It stops by closing the listening sockets, responding to the requests
received so far, and then closing the connections.

One connection is `connection_protocol`.
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

from broker.network.busy_polling import BusyPolling
from broker.network.connection_counts import ConnectionCounts
from broker.network.connection_limits import Limits
from broker.network.connection_protocol import ConnectionProtocol, Listener
from broker.network.socket_options import SocketOptions
from broker.runtime.rate_limited_log import MOST_REPORTS, RateLimitedCounter
from protocol.framing import SCRATCH_BYTES
from protocol.plural import count_of
from protocol.request_memory import RequestMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from broker.monitoring.counters import Metrics
    from broker.network.connection_protocol import Dispatch
    from broker.quotas.connection_rates import ConnectionRates
    from broker.security.listener_tls import ListenerTls

_LOG_INTERVAL_S = 10.0
_SLOW_BYTES = 16 * 1024
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - an empty host means all interfaces

_log = logging.getLogger("broker.server")


class BindError(Exception):
    """An address cannot be bound; the message has the address and the reason."""


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
        """Bind nothing yet. `clock` is for `busy_polling`; without one the loop never spins."""
        self.loop = loop
        self._options = options
        self.metrics = metrics
        self.busy_polling = BusyPolling(loop, metrics, clock)
        self.limits = limits
        self.request_memory = RequestMemory(limits.max_queued_bytes)
        self.unauthenticated_memory = RequestMemory(limits.max_unauthenticated_bytes, self.request_memory.buffers)
        """The memory of requests before the authentication."""
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.next_connection_id: Callable[[], int] = partial(next, count(1))
        self._given: dict[str, socket.socket] = {}
        self._sockets: list[tuple[str, asyncio.Server]] = []
        self._listeners: dict[str, Listener] = {}
        self.connections: dict[ConnectionProtocol, None] = {}  # in order of acceptance
        self.resuming = 0
        """The number of connections whose backlog continues in the next turn of the loop."""
        self.counts = ConnectionCounts()
        self.connection_rates: ConnectionRates | None = None
        """The limits on the rate of new connections, if there are any."""
        self._refused = RateLimitedCounter(_LOG_INTERVAL_S, MOST_REPORTS)
        self.close_warnings = RateLimitedCounter(_LOG_INTERVAL_S, MOST_REPORTS)
        """Rate limit of warnings about closed connections, by address, listener and reason."""
        self._progress: dict[ConnectionProtocol, tuple[int, int]] = {}
        self._resolving: asyncio.Task[None] | None = None
        self._stopping = False
        self._all_closed: asyncio.Future[None] | None = None

    def use_sockets(self, sockets: dict[str, socket.socket]) -> None:
        """Use these bound sockets for the listeners of these names, instead of binding new ones."""
        self._given = sockets

    async def bind(
        self,
        name: str,
        host: str,
        port: int,
        dispatch: Dispatch,
        tls: ListenerTls | None = None,
        first_request_bytes: int | None = None,
    ) -> int:
        """Bind a listener and return its port; an empty host means all interfaces, port 0 any free port.

        Connections are encrypted with `tls`; `first_request_bytes` is `Listener`'s. Raise `BindError`. Nothing is
        accepted before `start`.
        """
        listener = self._listeners[name] = Listener(self, name, dispatch, first_request_bytes)
        factory = _connections(listener, tls)
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
                    continue  # no IPv6 on this machine
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
        return (str(found[0][4][0]),)  # the first address only: port 0 must mean one port

    def dispatch_with(self, name: str, dispatch: Dispatch) -> None:
        """Hand the later requests of a listener, also those of open connections, to another dispatcher."""
        self._listeners[name].dispatch = dispatch

    async def start(self, names: Collection[str] | None = None) -> None:
        """Accept connections on the listeners `names`, or all; `BindError` if another process took the address."""
        for name, server in self._sockets:
            if server.is_serving() or (names is not None and name not in names):
                continue
            host, port = server.sockets[0].getsockname()[:2]
            try:
                await server.start_serving()
            except OSError as error:
                raise BindError(_why(host, port, error)) from error

    async def stop(self, timeout_s: float) -> None:
        """Stop accepting, respond to received requests and close; abort what is left after `timeout_s`."""
        self._stopping = True  # refuses sockets accepted in this turn of the loop
        for _, server in self._sockets:
            server.close()
        if self.connections:
            self._all_closed = self.loop.create_future()
            for client in list(self.connections):
                client.finish()
            _, late = await asyncio.wait((self._all_closed,), timeout=timeout_s)
            if late:
                _log.warning(
                    "Closing %s: responses were not read in time", count_of(len(self.connections), "connection")
                )
                for client in list(self.connections):
                    client.abort()

    def limit_receive_buffer(self, accepted: socket.socket) -> None:
        """Limit what the kernel keeps for a client that has to authenticate again, unless its size is set."""
        if self._options.session_receive_bytes is not None:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._options.session_receive_bytes)

    def close_idle(self) -> None:
        """Close connections that for `max_idle_s` have sent no request while idle, or read no response."""
        deadline = self.loop.time() - self.limits.max_idle_s
        for client in list(self.connections):
            if client.used_at < deadline and (client.idle or client.backed_up):
                client.abort()

    def close_slow(self) -> None:
        """While their request memory is full, close connections that sent little of a request since the last call."""
        known, self._progress = self._progress, {}
        if not (self.request_memory.full or self.unauthenticated_memory.full):
            return
        for client in list(self.connections):
            reader = client.reader
            if not reader.memory.full or not reader.unfinished or reader.starved:
                continue
            completed, filled_bytes = self._progress[client] = reader.progress
            if client in known and (completed, filled_bytes - _SLOW_BYTES) < known[client]:
                _log.warning(
                    "Closing the connection from %s on %s: its request arrives slowly, and %s is reached",
                    client.connection.client_host,
                    client.connection.listener,
                    "queued.max.request.bytes"
                    if reader.memory is self.request_memory
                    else "the limit of memory before the authentication",
                )
                client.abort()

    def limit(self, limits: Limits) -> None:
        """Apply other limits; host names in `overrides` take effect once they are resolved."""
        self.limits = limits
        if limits.connections.overrides:
            self._resolving = self.loop.create_task(self._resolve_overrides(limits))

    async def _resolve_overrides(self, limits: Limits) -> None:
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

    def admit(self, client: ConnectionProtocol) -> bool:
        """Count a new connection, and delay it if connections are created too fast; return False if it is refused."""
        if self._stopping:
            return False
        host, listener = client.connection.client_host, client.connection.listener
        limit = self.counts.reached(self.limits.connections, listener, host)
        delay_s = 0.0
        if limit is None and self.connection_rates is not None:
            delay_s, limit = self.connection_rates.admit(listener, host)
        if limit is None:
            if delay_s:
                client.delay(delay_s)
            self.connections[client] = None
            self.counts.add(listener, host)
            self.metrics.connections_accepted += 1
            return True
        self.metrics.connections_refused += 1
        if times := self._refused.add(f"{listener} {limit}", self.loop.time()):
            more = f" ({count_of(times - 1, 'other')} since the last such line)" if times > 1 else ""
            _log.warning("Refusing a connection from %s on %s: %s is reached%s", host, listener, limit, more)
        return False

    def forget(self, client: ConnectionProtocol) -> None:
        """Remove a closed connection."""
        if client not in self.connections:
            return
        del self.connections[client]
        self.counts.remove(client.connection.listener, client.connection.client_host)
        if self._all_closed is not None and not self.connections and not self._all_closed.done():
            self._all_closed.set_result(None)


def _connections(listener: Listener, tls: ListenerTls | None) -> Callable[[], asyncio.BaseProtocol]:
    """Return what makes the protocol of an accepted socket."""
    if tls is None:
        return partial(ConnectionProtocol, listener)
    from broker.network.tls_transport import TlsTransport

    return lambda: TlsTransport(listener, tls, ConnectionProtocol(listener))


def why_not_bound(error: OSError) -> str:
    """Return why binding failed, in lower case and without the address that asyncio prepends."""
    # Name resolution errors have negative numbers.
    text = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
    return text[:1].lower() + text[1:]


def _why(host: str, port: int, error: OSError) -> str:
    reason = why_not_bound(error)
    hint = "; choose another port with --listen HOST:PORT" if error.errno == errno.EADDRINUSE else ""
    return f"cannot listen on {host or '*'}:{port}: {reason}{hint}"
