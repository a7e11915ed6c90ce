"""The brokers whose connections broke just now, until it is known what became of them.

A client that loses its leader asks another broker at once who leads, and would be told of the one that it lost: the
controller has not decided yet. It would then wait for its next look, a second with librdkafka. So an answer that would
name a suspect waits (`settled`) until it is active no more and others lead, or is reached again; `patience_s` at most,
after which it is answered as things stand. That is no promise: who asks before this broker has noticed is told what
it knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Set
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.image import MetadataImage


class Suspects:
    """Node ids, each with when its connection was lost."""

    def __init__(self, loop: asyncio.AbstractEventLoop, patience_s: float) -> None:
        self._loop = loop
        self._patience_s = patience_s
        self._until_s: dict[int, float] = {}
        self._changed: asyncio.Future[None] = loop.create_future()

    def lost(self, node_id: int) -> None:
        """Suspect a node."""
        self._until_s[node_id] = self._loop.time() + self._patience_s

    def reached(self, node_id: int) -> None:
        """Suspect it no more."""
        if self._until_s.pop(node_id, None) is not None:
            self._tell()

    def follow(self, image: MetadataImage) -> None:
        """Suspect nobody of whom the controller has decided what he is."""
        known = [
            node_id for node_id in self._until_s if not (node_id in image.brokers and image.brokers[node_id].active)
        ]
        for node_id in known:
            self.reached(node_id)

    @property
    def ids(self) -> Set[int]:
        """Return who is suspected now."""
        if self._until_s:
            now_s = self._loop.time()
            self._until_s = {node_id: until_s for node_id, until_s in self._until_s.items() if now_s < until_s}
        return self._until_s.keys()

    async def settled(self, node_ids: Set[int]) -> None:
        """Wait until none of these is suspected, or the patience with them is over."""
        until_s = max((self._until_s[node_id] for node_id in self.ids & node_ids), default=0.0)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                while self.ids & node_ids:
                    await asyncio.shield(self._changed)  # which others wait for too

    def _tell(self) -> None:
        changed, self._changed = self._changed, self._loop.create_future()
        changed.set_result(None)
