"""Limits the memory of requests that are incomplete or deferred, over all connections (Kafka: `MemoryPool`, KIP-72).

Only frames with a buffer of their own count (`protocol.framing`): a frame that arrives in one read is handled in place.
At the limit, `queued.max.request.bytes`, frames that need more memory wait, and reads are small, so that small requests
are still served. One waiting frame at a time may exceed the limit, whatever its size: otherwise incomplete frames could
wait for each other's memory forever. The server closes connections that hold memory and do not send.
Clients that have not authenticated share a memory of their own.
"""

import sys
from collections.abc import Callable
from typing import Protocol

from protocol.buffer_pool import BufferPool

UNLIMITED = sys.maxsize


class MemoryUser(Protocol):
    """A reader of one connection (`protocol.framing.FrameReader`)."""

    @property
    def unfinished(self) -> bool:
        """Return whether a frame has been received in part."""


class RequestMemory:
    """The memory shared by all readers of a broker."""

    __slots__ = ("_limit_bytes", "_waiting", "buffers", "full", "let_through", "used_bytes")

    def __init__(self, limit_bytes: int = UNLIMITED, buffers: BufferPool | None = None) -> None:
        self._limit_bytes = limit_bytes
        self.buffers = buffers or BufferPool(1 << 20, kept=4)
        """Where readers allocate it."""
        self.used_bytes = 0
        self.full = False
        """Whether only the reader that is let through may allocate more."""
        self.let_through: MemoryUser | None = None
        self._waiting: dict[MemoryUser, Callable[[], None]] = {}

    def take(self, size_bytes: int) -> None:
        """Add `size_bytes` to the memory in use."""
        self.used_bytes += size_bytes
        self.full = self.used_bytes >= self._limit_bytes

    def give(self, size_bytes: int) -> None:
        """Subtract `size_bytes` from the memory in use, and call waiting readers in order of arrival."""
        self.used_bytes -= size_bytes
        self.full = self.used_bytes >= self._limit_bytes
        if self.let_through is not None and not self.let_through.unfinished:
            self.let_through = None
        if self._waiting:
            self._serve()

    def wait(self, reader: MemoryUser, on_room: Callable[[], None]) -> None:
        """Call `on_room` once when `reader` may allocate more; possibly at once."""
        self._waiting[reader] = on_room
        self._serve()

    def forget(self, reader: MemoryUser) -> None:
        """Remove `reader`: its connection is closed, or it uses another memory."""
        self._waiting.pop(reader, None)
        if self.let_through is reader:
            self.let_through = None

    def _serve(self) -> None:
        while self._waiting and (not self.full or self.let_through is None):
            reader = next(iter(self._waiting))
            on_room = self._waiting.pop(reader)
            if self.full:
                self.let_through = reader
            on_room()
