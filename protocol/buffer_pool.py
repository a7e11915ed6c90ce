"""Large buffers that are reused once no view of them is left: for frames that arrive in parts, and for disk reads.

A new buffer is filled with zeros page by page, which costs more than reading into it; a used one is warm in the CPU
cache. `take` returns a view, and views of that may be kept for any time, for example until a socket has sent them: a
buffer is free when its last view is gone, by CPython's reference counts. Those are exact only with the GIL: a
free-threaded build counts the references of other threads separately, and other interpreters have no counts. There
`EXACT` is false, and no buffer is reused.
"""

import sys
from collections.abc import Callable, Sequence

SMALLEST_BYTES = 64 * 1024
"""Below this size, a new buffer is cheaper."""

EXACT = sys.implementation.name == "cpython" and "t" not in sys.abiflags

_count: Callable[[object], int] = getattr(sys, "getrefcount", lambda _: 0)


class BufferPool:
    """At most `kept` buffers of `buffer_bytes`, for one thread. Larger and further buffers are allocated each time."""

    __slots__ = ("_buffer_bytes", "_buffers", "_kept")

    def __init__(self, buffer_bytes: int, kept: int) -> None:
        self._buffer_bytes = buffer_bytes
        self._kept = kept
        self._buffers: list[bytearray] = []

    def take(self, size_bytes: int) -> memoryview:
        """Return a view of `size_bytes` with arbitrary content."""
        if not SMALLEST_BYTES <= size_bytes <= self._buffer_bytes:
            return memoryview(bytearray(size_bytes))
        buffers = self._buffers
        for number in range(len(buffers)):
            if is_alone(buffers, number):
                return memoryview(buffers[number])[:size_bytes]
        if len(buffers) == self._kept:
            return memoryview(bytearray(size_bytes))
        buffers.append(bytearray(self._buffer_bytes))
        return memoryview(buffers[-1])[:size_bytes]


def is_alone(objects: Sequence[object], number: int) -> bool:
    """Return whether the list holds the only reference to its object at `number`."""
    return EXACT and _references(objects, number) == _ALONE


def _references(objects: Sequence[object], number: int) -> int:
    return _count(objects[number])


_ALONE = _references([bytearray()], 0)  # the count of a single reference depends on the Python version
