"""The event loop's side of one connection: bytes in, frames to the dispatcher, responses out.

A frame that lies in the shared scratch buffer is handled before the next read of any connection; what must
wait is copied into the backlog. The channel does not read while requests are held back, while too many are
in flight, while too much memory is used by the requests of all connections, and while the client does not take
its responses: what a client can make the broker remember is bounded by one scratch buffer of requests, one frame,
and about `connection.MAX_HELD_BYTES` of responses that wait for those before them and `outbox.READ_AHEAD_BYTES` of
those that leave.

The order of responses is `connection`'s, the meaning of a frame `broker.dispatch`'s, sending
`outbox`'s, limits on connections `server`'s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from broker.network.busy_polling import SMALL_BYTES
from broker.network.connection import Connection, Disconnect, Slot
from broker.network.send_queue import Outbox
from protocol.api import ApiKey
from protocol.errors import DecodeError
from protocol.framing import FrameReader
from protocol.plural import count_of
from protocol.primitives import Part

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.monitoring.counters import Metrics
    from broker.network.busy_polling import Lingering
    from broker.network.connection_limits import Limits
    from broker.runtime.deferred import Promise
    from broker.runtime.rate_limited_log import SaidLately
    from protocol.request_memory import RequestMemory

    Response = asyncio.Future[list[Part] | None] | Promise[list[Part] | None]
    Dispatch = Callable[[memoryview, Connection], list[Part] | "Waiting" | None]

_log = logging.getLogger("broker.channel")


TURN_REQUESTS = 256
"""The requests that one connection may have handled before others get the loop.

