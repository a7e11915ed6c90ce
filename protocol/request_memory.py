"""How many bytes requests take that have not come whole, or cannot be handled yet: over all connections, and bounded.

Only memory of a frame's own counts (`protocol.framing`): whatever comes whole in one read is handled where it lies. At
the limit, `queued.max.request.bytes`, frames that would need more than they have must wait, and reads are small, so
that small requests go on. One frame is always let through, however large: requests that wait for it, or for one
another, would otherwise wait for ever. Those that hold memory and do not send are for the owner of the connections
to close.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol

from protocol.frame_buffers import FrameBuffers

UNLIMITED = sys.maxsize


class MemoryUser(Protocol):
    """A reader of one connection (`protocol.framing.FrameReader`)."""

    @property
    def unfinished(self) -> bool:
        """Return whether a frame has been received in part."""
        ...


class RequestMemory:
    """The account that all readers of a broker share."""

    __slots__ = ("_limit_bytes", "_waiting", "buffers", "full", "let_through", "used_bytes")

    def __init__(self, limit_bytes: int = UNLIMITED) -> None:
        self._limit_bytes = limit_bytes
        self.buffers = FrameBuffers()
        """Where the readers take it from."""
        self.used_bytes = 0
        self.full = False
        """Whether nobody may take more, save the one that is let through."""
        self.let_through: MemoryUser | None = None
        self._waiting: dict[MemoryUser, Callable[[], None]] = {}

    def take(self, size_bytes: int) -> None:
        """Note that so much more is used."""
        self.used_bytes += size_bytes
        self.full = self.used_bytes >= self._limit_bytes

    def give(self, size_bytes: int) -> None:
        """Note that so much is free again, and let those go on that have waited longest."""
        self.used_bytes -= size_bytes
        self.full = self.used_bytes >= self._limit_bytes
        if self.let_through is not None and not self.let_through.unfinished:
            self.let_through = None
        if self._waiting:
            self._serve()

    def wait(self, reader: MemoryUser, on_room: Callable[[], None]) -> None:
        """Have `on_room` called, once, when `reader` may take more: perhaps at once."""
        self._waiting[reader] = on_room
        self._serve()

    def forget(self, reader: MemoryUser) -> None:
        """Let `reader` wait no more: its connection is gone."""
        self._waiting.pop(reader, None)

    def _serve(self) -> None:
        while self._waiting and (not self.full or self.let_through is None):
            reader = next(iter(self._waiting))
            on_room = self._waiting.pop(reader)
            if self.full:
                self.let_through = reader
            on_room()
