"""Suspected leaders: brokers whose connections just broke, until the controller has fenced them or they are back.

A client that loses its leader requests metadata from another broker at once. Before the controller has decided, that
broker would return the lost leader, and the client would refresh later: after 1 s with librdkafka. So a response that
would name a suspect waits (`until_resolved`) until the suspect is no longer active, or is connected again, for at most
`timeout_s`; then it is sent with the metadata as it is. This is best effort: a request that arrives before this broker
notices the broken connection is answered at once.
"""

import asyncio
from collections.abc import Set
from contextlib import suppress

from controller.image import MetadataImage


class SuspectedLeaders:
    """The suspects, by node id, and when each suspicion ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        self._loop = loop
        self._timeout_s = timeout_s
        self._until_s: dict[int, float] = {}
        self._changed: asyncio.Future[None] = loop.create_future()

    def lost(self, node_id: int) -> None:
        """Suspect a node for `timeout_s`: its connection broke."""
        self._until_s[node_id] = self._loop.time() + self._timeout_s

    def reached(self, node_id: int) -> None:
        """Drop a suspect: it is connected again."""
        if self._until_s.pop(node_id, None) is not None:
            self._wake_waiting()

    def drop_inactive(self, image: MetadataImage) -> None:
        """Drop the suspects that are not active in `image`: fenced, in controlled shutdown, or unregistered."""
        resolved = [
            node_id for node_id in self._until_s if not (node_id in image.brokers and image.brokers[node_id].active)
        ]
        for node_id in resolved:
            self.reached(node_id)

    @property
    def ids(self) -> Set[int]:
        """Return the current suspects."""
        if self._until_s:
            now_s = self._loop.time()
            self._until_s = {node_id: until_s for node_id, until_s in self._until_s.items() if now_s < until_s}
        return self._until_s.keys()

    async def until_resolved(self, node_ids: Set[int]) -> None:
        """Wait until none of `node_ids` is suspected, or `timeout_s` has passed for all of them."""
        until_s = max((self._until_s[node_id] for node_id in self.ids & node_ids), default=0.0)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                while self.ids & node_ids:
                    await asyncio.shield(self._changed)  # shared with other waiters

    def _wake_waiting(self) -> None:
        changed, self._changed = self._changed, self._loop.create_future()
        changed.set_result(None)