They are fewer if their responses are large, and if many connections have requests for more than one turn: those share.
"""
_FEWEST_REQUESTS = 16  # of each of many connections: fewer would have its responses sent one by one
_REQUEST_BYTES = 4096  # of a response: making as much takes about as long as handling another small request


class Waiting(NamedTuple):
    """What the dispatcher returns for a request whose response comes later (None: it has no response).

    The future fails with `Disconnect` or not at all.
    """

    api_key: int
    response: Response


class ChannelOwner(Protocol):
    """What a connection uses of the `Server` that accepted it."""

    loop: asyncio.AbstractEventLoop
    limits: Limits
    metrics: Metrics
    lingering: Lingering
    request_memory: RequestMemory
    scratch: memoryview
    next_connection_id: Callable[[], int]
    resuming: int
    closings: SaidLately

    def admit(self, channel: Channel) -> bool:
        """Return whether the limits on connections allow one more."""
        ...

    def forget(self, channel: Channel) -> None:
        """Remove a connection that was closed."""
        ...


class Listener:
    """One named listener and what its requests are handed to."""

    __slots__ = ("dispatch", "name", "server")

    def __init__(self, server: ChannelOwner, name: str, dispatch: Dispatch) -> None:
        self.server = server
        self.name = name
        self.dispatch = dispatch


class Channel(asyncio.BufferedProtocol):
    """The protocol object of one client's socket."""

    __slots__ = (
        "_backlog",
        "_closing",
        "_finishing",
        "_listener",
        "_outbox",
        "_parked",
        "_reader",
        "_reading",
        "_resuming",
        "_transport",
        "connection",
        "used_at",
    )

    connection: Connection
    _outbox: Outbox
    _transport: asyncio.Transport

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        server = listener.server
        self._reader = FrameReader(server.scratch, server.limits.max_request_bytes, server.request_memory)
        self._backlog: Iterator[memoryview] | None = None  # frames that are held back
        self._parked: dict[Response, None] | None = None  # fetches that wait for data, in their order
        self._reading = True
        self._resuming = False
        self._finishing = False
        self._closing = False
        self.used_at = 0.0

    @property
    def idle(self) -> bool:
        """Say whether the client waits for nothing."""
        return not self.connection.in_flight and self._backlog is None and not self._outbox.backed_up

    @property
    def backed_up(self) -> bool:
        """Say whether the client lags behind in taking its responses."""
        return self._outbox.backed_up

    @property
    def reader(self) -> FrameReader:
        """Return what cuts this connection's bytes into requests."""
        return self._reader

    @property
    def _may_handle(self) -> bool:
        return self.connection.may_handle and not self._outbox.backed_up

    @property
    def _turn_requests(self) -> int:
        """The requests to handle in this turn of the loop, which the connections that have some left share."""
        return max(_FEWEST_REQUESTS, TURN_REQUESTS // (1 + self._listener.server.resuming))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, if the server has room for another client."""
        server = self._listener.server
        self._transport = cast("asyncio.Transport", transport)
        self.used_at = server.loop.time()
        peer = transport.get_extra_info("peername")
        host, port = peer[:2] if peer else ("", 0)
        self.connection = Connection(server.next_connection_id(), self._listener.name, host, port)
        self._outbox = Outbox(server.loop, self._transport, server.metrics, self._go_on)
        if not server.admit(self):
            self._closing = True
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Forget the client; its fetches wait no more, other requests that do are answered to nobody."""
        self._closing = True
        for error in self.connection.close():
            context = {"message": "A callback of a closed connection failed", "exception": error}
            self._listener.server.loop.call_exception_handler(context)
        self._backlog = None
        self._reader.discard()
        for fetch in self._parked or ():
            fetch.cancel()
        self._outbox.discard()
        self._listener.server.forget(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return where the read that follows at once shall go."""
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the frames that `nbytes` more bytes completed."""
        if self._closing or self.connection.ending:
            return
        server = self._listener.server
        server.metrics.received_bytes += nbytes
        self.used_at = now = server.loop.time()
        if nbytes <= SMALL_BYTES and now >= server.lingering.due:
            server.lingering.begin()
        connection = self.connection
        leaving: list[Part] = []
        left = self._turn_requests if server.resuming else TURN_REQUESTS
        try:
            for frame in self._reader.received(nbytes):
                left -= self._handle(frame, leaving)
                if left <= 0 or not connection.may_handle:
                    self._backlog = self._reader.rest()
                    break
        except (DecodeError, Disconnect) as reason:
            self._close(leaving, reason)
            return
        if leaving:
            self._outbox.send(leaving)
        self._steer()

    def pause_writing(self) -> None:
        """Hold responses: the transport's buffer is full."""
        self._outbox.pause()
        self._steer()

    def resume_writing(self) -> None:
        """Send on: the transport's buffer has room again."""
        self.used_at = self._listener.server.loop.time()
        self._outbox.resume()

    def finish(self) -> None:
        """Read no more, answer what has been received, then close."""
        self._finishing = True
        self._steer()

    def abort(self) -> None:
        """Close at once."""
        self._closing = True
        self._backlog = None
        self._transport.abort()

    def _handle(self, frame: memoryview, leaving: list[Part]) -> int:
        """Handle one frame; whatever may be sent because of it is added to `leaving`.

        Return how many of the turn's requests it stands for.
        """
        connection = self.connection
        outcome = self._listener.dispatch(frame, connection)
        if outcome is None:
            return 1
        if isinstance(outcome, Waiting):
            slot = connection.wait(outcome.api_key)
            outcome.response.add_done_callback(partial(self._answered, slot))
            if outcome.api_key == ApiKey.FETCH:
                self._parked = self._parked or {}
                self._parked[outcome.response] = None
            return 1
        leaving += connection.answer(outcome)
        head: bytes = outcome[0]  # type: ignore[assignment]  # of one kind or another; files' contents follow
        return 1 + len(head) // _REQUEST_BYTES

    def _answered(self, slot: Slot, response: Response) -> None:
        """Fill the slot of a request that waited, and take up what it held back."""
        if self._closing or self.connection.closed or slot.dropped or response.cancelled():
            return
        self.used_at = self._listener.server.loop.time()
        if self._parked is not None:
            self._parked.pop(response, None)
        if reason := response.exception():
            self._close([], reason, slot)
            return
        self._go_on(self.connection.fill(slot, response.result()))

    def _go_on(self, leaving: list[Part] | None = None) -> None:
        """Take up what was held back, as far as that is possible now."""
        leaving = leaving or []
        left = self._turn_requests
        try:
            while self._backlog is not None and left > 0 and self._may_handle:
                frame = next(self._backlog, None)
                if frame is None:
                    self._backlog = None
                else:
                    left -= self._handle(frame, leaving)
        except (DecodeError, Disconnect) as reason:
            self._close(leaving, reason)
            return
        if leaving:
            self._outbox.send(leaving)
        self._steer()

    def _resume(self) -> None:
        """Take up in a new turn of the loop what the last one had no room for."""
        self._resuming = False
        self._listener.server.resuming -= 1
        self._go_on()

    def _take_room(self) -> None:
        """Read on: there is memory for more of the request."""
        self._reader.grow()
        self._steer()

    def _steer(self) -> None:
        """Read exactly while another request could be handled; close when the last one is answered."""
        if self._closing:
            return
        if self._finishing and self.idle:
            self._closing = True
            self._transport.close()  # what the transport still holds is sent first
            return
        may_handle = self._may_handle
        may_read = may_handle and not self._finishing
        if self._backlog is not None:
            if may_handle and not self._resuming:
                self._resuming = True
                self._listener.server.resuming += 1
                self._listener.server.loop.call_soon(self._resume)
            may_read = False
        elif may_read and self._reader.starved:
            self._listener.server.request_memory.wait(self._reader, self._take_room)
            may_read = not self._reader.starved
        if may_read != self._reading:
            self._reading = may_read
            if may_read:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _close(self, leaving: list[Part], reason: BaseException, slot: Slot | None = None) -> None:
        """Close because of something that the client sent, once all before it is answered; log one line.

        The same line is logged once in 10 s: a client that speaks another protocol tries again and again.

        What waits is answered in its time, but for the request of `slot`, if that is the one, and those behind it.
        """
        host, listener, server = self.connection.client_host, self._listener.name, self._listener.server
        if times := server.closings.count(f"{host} {listener} {reason}", server.loop.time()):
            more = f" ({count_of(times - 1, 'other')} since the last such line)" if times > 1 else ""
            _log.warning("Closing the connection from %s on %s: %s%s", host, listener, reason, more)
        self.connection.end(slot)
        self._backlog = None
        if leaving:
            self._outbox.send(leaving)
        self.finish()
