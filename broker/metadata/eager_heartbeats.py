"""Eager heartbeats: sent as soon as certain metadata is applied, because other nodes wait for this broker to apply it.

    new topics or partitions              CreateTopics is answered when every broker can serve them
    another broker's controlled shutdown  it may stop when every broker has applied its leadership moves (KIP-841)

Anything else that is applied is reported with the next regular heartbeat.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from controller.image import MetadataImage
from protocol.errors import InvariantError
from protocol.records.metadata import BrokerRegistrationChangeRecord, PartitionRecord

_SHUTTING_DOWN = 1


class EagerHeartbeats:
    """Watches the metadata, and triggers the heartbeats of one broker."""

    def __init__(
        self,
        broker_id: int,
        loop: asyncio.AbstractEventLoop,
        *,
        until_applied: Callable[[int], Awaitable[None]],
        send_now: Callable[[], None],
    ) -> None:
        """`send_now` triggers a heartbeat, which carries the offset applied by then."""
        self._broker_id = broker_id
        self._loop = loop
        self._until_applied = until_applied
        self._send_now = send_now
        self._offset = -1
        self._task: asyncio.Task[None] | None = None

    def apply(self, _before: MetadataImage, image: MetadataImage, records: Iterable[object]) -> None:
        """Trigger a heartbeat if `records` are awaited, once all subscribers have applied them."""
        if any(map(self._is_awaited, records)):
            self._offset = image.offset
            if self._task is None:
                self._task = self._loop.create_task(self._send_when_applied())

    def stop(self) -> None:
        """Stop triggering heartbeats."""
        if self._task is not None:
            self._task.cancel()

    def _is_awaited(self, record: object) -> bool:
        if isinstance(record, BrokerRegistrationChangeRecord):
            return record.in_controlled_shutdown == _SHUTTING_DOWN and record.broker_id != self._broker_id
        return isinstance(record, PartitionRecord)

    async def _send_when_applied(self) -> None:
        sent_offset = -1
        while sent_offset < self._offset:
            sent_offset = self._offset
            try:
                await self._until_applied(sent_offset)
            except InvariantError:
                return  # already passed to the loop's exception handler
            self._send_now()
        self._task = None
