"""Send queue of one connection, with backpressure.

A response is a list of parts: encoded bytes, and slices of files. Bytes are handed to the transport; a slice stays a
position in its file until the socket accepts what precedes it. So a slow or absent reader holds no memory: at most
about `READ_AHEAD_BYTES` per connection are read ahead.

If the platform reports that a slice's pages are in memory, they are sent with sendfile, bypassing the transport. That
keeps the order because a transport that buffers anything pauses the queue: while not paused, its buffer is empty. To be
notified when a full socket has room again, the transport is given a few of the next bytes to buffer. A slice
that is not in memory is read in an executor, so that it does not block the loop. A slice that ends early closes the
connection: the response's length has been sent already.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from broker.monitoring.counters import Metrics
from protocol.primitives import Part, RecordsPart
from storage.disk import reason

if TYPE_CHECKING:
    from socket import socket

    from storage.log.file_slice import FileSlice

READ_AHEAD_BYTES = 1024 * 1024
_CHUNK_BYTES = READ_AHEAD_BYTES // 2
_SMALL_BYTES = 16 * 1024  # responses up to this size are joined: cheaper than sending the parts
_FILE_BYTES = 4 * _SMALL_BYTES  # slices below this size are copied: cheaper than sendfile
_TURN_BYTES = 4 * READ_AHEAD_BYTES  # sent to a fast reader before the loop gets a turn

_log = logging.getLogger("broker.outbox")


def _joined(parts: list[Part]) -> bytes | None:
    """Return small responses as one; None if their slices are large or cannot be read without blocking."""
    chunks: list[bytes | bytearray | memoryview] = []
    room_bytes = _SMALL_BYTES
    for part in parts:
        if isinstance(part, (bytes, bytearray, memoryview)):
            chunks.append(part)
            continue
        size_bytes = part.size_bytes
        room_bytes -= size_bytes
        if room_bytes < 0:
            return None
        try:
            data = cast("FileSlice", part).read_nowait(0, size_bytes)
        except OSError:  # sending part by part raises it again and handles it
            return None
        if data is None:
            return None
        chunks.append(data)
    return b"".join(chunks)


class SendQueue:
    """The send queue of one connection."""

    __slots__ = (
        "_at",
        "_broken",
        "_loop",
        "_metrics",
        "_on_drained",
        "_paused",
        "_queue",
        "_scheduled",
        "_socket",
        "_transport",
        "backed_up",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        metrics: Metrics,
        on_drained: Callable[[], None],
    ) -> None:
        """Send through `transport`; call `on_drained` whenever a backed-up queue has emptied."""
        self._loop = loop
        self._transport = transport
        self._metrics = metrics
        self._on_drained = on_drained
        self._queue: deque[Part] | None = None  # None while empty: an empty deque is 600 bytes
        self._at = 0  # bytes read of the slice at the head of the queue
        self._paused = False
        self._scheduled = False  # a read in the executor or a scheduled callback will continue
        self._broken = False  # a part was sent incompletely: nothing may follow it
        self.backed_up = False
        """Whether parts are queued or the socket is full."""
        transport.set_write_buffer_limits(0)
        # Data to encrypt must go through the transport.
        encrypts = transport.get_extra_info("sslcontext") is not None
        self._socket: socket | None = None if encrypts else transport.get_extra_info("socket")

    def send(self, parts: list[Part]) -> None:
        """Send `parts` after all earlier ones."""
        if not self.backed_up:
            data = parts[0] if len(parts) == 1 else _joined(parts)
            if isinstance(data, (bytes, bytearray)):
                self._metrics.sent_bytes += len(data)
                self._transport.write(data)
                return
            self._queue = deque(parts)
            self.backed_up = True
            self._pump()
        elif self._queue is None:
            self._queue = deque(parts)
        else:
            self._queue += parts

    def pause(self) -> None:
        """Stop sending: the socket is full, and the transport buffers the rest."""
        self._paused = self.backed_up = True

    def resume(self) -> None:
        """Continue sending: the transport's buffer is empty."""
        if self._broken:
            return
        self._paused = False
        self._pump()
        if not self.backed_up:
            self._on_drained()

    def discard(self) -> None:
        """Drop unsent parts: the connection is closed."""
        self._queue = None
        self.backed_up = self._paused

    def _pump(self) -> None:
        budget_bytes = _TURN_BYTES
        while self._queue and not self._paused and not self._scheduled:
            if self._transport.is_closing():  # the socket failed; connection_lost follows
                self._queue = None
                self._broken = self._paused = True
                break
            if budget_bytes <= 0:
                self._scheduled = True
                self._loop.call_soon(self._continue)
                return
            sent_bytes = self._send_from_file(self._queue)
            if not sent_bytes:
                full = sent_bytes is not None
                chunks, sent_bytes = self._read_parts(self._queue, _SMALL_BYTES if full else _CHUNK_BYTES)
                if len(chunks) == 1:
                    self._transport.write(chunks[0])
                elif chunks:
                    self._transport.writelines(chunks)
                    # Makes `writelines` pause if it buffers; Python 3.12.0 forgets to (CVE-2024-12254).
                    self._transport.set_write_buffer_limits(0)
            budget_bytes -= sent_bytes
            self._metrics.sent_bytes += sent_bytes
        if not self._queue:
            self._queue = None
            self.backed_up = self._paused

    def _send_from_file(self, queue: deque[Part]) -> int | None:
        """Send from the head slice with sendfile; return the bytes sent, None if it cannot be sent so."""
        file_slice = queue[0]
        if isinstance(file_slice, (bytes, bytearray, memoryview)) or not self._can_use_sendfile(file_slice):
            return None
        wanted = min(file_slice.size_bytes - self._at, READ_AHEAD_BYTES)
        sent_bytes = cast("FileSlice", file_slice).send_nowait(cast("socket", self._socket).fileno(), self._at, wanted)
        if sent_bytes:
            self._advance(queue, sent_bytes)
        return sent_bytes

    def _can_use_sendfile(self, file_slice: RecordsPart) -> bool:
        return self._socket is not None and file_slice.size_bytes - self._at >= _FILE_BYTES

    def _read_parts(self, queue: deque[Part], room_bytes: int) -> tuple[list[bytes | bytearray | memoryview], int]:
        """Return parts from the head of the queue, about `room_bytes` if readable without blocking, and their size.

        Half of it is enough: filling it up would split the read of the next slice.
        """
        chunks: list[bytes | bytearray | memoryview] = []
        size_bytes = 0
        while queue and 2 * size_bytes < room_bytes:
            part = queue[0]
            if isinstance(part, (bytes, bytearray, memoryview)):
                chunks.append(part)
                size_bytes += len(part)
                queue.popleft()
                continue
            if chunks and self._can_use_sendfile(part):
                break
            file_slice = cast("FileSlice", part)
            wanted = min(file_slice.size_bytes - self._at, room_bytes - size_bytes)
            try:
                data = file_slice.read_nowait(self._at, wanted)
            except OSError as error:
                self._fail(reason(error))
                break
            if data is None:
                self._scheduled = True
                wanted = min(file_slice.size_bytes - self._at, _CHUNK_BYTES)
                reading = self._loop.run_in_executor(None, file_slice.read, self._at, wanted)
                reading.add_done_callback(self._on_read)
                break
            if not self._advance(queue, len(data)):
                break
            chunks.append(data)
            size_bytes += len(data)
        return chunks, size_bytes

    def _advance(self, queue: deque[Part], read_bytes: int) -> bool:
        """Advance the head slice by `read_bytes`; return False if the slice ended early."""
        file_slice = cast("FileSlice", queue[0])
        self._at += read_bytes
        if self._at >= file_slice.size_bytes:
            queue.popleft()
            self._at = 0
        elif not read_bytes:
            self._fail(f"a segment ended {file_slice.size_bytes - self._at} bytes early")
            return False
        return True

    def _on_read(self, reading: asyncio.Future[bytes]) -> None:
        self._scheduled = False
        if reading.cancelled():
            return
        error = reading.exception()  # always retrieved: asyncio logs an exception that never is
        if self._queue is None:
            return
        if error:
            self._fail(reason(error))
            return
        data = reading.result()
        if self._advance(self._queue, len(data)):
            self._metrics.sent_bytes += len(data)
            self._transport.write(data)
            self._continue()

    def _continue(self) -> None:
        self._scheduled = False
        self._pump()
        if not self.backed_up:
            self._on_drained()

    def _fail(self, why: str) -> None:
        _log.error("Sending a response failed: %s", why)
        self._queue = None
        self._broken = self._paused = self.backed_up = True
        self._loop.call_soon(self._transport.abort)  # asyncio does not expect an abort within resume_writing
