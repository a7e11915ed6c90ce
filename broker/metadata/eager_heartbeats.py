"""What this broker says at once when it has applied it, as others wait to hear of that.

    topics or partitions are new          who creates them is answered when every broker can serve them
    another broker begins to shut down    it may stop when every broker knows that its leaderships moved (KIP-841)

Whatever else is applied, the controller hears of with the next heartbeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from controller.image import MetadataImage
from protocol.errors import InvariantError
from protocol.records.metadata import BrokerRegistrationChangeRecord, PartitionRecord

_SHUTTING_DOWN = 1


class PromptHeartbeats:
    """Follows the metadata, and hurries the heartbeats of one broker."""

    def __init__(
        self,
        broker_id: int,
        loop: asyncio.AbstractEventLoop,
        *,
        until_applied: Callable[[int], Awaitable[None]],
        hurry: Callable[[], None],
    ) -> None:
        """`hurry` has a heartbeat sent, which says what is applied by then."""
        self._broker_id = broker_id
        self._loop = loop
        self._until_applied = until_applied
        self._hurry = hurry
        self._offset = -1
        self._telling: asyncio.Task[None] | None = None

    def apply(self, _before: MetadataImage, image: MetadataImage, records: Iterable[object]) -> None:
        """Take note of a change, which is applied when all who follow the metadata have done their part."""
        if any(map(self._is_awaited, records)):
            self._offset = image.offset
            if self._telling is None:
                self._telling = self._loop.create_task(self._tell())

    def stop(self) -> None:
        """Hurry nobody any more."""
        if self._telling is not None:
            self._telling.cancel()

    def _is_awaited(self, record: object) -> bool:
        if isinstance(record, BrokerRegistrationChangeRecord):
            return record.in_controlled_shutdown == _SHUTTING_DOWN and record.broker_id != self._broker_id
        return isinstance(record, PartitionRecord)

    async def _tell(self) -> None:
        told = -1
        while told < self._offset:
            told = self._offset
            try:
                await self._until_applied(told)
            except InvariantError:
                return  # the loop's exception handler knows
            self._hurry()
        self._telling = None
