"""One connection's requests and responses, without any I/O.

Theory of operation. A client may send many requests before it reads a response, and responses leave in the
order of their requests. A request that is answered at once, with nothing waiting before it, costs nothing
here. Any other gets a *slot* in a queue; a slot is released once it is filled and is the oldest.

What a waiting request means for those behind it depends on its API. A produce waits for its replicas, and a
fetch for data, after all their effects are done: later requests go on, and only the slot waits. Every other
request *holds back* those behind it until it is answered, as in Kafka, so that a client that pipelines an
OffsetCommit and an OffsetFetch reads what it wrote.

    event                     call           then
    a request may be taken    may_handle     True unless held back, at `MAX_IN_FLIGHT` or at `MAX_HELD_BYTES`
    it was answered at once   answer()       the parts that may leave now
    its answer will come      wait()         its slot, to be filled
    the answer came           fill()         the parts that may leave now
    it cannot be answered     end()          nothing: those before it are answered yet, nothing from it on

Bytes, sockets and back-pressure of responses live in `channel` and `outbox`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

from protocol.api import ApiKey
from protocol.errors import InvariantError
from protocol.headers import RequestHeader
from protocol.primitives import Part

MAX_IN_FLIGHT = 128
"""The requests of one connection that may wait; when so many do, the connection is not read from."""

MAX_HELD_BYTES = 1024 * 1024
"""The bytes of responses that may wait for those before them; what lies in files takes none of them."""

ANONYMOUS = "User:ANONYMOUS"

UNKNOWN_SOFTWARE = ("unknown", "unknown")
"""Name and version of a client's software, until its ApiVersions says them."""

_PIPELINED = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})


class Disconnect(Exception):  # noqa: N818 - an instruction rather than an error
    """The connection has to be closed; the message is what the log says about it."""


class RequestContext(NamedTuple):
    """What a handler may know about a request besides its body."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    connection_id: int
    listener: str
    client_host: str
    principal: str = ANONYMOUS
    connection: Connection | None = None


def context_of(header: RequestHeader, connection: Connection) -> RequestContext:
    """Return what the handler of a request may know."""
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


class Slot:
    """The place of one response among those of its connection."""

    __slots__ = ("dropped", "filled", "holds_back", "response")

    def __init__(self, *, holds_back: bool) -> None:
        self.holds_back = holds_back
        self.dropped = False
        self.filled = False
        self.response: list[Part] = []


class Connection:
    """Who is at the other end, and the order in which it is answered."""

    __slots__ = (
        "_held_back",
        "_held_bytes",
        "_on_close",
        "_slots",
        "client_host",
        "client_port",
        "client_software",
        "closed",
        "connection_id",
        "ending",
        "listener",
        "may_handle",
        "principal",
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
        """Whether a request made it impossible to go on: what came before is answered, nothing else handled."""
        self.principal = ANONYMOUS
        self._on_close: dict[Hashable, Callable[[], None]] | None = None  # few connections have any
        self._slots: deque[Slot] | None = None  # none while nothing waits: an empty deque is 600 bytes
        self._held_back = False
        self._held_bytes = 0
        self.may_handle = True
        """Whether the next request may be handled now."""

    @property
    def in_flight(self) -> int:
        """Return the number of requests whose responses have not left."""
        return 0 if self._slots is None else len(self._slots)

    def answer(self, response: list[Part]) -> list[Part]:
        """Take the response to the latest request; return the parts that may leave now."""
        if self._slots is None:
            return response
        slot = Slot(holds_back=False)
        slot.filled, slot.response = True, response
        self._held_bytes += _bytes_in_memory(response)
        self._append(slot)
        return []

    def wait(self, api_key: int) -> Slot:
        """Keep the place of the latest request, whose response comes later."""
        if not self.may_handle:
            raise InvariantError("a request was handled while those before it hold it back")
        slot = Slot(holds_back=api_key not in _PIPELINED)
        self._held_back = slot.holds_back
        self._append(slot)
        return slot

    def fill(self, slot: Slot, response: list[Part] | None) -> list[Part]:
        """Take the response that `slot` waits for, or None if there is none; return what may leave now."""
        if slot.filled:
            raise InvariantError("a request was answered twice")
        slot.filled, slot.response = True, response or []
        if slot.holds_back:
            self._held_back = False
        self._held_bytes += _bytes_in_memory(slot.response)
        leaving: list[Part] = []
        while self._slots and self._slots[0].filled:
            first = self._slots.popleft().response
            self._held_bytes -= _bytes_in_memory(first)
            leaving += first
        if not self._slots:
            self._slots = None
        self._decide()
        return leaving

    def end(self, slot: Slot | None = None) -> None:
        """Take no more requests, and answer those before `slot` only: all that wait, if there is none."""
        self.ending = True
        while slot is not None and self._slots and not slot.dropped:
            last = self._slots.pop()
            last.dropped = True
            self._held_bytes -= _bytes_in_memory(last.response)
        if not self._slots:
            self._slots = None
        self._decide()

    def close(self) -> list[Exception]:
        """Drop what the client was to be sent, and call the callbacks; return the exceptions that they raised."""
        self.closed = True
        self._slots = None
        callbacks, self._on_close = self._on_close, None
        errors: list[Exception] = []
        for callback in () if callbacks is None else callbacks.values():
            try:
                callback()
            except Exception as error:  # the next one is another part's
                errors.append(error)
        return errors

    def on_close(self, owner: Hashable, callback: Callable[[], None]) -> None:
        """Call `callback` once, when the client has gone: at once if it has.

        It replaces the earlier one of the same `owner`.
        """
        if self.closed:
            callback()
            return
        if self._on_close is None:
            self._on_close = {}
        self._on_close[owner] = callback

    def _append(self, slot: Slot) -> None:
        if self._slots is None:
            self._slots = deque()
        self._slots.append(slot)
        self._decide()

    def _decide(self) -> None:
        self.may_handle = (
            not self.ending
            and not self._held_back
            and self.in_flight < MAX_IN_FLIGHT
            and self._held_bytes < MAX_HELD_BYTES
        )


def _bytes_in_memory(response: list[Part]) -> int:
    return sum(len(part) for part in response if isinstance(part, (bytes, bytearray, memoryview)))
