"""One request with its response, and the ring of the last ones.

Frames are kept as bytes and decoded only when the transcript is read. Of records in files only the first batch header
is kept, and of frames above `MOST_FRAME_BYTES` only the size: the ring holds at most `MOST_EXCHANGES` exchanges and
about `MOST_BYTES`. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

from protocol.headers import RequestHeader
from protocol.primitives import Part, part_size
from protocol.record_batch import HEADER_BYTES

MOST_FRAME_BYTES = 256 * 1024
MOST_EXCHANGES = 2_000
MOST_BYTES = 8 << 20

Frame: TypeAlias = bytes | int
"""A frame, or the size of one that is not kept."""


class Exchange:
    """A request and, once it is there, its response."""

    __slots__ = (
        "client_host", "from_broker", "header", "number", "reason", "request", "response", "rule_id", "time_ms",
        "took_ms",
    )  # fmt: skip

    def __init__(self, number: int, header: RequestHeader, client_host: str, frame: memoryview, time_ms: int) -> None:
        self.number = number
        """Counts the requests from 1 on, in the order of their arrival."""
        self.header = header
        self.client_host = client_host
        self.request: Frame = bytes(frame) if len(frame) <= MOST_FRAME_BYTES else len(frame)
        self.time_ms = time_ms
        """The wall clock at the arrival."""
        self.from_broker = False
        self.rule_id: int | None = None
        """The fault rule that acted on it."""
        self.response: Frame | None = None
        """None until it is there, and if there is none."""
        self.took_ms: float | None = None
        """The time until the response; None while it is awaited."""
        self.reason = ""
        """Why the connection was closed instead of a response."""

    @property
    def size_bytes(self) -> int:
        """Return about how much memory it takes."""
        return sum(len(one) for one in (self.request, self.response) if isinstance(one, bytes)) + 200

    def end(self, parts: list[Part] | None, took_ms: float, reason: str = "") -> None:
        """Set the response, or the reason why there is none."""
        self.took_ms, self.reason = took_ms, reason
        if parts is not None:
            size = sum(map(part_size, parts))
            self.response = b"".join(map(_kept, parts)) if size <= MOST_FRAME_BYTES else size


def _kept(part: Part) -> bytes:
    """Return a part of a response; of records in a file the first batch header, and zeros."""
    if isinstance(part, (bytes, bytearray, memoryview)):
        return bytes(part)
    size = part_size(part)
    return part.read(0, min(size, HEADER_BYTES)).ljust(size, b"\0")


class ExchangeRing:
    """The last exchanges."""

    def __init__(self, on_end: Callable[[Exchange], object]) -> None:
        """Call `on_end` with each exchange that is complete."""
        self._on_end = on_end
        self._exchanges: deque[Exchange] = deque()
        self._size_bytes = 0
        self.count = 0
        """The number of requests so far: that of the last one."""

    def __iter__(self) -> Iterator[Exchange]:
        return iter(tuple(self._exchanges))

    def begin(self, header: RequestHeader, client_host: str, frame: memoryview, time_ms: int) -> Exchange:
        """Add a request, and drop the oldest ones that there is no room for."""
        self.count += 1
        exchange = Exchange(self.count, header, client_host, frame, time_ms)
        self._exchanges.append(exchange)
        self._size_bytes += exchange.size_bytes
        return exchange

    def end(self, exchange: Exchange, parts: list[Part] | None, took_ms: float, reason: str = "") -> None:
        """Set the response of an exchange, or the reason why there is none."""
        before = exchange.size_bytes
        exchange.end(parts, took_ms, reason)
        if self._exchanges and exchange.number >= self._exchanges[0].number:
            self._size_bytes += exchange.size_bytes - before
        while len(self._exchanges) > MOST_EXCHANGES or self._size_bytes > MOST_BYTES:
            self._size_bytes -= self._exchanges.popleft().size_bytes
        self._on_end(exchange)

    def clear(self) -> None:
        """Forget all exchanges; the numbers go on."""
        self._exchanges.clear()
        self._size_bytes = 0
