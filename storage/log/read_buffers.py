"""Large read buffers that are reused once no view of them is left.

A new buffer is zero-filled page by page before a read, which costs as much as the read; a buffer that was just sent is
warm in the CPU cache. `take` returns a view, which the caller may keep as long as it needs, for example until a socket
has sent it: the buffer is free when its last view is gone, by the interpreter's reference count. At most `KEPT` buffers
are kept; with more slow readers than that, each further read allocates its own.
"""

from protocol.references import is_alone

SMALLEST_BYTES = 64 * 1024
BUFFER_BYTES = 512 * 1024
KEPT = 8


class ReadBuffers:
    """The buffers of one disk; for use in one thread."""

    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        """Return a view of `size` bytes with arbitrary content."""
        if not SMALLEST_BYTES <= size <= BUFFER_BYTES:
            return memoryview(bytearray(size))
        buffers = self._buffers
        for number in range(len(buffers)):
            if is_alone(buffers, number):
                return memoryview(buffers[number])[:size]
        buffer = bytearray(BUFFER_BYTES)
        if len(buffers) < KEPT:
            buffers.append(buffer)
        return memoryview(buffer)[:size]
