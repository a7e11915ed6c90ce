"""Buffers for frames that do not arrive whole, reused when nothing refers to them any more.

A new buffer is filled with zeros page by page, which costs more than receiving into it; a used one is warm. A buffer is
handed out as a view, and views of that may be kept for any time: the buffer is free when the last of them is gone, by
the interpreter's reference counts. Only `KEPT` buffers of 1 MiB are kept; with more frames at a time, and for larger
frames, memory is allocated for each.
"""

from protocol.references import is_alone

SMALLEST_BYTES = 64 * 1024
BUFFER_BYTES = 1024 * 1024
KEPT = 4


class FrameBuffers:
    """The buffers shared by readers of one thread."""

    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, size_bytes: int) -> memoryview:
        """Return a buffer of `size_bytes`; its content is undefined."""
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
