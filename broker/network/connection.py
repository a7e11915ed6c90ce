"""One connection's order of requests and responses, without I/O.

Theory of operation. A client may send many requests before it reads a response; responses are sent in the order of
their requests. A request answered at once, with nothing pending before it, needs no state here. Any other gets a *slot*
in a queue; a slot is released when it is filled and is the oldest.

Whether a pending request delays later ones depends on its API. A pending Produce or Fetch has had all its effects, so
later requests are handled meanwhile. Every other request *holds back* later ones until it is answered, as in Kafka: a
client that pipelines an OffsetCommit and an OffsetFetch reads what it wrote. A Produce whose transaction is being
verified has effects to come, which later requests of its producer wait for (`broker.handlers.produce`).

    event                         call           effect
    may a request be handled?     may_handle     True unless held back, at `MAX_IN_FLIGHT` or at `MAX_HELD_BYTES`
    response made at once         answer()       returns the parts that may be sent now
    response comes later          wait()         returns its slot
    the response is made          fill()         returns the parts that may be sent now
    the request is invalid        end()          earlier requests are still answered, this and later ones are not

Bytes, sockets and backpressure are in `connection_protocol` and `send_queue`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from broker.routes import PIPELINED
from controller.acls.acl import ANONYMOUS
from protocol.errors import InvariantError
from protocol.headers import RequestHeader
from protocol.primitives import Part

MAX_IN_FLIGHT = 128
"""The most pending requests of a connection; at that number it is not read from."""

MAX_HELD_BYTES = 1024 * 1024
"""The most bytes of responses that wait for earlier ones; file slices do not count."""

UNKNOWN_SOFTWARE = ("unknown", "unknown")
"""Name and version of a client's software, until its ApiVersions request."""


class Disconnect(Exception):  # noqa: N818 - an instruction rather than an error
    """The connection has to be closed, after `response` if there is one; the message is the reason in the log."""

    def __init__(self, why: str, response: list[Part] | None = None, *, is_logged: bool = False) -> None:
        """`is_logged`: the reason is in the log already."""
        super().__init__(why)
        self.response = response
        self.is_logged = is_logged


