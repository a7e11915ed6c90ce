"""Connection protocol: one client socket on the event loop; bytes in, frames to the dispatcher, responses out.

A frame in the shared scratch buffer is handled before the next read of any connection; a frame that must wait is copied
into the backlog. Reading stops while requests are held back, while too many are in flight, while the client is muted
because it is above a quota, while the requests of all connections use too much memory, and while the client does not
read its responses. So the memory of one
client is bounded: one scratch buffer of requests, one frame, about `connection.MAX_HELD_BYTES` of responses that wait
for earlier ones, and `send_queue.READ_AHEAD_BYTES` of responses being sent.

Elsewhere: the order of responses (`connection`), the meaning of a frame (`broker.dispatch`), sending (`send_queue`),
limits on connections (`server`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from broker.network.busy_polling import SMALL_BYTES
from broker.network.connection import Connection, Disconnect, PendingResponse
from broker.network.send_queue import SendQueue
from protocol.api import ApiKey
from protocol.errors import DecodeError
from protocol.framing import FrameReader
from protocol.plural import count_of
from protocol.primitives import Part

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from broker.monitoring.counters import Metrics
    from broker.network.busy_polling import BusyPolling
    from broker.network.connection_limits import Limits
    from broker.runtime.deferred import Deferred
    from broker.runtime.rate_limited_log import RateLimitedCounter
    from protocol.request_memory import RequestMemory

    Response = asyncio.Future[list[Part] | None] | Deferred[list[Part] | None]
    Dispatch = Callable[[memoryview, Connection], list[Part] | "DeferredResponse" | None]

_log = logging.getLogger("broker.channel")


TURN_REQUESTS = 256
"""Requests of one connection handled in a turn of the loop.

