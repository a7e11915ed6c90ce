"""What one connection still has to send, and how far it may run ahead of its reader.

A response is a list of parts: encoded bytes, and slices of files. Bytes are handed to the transport; a slice
stays a position in its file until the socket takes what is before it, so that a reader that is slow, or gone,
holds no memory: at most about `READ_AHEAD_BYTES` a connection is read before it is taken.

A slice is read without blocking where the platform can tell that its pages are in memory; otherwise in an
executor, so that a cold disk does not stall everyone else. A slice that ends early is a broken promise (the
length of the response has left already), and closes the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from broker.metrics import Metrics
from protocol.primitives import Part

if TYPE_CHECKING:
    from storage.segment import FileSlice

READ_AHEAD_BYTES = 1024 * 1024
_HIGH_WATER_BYTES = READ_AHEAD_BYTES // 2
_LOW_WATER_BYTES = READ_AHEAD_BYTES // 8
_CHUNK_BYTES = READ_AHEAD_BYTES // 2
_SMALL_BYTES = 16 * 1024  # cheaper to copy than to send piece by piece
_TURN_BYTES = 4 * READ_AHEAD_BYTES  # a reader that keeps up lets others have the loop after this much

_log = logging.getLogger("broker.outbox")


def _joined(parts: list[Part]) -> bytes | None:
    """Return small responses as one; None if much of them lies in files, or anything that has to be waited for."""
    pieces: list[bytes | bytearray | memoryview] = []
    room_bytes = _SMALL_BYTES
    for part in parts:
        if isinstance(part, (bytes, bytearray, memoryview)):
            pieces.append(part)
            continue
        size_bytes = part.size_bytes
        room_bytes -= size_bytes
        data = cast("FileSlice", part).read_nowait(0, size_bytes) if room_bytes >= 0 else None
        if data is None:
            return None
        pieces.append(data)
    return b"".join(pieces)


class Outbox:
    """The send queue of one connection."""

    __slots__ = ("_at", "_loop", "_metrics", "_on_drained", "_paused", "_pulling", "_queue", "_transport")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        metrics: Metrics,
        on_drained: Callable[[], None],
    ) -> None:
        """Send through `transport`; `on_drained` is called whenever a backed-up queue has emptied."""
        self._loop = loop
        self._transport = transport
        self._metrics = metrics
        self._on_drained = on_drained
        self._queue: deque[Part] | None = None  # none while nothing waits: an empty deque is 600 bytes
        self._at = 0  # bytes of the slice at the head of the queue that have been read
        self._paused = False
        self._pulling = False  # a read in the executor, or a turn of the loop, will go on
        transport.set_write_buffer_limits(_HIGH_WATER_BYTES, _LOW_WATER_BYTES)

    @property
    def backed_up(self) -> bool:
        """Say whether the reader lags behind what has been sent to it."""
        return self._paused or self._queue is not None

    def send(self, parts: list[Part]) -> None:
        """Send `parts` after all that was sent before."""
        if not self.backed_up:
            data = parts[0] if len(parts) == 1 else _joined(parts)
            if isinstance(data, (bytes, bytearray)):
                self._metrics.sent_bytes += len(data)
                self._transport.write(data)
                return
            self._queue = deque(parts)
            self._pump()
        elif self._queue is None:
            self._queue = deque(parts)
        else:
            self._queue += parts

    def pause(self) -> None:
        """Stop handing bytes to the transport: its buffer is full."""
        self._paused = True

    def resume(self) -> None:
        """Go on: the transport's buffer has emptied."""
        self._paused = False
        self._pump()
        if not self.backed_up:
            self._on_drained()

    def discard(self) -> None:
        """Drop what has not been sent: the connection is gone."""
        self._queue = None

    def _pump(self) -> None:
        budget_bytes = _TURN_BYTES
        while self._queue and not self._paused and not self._pulling:
            if budget_bytes <= 0:
                self._pulling = True
                self._loop.call_soon(self._go_on)
                return
            pieces, size_bytes = self._take(self._queue)
            if pieces:
                budget_bytes -= size_bytes
                self._metrics.sent_bytes += size_bytes
                self._transport.writelines(pieces)
        if not self._queue:
            self._queue = None

    def _take(self, queue: deque[Part]) -> tuple[list[bytes | bytearray | memoryview], int]:
        """Take about a chunk from the head of the queue, as far as it can be had without blocking.

        Half a chunk is enough: to fill it, the next slice would be read in one piece more.
        """
        pieces: list[bytes | bytearray | memoryview] = []
        size_bytes = 0
        while queue and 2 * size_bytes < _CHUNK_BYTES:
            part = queue[0]
            if isinstance(part, (bytes, bytearray, memoryview)):
                pieces.append(part)
                size_bytes += len(part)
                queue.popleft()
                continue
            piece = cast("FileSlice", part)
            wanted = min(piece.size_bytes - self._at, _CHUNK_BYTES - size_bytes)
            try:
                data = piece.read_nowait(self._at, wanted)
            except OSError as error:
                self._fail(str(error))
                break
            if data is None:
                self._pulling = True
                reading = self._loop.run_in_executor(None, piece.read, self._at, wanted)
                reading.add_done_callback(self._on_read)
                break
            if not self._advance(queue, len(data)):
                break
            pieces.append(data)
            size_bytes += len(data)
        return pieces, size_bytes

    def _advance(self, queue: deque[Part], read_bytes: int) -> bool:
        """Count what was read of the slice at the head of the queue; False if the slice has ended early."""
        piece = cast("FileSlice", queue[0])
        self._at += read_bytes
        if self._at >= piece.size_bytes:
            queue.popleft()
            self._at = 0
        elif not read_bytes:
            self._fail(f"a segment ended {piece.size_bytes - self._at} bytes too early")
            return False
        return True

    def _on_read(self, reading: asyncio.Future[bytes]) -> None:
        self._pulling = False
        if reading.cancelled():
            return
        error = reading.exception()  # asked for in any case: asyncio complains of what nobody has heard of
        if self._queue is None:
            return
        if error:
            self._fail(str(error))
            return
        data = reading.result()
        if self._advance(self._queue, len(data)):
            self._metrics.sent_bytes += len(data)
            self._transport.write(data)
            self._go_on()

    def _go_on(self) -> None:
        self._pulling = False
        self._pump()
        if not self.backed_up:
            self._on_drained()

    def _fail(self, reason: str) -> None:
        _log.error("A response could not be sent whole: %s", reason)
        self._queue = None
        self._transport.abort()