class RequestContext(NamedTuple):
    """What a handler knows of a request besides its body."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    connection_id: int
    listener: str
    client_host: str
    principal: str = ANONYMOUS
    connection: Connection | None = None

    @property
    def token_authenticated(self) -> bool:
        """Return whether the client authenticated with a delegation token."""
        return self.connection is not None and self.connection.token_authenticated


def context_of(header: RequestHeader, connection: Connection) -> RequestContext:
    """Return the context of a request."""
    key, version, correlation_id, client_id = header
    return RequestContext(
        key,
        version,
        correlation_id,
        client_id,
        connection.connection_id,
        connection.listener,
        connection.client_host,
        connection.principal,
        connection,
    )


class PendingResponse:
    """The place of one response in the order of its connection."""

    __slots__ = ("dropped", "filled", "holds_back", "response")

    def __init__(self, *, holds_back: bool) -> None:
        self.holds_back = holds_back
        self.dropped = False
        self.filled = False
        self.response: list[Part] = []


class Connection:
    """The client's identity, and the order of its responses."""

    __slots__ = (
        "_held_back",
        "_held_bytes",
        "_on_close",
        "_slots",
        "authenticator",
        "client_host",
        "client_port",
        "client_software",
        "closed",
        "connection_id",
        "ending",
        "listener",
        "may_handle",
        "muted_until",
        "on_authenticated",
        "principal",
        "token_authenticated",
    )

    def __init__(self, connection_id: int, listener: str, client_host: str, client_port: int = 0) -> None:
        """`connection_id` is unique in the process; `listener` is the name of the one that accepted it."""
        self.connection_id = connection_id
        self.listener = listener
        self.client_host = client_host
        self.client_port = client_port
        self.client_software = UNKNOWN_SOFTWARE
        self.closed = False
        self.ending = False
        """Whether a request was invalid: earlier ones are answered, no other is handled."""
        self.principal = ANONYMOUS
        self.token_authenticated = False
        """Whether the client authenticated with a delegation token."""
        self.authenticator: Any = None
        """The `SaslAuthenticator` of a connection on a listener with SASL; None before its first request."""
        self.on_authenticated: Callable[[bool], None] | None = None
        """Called when the client has authenticated itself with SASL, with whether its session ends."""
        self._on_close: dict[Hashable, Callable[[], None]] | None = None  # few connections have any
        self._slots: deque[PendingResponse] | None = None  # None while empty: an empty deque is 600 bytes
        self._held_back = False
        self._held_bytes = 0
        self.muted_until = 0.0
        """The loop's time until which no request is handled, because the client is above a quota; 0 if it is not."""
        self.may_handle = True
        """Whether the next request may be handled now."""

    @property
    def in_flight(self) -> int:
        """Return the number of requests whose responses have not been released."""
        return 0 if self._slots is None else len(self._slots)

    def answer(self, response: list[Part]) -> list[Part]:
        """Add the response to the latest request; return the parts that may be sent now."""
        if self._slots is None:
            return response
        slot = PendingResponse(holds_back=False)
        slot.filled, slot.response = True, response
        self._held_bytes += _bytes_in_memory(response)
        self._append(slot)
        return []

    def wait(self, api_key: int) -> PendingResponse:
        """Return a slot for the latest request, whose response comes later."""
        if not self.may_handle and not self.muted_until:  # which the request itself may have caused
            raise InvariantError("a request was handled while held back by an earlier one")
        slot = PendingResponse(holds_back=api_key not in PIPELINED)
        self._held_back = slot.holds_back
        self._append(slot)
        return slot

    def fill(self, slot: PendingResponse, response: list[Part] | None) -> list[Part]:
        """Set the response of `slot`, None if it has none; return the parts that may be sent now."""
        if slot.filled:
            raise InvariantError("a request was answered twice")
        slot.filled, slot.response = True, response or []
        if slot.holds_back:
            self._held_back = False
        self._held_bytes += _bytes_in_memory(slot.response)
        ready: list[Part] = []
        while self._slots and self._slots[0].filled:
            first = self._slots.popleft().response
            self._held_bytes -= _bytes_in_memory(first)
            ready += first
        if not self._slots:
            self._slots = None
        self._update_may_handle()
        return ready

    def authenticated(self, principal: str, *, by_token: bool, session_ends: bool = False) -> None:
        """Set the principal of a client that has authenticated itself with SASL, `by_token` with a delegation token."""
        self.principal = principal
        self.token_authenticated = by_token
        if self.on_authenticated is not None:
            self.on_authenticated(session_ends)

    def mute(self, until: float) -> None:
        """Handle no request before a time of the loop, or the later one that is set already (KIP-219)."""
        self.muted_until = max(self.muted_until, until)
        if self.authenticator is not None:
            self.authenticator.muted(self.muted_until)
        self._update_may_handle()

    def unmute(self) -> None:
        """Handle requests again."""
        self.muted_until = 0.0
        self._update_may_handle()

    def end(self, slot: PendingResponse | None = None) -> None:
        """Handle no more requests; drop `slot` and later ones. Without `slot`, all pending ones are answered."""
        self.ending = True
        while slot is not None and self._slots and not slot.dropped:
            last = self._slots.pop()
            last.dropped = True
            self._held_bytes -= _bytes_in_memory(last.response)
        if not self._slots:
            self._slots = None
        self._update_may_handle()

    def close(self) -> list[Exception]:
        """Drop pending responses and call the close callbacks; return the exceptions that they raised."""
        self.closed = True
        self._slots = None
        callbacks, self._on_close = self._on_close, None
        errors: list[Exception] = []
        for callback in () if callbacks is None else callbacks.values():
            try:
                callback()
            except Exception as error:  # callbacks are independent of each other
                errors.append(error)
        return errors

    def on_close(self, owner: Hashable, callback: Callable[[], None]) -> None:
        """Call `callback` once, when the connection closes; at once if it has.

        It replaces an earlier callback of the same `owner`.
        """
        if self.closed:
            callback()
            return
        if self._on_close is None:
            self._on_close = {}
        self._on_close[owner] = callback

    def _append(self, slot: PendingResponse) -> None:
        if self._slots is None:
            self._slots = deque()
        self._slots.append(slot)
        self._update_may_handle()

    def _update_may_handle(self) -> None:
        self.may_handle = (
            not self.ending
            and not self._held_back
            and not self.muted_until
            and self.in_flight < MAX_IN_FLIGHT
            and self._held_bytes < MAX_HELD_BYTES
        )


def _bytes_in_memory(response: list[Part]) -> int:
    return sum(len(part) for part in response if isinstance(part, (bytes, bytearray, memoryview)))
