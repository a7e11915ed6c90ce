"""Bytes in, frames out: requests are delimited by a signed 32-bit big-endian size.

A reader owns no receive buffer of its own. All readers of a broker fill one shared *scratch* buffer, so
that an idle connection costs next to nothing; a connection uses all of it only while large frames come, so that one
read brings no more small ones than can be handled before others get their turn. Only a frame that has not
arrived whole gets room of its own, exactly as large as the frame (`protocol.frame_buffers`). That is never resized:
views of it may be alive. A large frame is given its buffer in growing steps as its bytes
arrive, because a size alone is a claim: four bytes must not make the broker allocate a hundred megabytes, nor
thousands of connections a megabyte each. The first step is a few times what has arrived, and at least
`SMALL_READ_BYTES` or as much as the connection's largest frame had so far, at most `FIRST_ALLOCATION_BYTES`. All such
memory is accounted for in one `RequestMemory`; where that is full, a reader takes no more than it cannot do
without, and says that it is `starved`.

Frames that cannot be handled at once stay together in one copy of `rest()`: a copy of each, of a flood of tiny ones,
would take many times their size.

The contract with the event loop is that of `asyncio.BufferedProtocol`: `buffer()` directly before each read,
`received(n)` directly after it. Nothing here touches a socket; what a frame means is told by
`protocol.headers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct

from protocol.errors import DecodeError
from protocol.request_memory import RequestMemory

SCRATCH_BYTES = 1024 * 1024
SMALL_READ_BYTES = 64 * 1024
LARGE_FRAME_BYTES = 16 * 1024
FIRST_ALLOCATION_BYTES = 1024 * 1024
_STARVED_READ_BYTES = 4 * 1024
_GROWTH = 4
_SIZE = Struct(">i")
_SIZE_BYTES = _SIZE.size


class FrameReader:
    """Cut the bytes of one connection into frames."""

    __slots__ = (
        "_at",
        "_body",
        "_completed",
        "_end",
        "_filled",
        "_first_bytes",
        "_head",
        "_max_bytes",
        "_memory",
        "_rest_bytes",
        "_room_bytes",
        "_scratch",
        "_size",
        "starved",
    )

    def __init__(self, scratch: memoryview, max_bytes: int, memory: RequestMemory) -> None:
        """`scratch` and `memory` are shared with every other reader; `max_bytes` is the largest frame accepted."""
        self._scratch = scratch
        self._max_bytes = max_bytes
        self._memory = memory
        self._room_bytes = SMALL_READ_BYTES
        self._first_bytes = SMALL_READ_BYTES
        self._head = b""  # one to three bytes of a size whose rest has not arrived
        self._at = self._end = 0  # what has not been given yet of the buffer that is being cut
        self._rest_bytes = 0
        self._body: memoryview | None = None
        self._completed = 0
        self._filled = 0
        self._size = 0
        self.starved = False
        """Whether nothing may be read before `grow` has been called, as `RequestMemory.wait` tells."""

    @property
    def unfinished(self) -> bool:
        """Say whether a frame has come in part."""
        return self._body is not None

    @property
    def progress(self) -> tuple[int, int]:
        """Return how many large frames have come whole, and the bytes that have come of the unfinished one."""
        return self._completed, self._filled

    def buffer(self) -> memoryview:
        """Return where the next read must go; only good for the read that follows at once."""
        if self._body is not None:
            return self._body[self._filled :]
        room_bytes = _STARVED_READ_BYTES if self._memory.full else self._room_bytes
        head = self._head
        if not head:
            return self._scratch[:room_bytes]
        self._scratch[: len(head)] = head
        return self._scratch[len(head) : room_bytes]

    def received(self, count: int) -> Iterable[memoryview]:
        """Give every frame that the `count` bytes just read have completed; exhaust it, or take `rest`, before more.

        A frame may lie in the scratch buffer: it is only valid until the next read of *any* connection.
        Raises `DecodeError` for a size that is negative or above the limit; the connection cannot be read
        any further.
        """
        if self._body is None:
            scratch, end = self._scratch, len(self._head) + count
            if end > _SIZE_BYTES and _SIZE.unpack_from(scratch)[0] == end - _SIZE_BYTES <= self._max_bytes:
                # One request and nothing else: most clients wait for the answer before they send another.
                self._head = b""
                self._at = self._end = 0
                self._room_bytes = SMALL_READ_BYTES if end < LARGE_FRAME_BYTES else SCRATCH_BYTES
                return (scratch[_SIZE_BYTES:end],)
            self._at, self._end = 0, end
            return self._cut(scratch, end)
        self._filled += count
        if self._filled < len(self._body):
            return ()
        if self._filled < self._size:
            if self._memory.full and self._memory.let_through is not self:
                self.starved = True
            else:
                self.grow()
            return ()
        body, self._body = self._body, None
        self._completed += 1
        self._at = self._end = 0
        self._memory.give(len(body))
        if self._size > self._first_bytes:
            self._first_bytes = min(self._size, FIRST_ALLOCATION_BYTES)
        return (body,)

    def rest(self) -> Iterator[memoryview] | None:
        """Give what `received` has not given yet in memory of its own, where frames stay valid; None if that is all."""
        at, end = self._at, self._end
        if at == end:
            return None
        copy = memoryview(bytearray(self._scratch[at:end]))
        self._rest_bytes = len(copy)
        self._memory.take(len(copy))
        return self._cut(copy, len(copy))

    def grow(self) -> None:
        """Make room for more of the frame that has come in part."""
        if self._body is None:
            return
        self.starved = False
        before = len(self._body)
        self._body = self._copy_into(min(self._size, max(self._first_bytes, _GROWTH * self._filled)), self._body)
        self._memory.take(len(self._body) - before)

    def discard(self) -> None:
        """Give back all memory: nothing more will be read."""
        held_bytes = self._rest_bytes + (0 if self._body is None else len(self._body))
        self._body, self._rest_bytes = None, 0
        self._memory.forget(self)
        self._memory.give(held_bytes)

    def _cut(self, source: memoryview, end: int) -> Iterator[memoryview]:
        at = 0
        self._head = b""
        while end - at >= _SIZE_BYTES:
            (size,) = _SIZE.unpack_from(source, at)
            self._room_bytes = SMALL_READ_BYTES if size < LARGE_FRAME_BYTES else SCRATCH_BYTES
            if not 0 <= size <= self._max_bytes:
                text = f"frame of {size} bytes; the limit is {self._max_bytes}"
                raise DecodeError(text + _other_protocol(source[at : at + _SIZE_BYTES]))
            at += _SIZE_BYTES
            if end - at < size:
                self._begin(size, source[at:end])
                break
            frame = source[at : at + size]
            self._at = at = at + size
            yield frame
        else:
            self._head = bytes(source[at:end])
        self._at = end
        if source is not self._scratch:
            rest_bytes, self._rest_bytes = self._rest_bytes, 0
            self._memory.give(rest_bytes)

    def _begin(self, size: int, start: memoryview) -> None:
        """Give a frame that has come in part, as `start`, memory of its own."""
        self._size, self._filled = size, len(start)
        self.starved = self._memory.full
        # Always more than has arrived: an empty buffer for the next read would be an error.
        first_bytes = len(start) if self.starved else max(self._first_bytes, _GROWTH * len(start))
        self._body = self._copy_into(min(size, first_bytes), start)
        self._memory.take(len(self._body))

    def _copy_into(self, capacity_bytes: int, start: memoryview) -> memoryview:
        body = self._memory.buffers.take(capacity_bytes)
        body[: len(start)] = start
        return body


def _other_protocol(start: memoryview) -> str:
    """Return a remark if a connection begins as one of another protocol does."""
    first = bytes(start)
    if first.startswith(b"\x16\x03"):
        return " (this looks like a TLS handshake; does the client have security.protocol=SSL or SASL_SSL?)"
    if first in (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"CONN"):
        return " (this looks like an HTTP request)"
    return ""
