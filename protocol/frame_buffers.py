"""Memory for frames that do not arrive whole, used again once nobody refers to it.

A new buffer is filled with zeros before anything can be received into it, page by page, which costs more than
receiving; one that held the frame before is warm. What is given out is a view, of which views may be kept for as long
as anybody likes: a buffer is free when the last of them is gone, by the interpreter's own count of references. Only a
few are kept, so a crowd of frames, and those that are large, get memory of their own.
"""

from protocol.references import is_alone

SMALLEST_BYTES = 64 * 1024
BUFFER_BYTES = 1024 * 1024
KEPT = 4


class FrameBuffers:
    """The buffers that some readers share, all of one thread."""

    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, size_bytes: int) -> memoryview:
        """Return room for so many bytes, with anything in it."""
        if not SMALLEST_BYTES <= size_bytes <= BUFFER_BYTES:
            return memoryview(bytearray(size_bytes))
        buffers = self._buffers
        for number in range(len(buffers)):
            if is_alone(buffers, number):
                return memoryview(buffers[number])[:size_bytes]
        if len(buffers) == KEPT:
            return memoryview(bytearray(size_bytes))
        buffers.append(bytearray(BUFFER_BYTES))
        return memoryview(buffers[-1])[:size_bytes]