Large responses count as several. Connections with requests for more than one turn share the number.
"""
_FEWEST_REQUESTS = 16  # minimum share of a connection: with fewer, responses would be sent one by one
_REQUEST_BYTES = 4096  # response bytes that count as one request: encoding them takes about as long


class DeferredResponse(NamedTuple):
    """What the dispatcher returns for a request whose response comes later (result None: it has no response).

    The future fails with `Disconnect` or not at all.
    """

    api_key: int
    response: Response


class ConnectionOwner(Protocol):
    """The part of `Server` that its connections use."""

    loop: asyncio.AbstractEventLoop
    limits: Limits
    metrics: Metrics
    busy_polling: BusyPolling
    request_memory: RequestMemory
    unauthenticated_memory: RequestMemory
    scratch: memoryview
    next_connection_id: Callable[[], int]
    resuming: int
    close_warnings: RateLimitedCounter

    def admit(self, client: ConnectionProtocol) -> bool:
        """Return whether the connection limits allow one more."""

    def forget(self, client: ConnectionProtocol) -> None:
        """Remove a closed connection."""

    def limit_receive_buffer(self, accepted: socket) -> None:
        """Limit what the kernel keeps for a client that has to authenticate again."""


class Listener:
    """One named listener and the dispatcher of its requests.

    `first_request_bytes` is the largest request of a client that is not authenticated; None if all of them are equal.
    """

    __slots__ = ("dispatch", "first_request_bytes", "name", "server")

    def __init__(
        self, server: ConnectionOwner, name: str, dispatch: Dispatch, first_request_bytes: int | None = None
    ) -> None:
        self.server = server
        self.name = name
        self.dispatch = dispatch
        self.first_request_bytes = first_request_bytes


class ConnectionProtocol(asyncio.BufferedProtocol):
    """The asyncio protocol of one client's socket."""

    __slots__ = (
        "_backlog",
        "_closing",
        "_finishing",
        "_listener",
        "_mute_timer",
        "_parked",
        "_reader",
        "_reading",
        "_resuming",
        "_send_queue",
        "_transport",
        "connection",
        "used_at",
    )

    connection: Connection
    _send_queue: SendQueue
    _transport: asyncio.Transport

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        server = listener.server
        if listener.first_request_bytes is None:
            self._reader = FrameReader(server.scratch, server.limits.max_request_bytes, server.request_memory)
        else:
            # Memory of their own: clients that do not authenticate could otherwise hold that of those that did.
            self._reader = FrameReader(server.scratch, listener.first_request_bytes, server.unauthenticated_memory)
        self._backlog: Iterator[memoryview] | None = None  # frames not handled yet
        self._parked: dict[Response, None] | None = None  # waiting fetches, in order of arrival
        self._reading = True
        self._resuming = False
        self._mute_timer: asyncio.TimerHandle | None = None
        self._finishing = False
        self._closing = False
        self.used_at = 0.0

    @property
    def idle(self) -> bool:
        """Return whether no request, response or queued frame is pending."""
        return not self.connection.in_flight and self._backlog is None and not self._send_queue.backed_up

    @property
    def backed_up(self) -> bool:
        """Return whether responses wait for the client to read."""
        return self._send_queue.backed_up

    @property
    def reader(self) -> FrameReader:
        """Return the reader that splits received bytes into frames."""
        return self._reader

    @property
    def _may_handle(self) -> bool:
        return self.connection.may_handle and not self._send_queue.backed_up

    @property
    def _turn_requests(self) -> int:
        """The requests to handle in this turn of the loop: a share of `TURN_REQUESTS`."""
        return max(_FEWEST_REQUESTS, TURN_REQUESTS // (1 + self._listener.server.resuming))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start, unless a connection limit is reached."""
        server = self._listener.server
        self._transport = cast("asyncio.Transport", transport)
        self.used_at = server.loop.time()
        peer = transport.get_extra_info("peername")
        host, port = peer[:2] if peer else ("", 0)
        self.connection = Connection(server.next_connection_id(), self._listener.name, host, port)
        if self._listener.first_request_bytes is not None:
            # No bound method: the protocol would wait for the garbage collector.
            accepted = transport.get_extra_info("socket")
            self.connection.on_authenticated = partial(_lift_limits, self._reader, server, accepted)
        self._send_queue = SendQueue(server.loop, self._transport, server.metrics, self._handle_backlog)
        if not server.admit(self):
            self._closing = True
            self._transport.abort()

    def delay(self, seconds: float) -> None:
        """Read nothing for that time: connections are created faster than a quota allows."""
        loop = self._listener.server.loop
        self.connection.mute(loop.time() + seconds)
        self._update_reading()
        loop.call_soon(self._pause_again)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Cancel the client's parked fetches; drop the responses of its other pending requests."""
        self._closing = True
        for error in self.connection.close():
            context = {"message": "A callback of a closed connection failed", "exception": error}
            self._listener.server.loop.call_exception_handler(context)
        self._backlog = None
        if self._mute_timer is not None:
            self._mute_timer.cancel()
        self._reader.discard()
        for fetch in self._parked or ():
            fetch.cancel()
        self._send_queue.discard()
        self._listener.server.forget(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return the buffer for the next read."""
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the frames that `nbytes` more bytes complete."""
        if self._closing or self.connection.ending:
            return
        if not self._reading:
            self._keep(nbytes)
            return
        server = self._listener.server
        server.metrics.received_bytes += nbytes
        self.used_at = now = server.loop.time()
        if nbytes <= SMALL_BYTES and now >= server.busy_polling.due:
            server.busy_polling.begin()
        connection = self.connection
        ready: list[Part] = []
        left = self._turn_requests if server.resuming else TURN_REQUESTS
        try:
            for frame in self._reader.received(nbytes):
                left -= self._handle(frame, ready)
                if left <= 0 or not connection.may_handle:
                    self._backlog = self._reader.rest()
                    break
        except (DecodeError, Disconnect) as reason:
            self._close(ready, reason)
            return
        if ready:
            self._send_queue.send(ready)
        self._update_reading()

    def pause_writing(self) -> None:
        """Queue responses: the transport's buffer is full."""
        self._send_queue.pause()
        self._update_reading()

    def resume_writing(self) -> None:
        """Send queued responses: the transport's buffer has room again."""
        self.used_at = self._listener.server.loop.time()
        self._send_queue.resume()

    def finish(self) -> None:
        """Stop reading, respond to what has been received, then close."""
        self._finishing = True
        self.connection.unmute()
        self._update_reading()

    def abort(self) -> None:
        """Close at once."""
        self._closing = True
        self._backlog = None
        self._transport.abort()

    def _handle(self, frame: memoryview, ready: list[Part]) -> int:
        """Handle one frame; append the parts that may be sent now to `ready`.

        Return the number of the turn's requests that it counts as.
        """
        connection = self.connection
        outcome = self._listener.dispatch(frame, connection)
        if outcome is None:
            return 1
        if isinstance(outcome, DeferredResponse):
            slot = connection.wait(outcome.api_key)
            outcome.response.add_done_callback(partial(self._answered, slot))
            if outcome.api_key == ApiKey.FETCH:
                self._parked = self._parked or {}
                self._parked[outcome.response] = None
            return 1
        ready += connection.answer(outcome)
        head: bytes = outcome[0]  # type: ignore[assignment]  # bytes-like; file slices come later
        return 1 + len(head) // _REQUEST_BYTES

    def _answered(self, slot: PendingResponse, response: Response) -> None:
        """Fill the slot of a pending request, and send what may be sent now.

        The backlog is resumed in a turn of its own: a `Deferred` calls this in the middle of other work.
        """
        if self._closing or self.connection.closed or slot.dropped or response.cancelled():
            return
        self.used_at = self._listener.server.loop.time()
        if self._parked is not None:
            self._parked.pop(response, None)
        if reason := response.exception():
            self._close([], reason, slot)
            return
        ready = self.connection.fill(slot, response.result())
        if ready:
            self._send_queue.send(ready)
        self._update_reading()

    def _handle_backlog(self) -> None:
        """Handle backlog frames as far as possible now."""
        ready: list[Part] = []
        left = self._turn_requests
        try:
            while self._backlog is not None and left > 0 and self._may_handle:
                frame = next(self._backlog, None)
                if frame is None:
                    self._backlog = None
                else:
                    left -= self._handle(frame, ready)
        except (DecodeError, Disconnect) as reason:
            self._close(ready, reason)
            return
        if ready:
            self._send_queue.send(ready)
        self._update_reading()

    def _resume(self) -> None:
        """Continue with the backlog in a new turn of the loop."""
        self._resuming = False
        self._listener.server.resuming -= 1
        self._handle_backlog()

    def _pause_again(self) -> None:
        """Stop reading, which uvloop begins after `connection_made` even if it was paused there."""
        if not self._reading and not self._closing:
            self._transport.pause_reading()

    def _keep(self, nbytes: int) -> None:
        """Keep the frames that were received although reading is paused: uvloop may read once before `_pause_again`."""
        self._listener.server.metrics.received_bytes += nbytes
        try:
            frames = [memoryview(bytearray(frame)) for frame in self._reader.received(nbytes)]
        except DecodeError as reason:
            self._close([], reason)
            return
        self._backlog = iter((*(self._backlog or ()), *frames)) if frames else self._backlog

    def _end_mute(self) -> None:
        """Handle requests again, unless the client was muted for longer meanwhile."""
        self._mute_timer = None
        if self.connection.muted_until <= self._listener.server.loop.time():
            self.connection.unmute()
        self._update_reading()

    def _resume_reading(self) -> None:
        """Resume reading: request memory is available."""
        self._reader.grow()
        self._update_reading()

    def _update_reading(self) -> None:
        """Read only while another request could be handled; close after the last response when finishing."""
        if self._closing:
            return
        if self._finishing and self.idle:
            self._closing = True
            self._transport.close()  # sends its buffer first
            return
        may_handle = self._may_handle
        if not may_handle and self.connection.muted_until and self._finishing:
            self.connection.unmute()  # a request that is answered before the close may mute the client again
            may_handle = self._may_handle
        elif not may_handle and self.connection.muted_until and self._mute_timer is None:
            self._mute_timer = self._listener.server.loop.call_at(self.connection.muted_until, self._end_mute)
        may_read = may_handle and not self._finishing
        if self._backlog is not None:
            if may_handle and not self._resuming:
                self._resuming = True
                self._listener.server.resuming += 1
                self._listener.server.loop.call_soon(self._resume)
            may_read = False
        elif may_read and self._reader.starved:
            self._reader.memory.wait(self._reader, self._resume_reading)
            may_read = not self._reader.starved
        if may_read != self._reading:
            self._reading = may_read
            if may_read:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _close(self, ready: list[Part], reason: BaseException, slot: PendingResponse | None = None) -> None:
        """Close because of an invalid request: pending requests are still answered, but not `slot` and later ones.

        The same warning is logged at most once in 10 s: a client of another protocol reconnects again and again.
        """
        host, listener, server = self.connection.client_host, self._listener.name, self._listener.server
        is_logged = isinstance(reason, Disconnect) and reason.is_logged
        times = 0 if is_logged else server.close_warnings.add(f"{host} {listener} {reason}", server.loop.time())
        if times:
            more = f" ({count_of(times - 1, 'other')} since the last such line)" if times > 1 else ""
            _log.warning("Closing the connection from %s on %s: %s%s", host, listener, reason, more)
        last = reason.response if isinstance(reason, Disconnect) else None
        if last is not None:
            ready += self.connection.answer(last) if slot is None else self.connection.fill(slot, last)
            slot = None
        self.connection.end(slot)
        self._backlog = None
        if ready:
            self._send_queue.send(ready)
        self.finish()


def _lift_limits(reader: FrameReader, server: ConnectionOwner, accepted: socket, session_ends: bool) -> None:
    """Let a client that has authenticated send requests of all sizes, and use the memory for them."""
    reader.limit(server.limits.max_request_bytes)
    reader.use(server.request_memory)
    if session_ends:
        server.limit_receive_buffer(accepted)
