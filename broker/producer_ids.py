"""Ids for idempotent producers, handed out from blocks that the controller allocates.

No id is ever handed out twice in a cluster: a block belongs to one broker, and what is left of it at a
restart is lost. The controller's side, which block comes next, is a command of `controller.commands`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class ProducerIds:
    """The ids that this broker may hand out."""

    __slots__ = ("_allocate", "_free", "_lock")

    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        """Take whole blocks from `allocate`, which raises KafkaError if the controller gives none."""
        self._allocate = allocate
        self._free = iter(range(0))
        self._lock = asyncio.Lock()

    def take(self) -> int | None:
        """Return an id that nobody has; None if there is none without asking the controller."""
        return next(self._free, None)

    async def next(self) -> int:
        """Return an id that nobody has; those who wait for a block at the same time share it."""
        async with self._lock:
            while (producer_id := self.take()) is None:
                self._free = iter(await self._allocate())
            return producer_id
