"""Cuts the bytes of one connection into frames: a signed 32-bit big-endian size, then that many bytes.

All readers of a broker receive into one shared *scratch* buffer, so that an idle connection takes almost no memory. A
connection uses the first 64 KiB of it, and the whole buffer (1 MiB) only while its frames are large: one read must not
bring more small requests than can be handled before other connections get their turn.

A frame that has not arrived completely gets a buffer of its own (`protocol.buffer_pool`). It is never resized, since
views of it may be alive: it is replaced by larger ones as the bytes arrive. The size that a client sends is not
trusted: four bytes must not make the broker allocate 100 MB, nor thousands of connections 1 MB each. The first buffer
has four times the bytes that have arrived, but at least `SMALL_READ_BYTES` or the size of the connection's largest
frame so far, up to `FIRST_ALLOCATION_BYTES`; it is never larger than the frame. This memory is counted in one
`RequestMemory`. While that is full, a reader allocates only for the bytes that have arrived, and is `starved`.

Frames that cannot be handled at once are kept in one copy, made by `rest()`: one copy per tiny frame would take many
times their size.

The calls are those of `asyncio.BufferedProtocol`: `buffer()` directly before each read, `received(n)` directly after
it. The module does no I/O; `protocol.headers` decodes what the frames contain.
"""

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
    """Cuts the bytes of one connection into frames."""

    __slots__ = (
        "_at", "_body", "_completed", "_end", "_filled", "_first_bytes", "_head", "_max_bytes", "_memory",
        "_rest_bytes", "_room_bytes", "_scratch", "_size", "starved",
    )  # fmt: skip

    def __init__(self, scratch: memoryview, max_bytes: int, memory: RequestMemory) -> None:
        """`scratch` and `memory` are shared by all readers; a frame of more than `max_bytes` is refused."""
        self._scratch = scratch
        self._max_bytes = max_bytes
        self._memory = memory
        self._room_bytes = SMALL_READ_BYTES
        self._first_bytes = SMALL_READ_BYTES
        self._head = b""  # 0 to 3 bytes of an incomplete size
        self._at = self._end = 0  # the unread range of the buffer that is being cut
        self._rest_bytes = 0
        self._body: memoryview | None = None
        self._completed = 0
        self._filled = 0
        self._size = 0
        self.starved = False
        """Whether the connection must not be read until `grow` is called; `RequestMemory.wait` schedules that."""

    def limit(self, max_bytes: int) -> None:
        """Refuse frames of more than `max_bytes` from now on."""
        self._max_bytes = max_bytes

    @property
    def memory(self) -> RequestMemory:
        """Return what the memory of this reader is counted in."""
        return self._memory

    def use(self, memory: RequestMemory) -> None:
        """Count in another memory from now on, also what is held now; the caller waits there if it is `starved`."""
        if memory is not self._memory:
            held_bytes = self._held_bytes
            self._memory.forget(self)
            self._memory.give(held_bytes)
            self._memory = memory
            memory.take(held_bytes)

    @property
    def unfinished(self) -> bool:
        """Return whether a frame has been received in part."""
        return self._body is not None

    @property
    def progress(self) -> tuple[int, int]:
        """Return (frames completed in buffers of their own, bytes received of the current one)."""
        return self._completed, self._filled

    def buffer(self) -> memoryview:
        """Return the memory for the next read; valid for that read only."""
        if self._body is not None:
            return self._body[self._filled :]
        room_bytes = _STARVED_READ_BYTES if self._memory.full else self._room_bytes
        head = self._head
        if not head:
            return self._scratch[:room_bytes]
        self._scratch[: len(head)] = head
        return self._scratch[len(head) : room_bytes]

    def received(self, count: int) -> Iterable[memoryview]:
        """Return the frames that the `count` bytes just read completed.

        The caller must exhaust the result, or call `rest`, before the next read. A frame may lie in the scratch buffer:
        it is valid until the next read of *any* connection. DecodeError for a size that is negative or above the limit;
        the connection cannot be read any further.
        """
        if self._body is None:
            scratch, end = self._scratch, len(self._head) + count
            if end > _SIZE_BYTES and _SIZE.unpack_from(scratch)[0] == end - _SIZE_BYTES <= self._max_bytes:
                # The common case is exactly one request: most clients wait for its response before they send the next.
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
        """Return the frames that `received` has not yielded yet, copied to stay valid; None if there are none."""
        at, end = self._at, self._end
        if at == end:
            return None
        copy = memoryview(bytearray(self._scratch[at:end]))
        self._rest_bytes = len(copy)
        self._memory.take(len(copy))
        return self._cut(copy, len(copy))

    def grow(self) -> None:
        """Replace the buffer of the incomplete frame by a larger one."""
        if self._body is None:
            return
        self.starved = False
        before = len(self._body)
        self._body = self._copy_into(min(self._size, max(self._first_bytes, _GROWTH * self._filled)), self._body)
        self._memory.take(len(self._body) - before)

    def discard(self) -> None:
        """Release all memory; the connection is not read any more."""
        held_bytes = self._held_bytes
        self._body, self._rest_bytes = None, 0
        self._memory.forget(self)
        self._memory.give(held_bytes)

    @property
    def _held_bytes(self) -> int:
        return self._rest_bytes + (0 if self._body is None else len(self._body))

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
        """Allocate a buffer for an incomplete frame, whose first bytes are `start`."""
        self._size, self._filled = size, len(start)
        self.starved = self._memory.full
        # Larger than `start`, so that the next read has room; a starved reader is not read before `grow`.
        first_bytes = len(start) if self.starved else max(self._first_bytes, _GROWTH * len(start))
        self._body = self._copy_into(min(size, first_bytes), start)
        self._memory.take(len(self._body))

    def _copy_into(self, capacity_bytes: int, start: memoryview) -> memoryview:
        body = self._memory.buffers.take(capacity_bytes)
        body[: len(start)] = start
        return body


def _other_protocol(start: memoryview) -> str:
    """Return a remark if the first 4 bytes look like TLS or HTTP, else ""."""
    first = bytes(start)
    if first.startswith(b"\x16\x03"):
        return " (this looks like a TLS handshake; does the client have security.protocol=SSL or SASL_SSL?)"
    if first in (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"CONN"):
        return " (this looks like an HTTP request)"
    return ""
