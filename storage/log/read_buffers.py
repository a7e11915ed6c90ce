"""Large buffers to read into, used again once nobody refers to them.

A new buffer is filled with zeros before anything can be read into it, page by page, which costs as much as the
reading; a buffer that was just sent is warm. What is given out is a view, which the caller may keep for as long
as it likes, for a socket to take it: the buffer is free when the last view is gone, by the interpreter's own count
of references. Only a few are kept, so a crowd of slow readers is served from buffers of their own.
"""

from protocol.references import is_alone

SMALLEST_BYTES = 64 * 1024
BUFFER_BYTES = 512 * 1024
KEPT = 8


class ReadBuffers:
    """The buffers of one disk, for one thread."""

    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        """Return room for `size` bytes, with anything in it."""
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
