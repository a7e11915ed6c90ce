"""Bytes in, frames out: requests are delimited by a signed 32-bit big-endian size.

A reader owns no receive buffer of its own. All readers of a broker fill one shared *scratch* buffer, so
that an idle connection costs next to nothing; a connection uses all of it only while large frames come, so that one
read brings no more small ones than can be handled before others get their turn. Only a frame that has not
arrived whole gets a buffer of its own, exactly as large as the frame. That buffer is never resized: views of it may be
alive, and a `bytearray` would raise BufferError. A large frame is given its buffer in growing steps as its bytes
arrive, because a size alone is a claim: four bytes must not make the broker allocate a hundred megabytes, nor
thousands of connections a megabyte each. The first step is a few times what has arrived, and at least
`SMALL_READ_BYTES` or as much as the connection's largest frame had so far, at most `FIRST_ALLOCATION_BYTES`.

The contract with the event loop is that of `asyncio.BufferedProtocol`: `buffer()` directly before each read,
`received(n)` directly after it. Nothing here touches a socket; what a frame means is told by
`protocol.headers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct

from protocol.errors import DecodeError

SCRATCH_BYTES = 1024 * 1024
SMALL_READ_BYTES = 64 * 1024
LARGE_FRAME_BYTES = 16 * 1024
FIRST_ALLOCATION_BYTES = 1024 * 1024
_GROWTH = 4
_SIZE = Struct(">i")
_SIZE_BYTES = _SIZE.size


class FrameReader:
    """Cut the bytes of one connection into frames."""

    __slots__ = ("_body", "_filled", "_first_bytes", "_head", "_max_bytes", "_room_bytes", "_scratch", "_size")

    def __init__(self, scratch: memoryview, max_bytes: int) -> None:
        """`scratch` is shared with every other reader; `max_bytes` is the largest frame accepted."""
        self._scratch = scratch
        self._max_bytes = max_bytes
        self._room_bytes = SMALL_READ_BYTES
        self._first_bytes = SMALL_READ_BYTES
        self._head = b""  # one to three bytes of a size whose rest has not arrived
        self._body: bytearray | None = None
        self._filled = 0
        self._size = 0

    def buffer(self) -> memoryview:
        """Return where the next read must go; only good for the read that follows at once."""
        if self._body is not None:
            return memoryview(self._body)[self._filled :]
        head = self._head
        if not head:
            return self._scratch[: self._room_bytes]
        self._scratch[: len(head)] = head
        return self._scratch[len(head) : self._room_bytes]

    def received(self, count: int) -> Iterable[memoryview]:
        """Give every frame that the `count` bytes just read have completed; exhaust it before the next read.

        A frame may lie in the scratch buffer: it is only valid until the next read of *any* connection.
        Raises `DecodeError` for a size that is negative or above the limit; the connection cannot be read
        any further.
        """
        if self._body is None:
            return self._cut(len(self._head) + count)
        self._filled += count
        if self._filled < len(self._body):
            return ()
        if self._filled < self._size:
            self._body = _copy_into(min(self._size, _GROWTH * self._filled), self._body)
            return ()
        body, self._body = self._body, None
        if self._size > self._first_bytes:
            self._first_bytes = min(self._size, FIRST_ALLOCATION_BYTES)
        return (memoryview(body),)

    def _cut(self, end: int) -> Iterator[memoryview]:
        scratch = self._scratch
        at = 0
        self._head = b""
        while end - at >= _SIZE_BYTES:
            (size,) = _SIZE.unpack_from(scratch, at)
            self._room_bytes = SMALL_READ_BYTES if size < LARGE_FRAME_BYTES else SCRATCH_BYTES
            if not 0 <= size <= self._max_bytes:
                raise DecodeError(f"frame of {size} bytes; the limit is {self._max_bytes}")
            at += _SIZE_BYTES
            if end - at < size:
                self._size, self._filled = size, end - at
                # Always more than has arrived: an empty buffer for the next read would be an error.
                self._body = _copy_into(min(size, max(self._first_bytes, _GROWTH * (end - at))), scratch[at:end])
                return
            yield scratch[at : at + size]
            at += size
        self._head = bytes(scratch[at:end])


def _copy_into(capacity_bytes: int, start: bytearray | memoryview) -> bytearray:
    body = bytearray(capacity_bytes)
    memoryview(body)[: len(start)] = start  # a bytearray would make a copy first, to assign that
    return body
