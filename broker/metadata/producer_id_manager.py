"""Ids for idempotent producers, handed out from blocks that the controller allocates.

No id is ever handed out twice in a cluster: a block belongs to one broker, and what is left of it at a
restart is lost. The controller's side, which block comes next, is a command of `controller.commands`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from broker.broker import Broker


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


async def allocate_block(broker: Broker) -> range:
    """Return a block of ids that is this broker's from now on; KafkaError if the controller gives none."""
    from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest

    request = AllocateProducerIdsRequest(broker_id=broker.node_id, broker_epoch=broker.broker_epoch)
    block = await broker.to_controller.call(request, broker.settings["request.timeout.ms"] / 1000)
    if block.error_code:
        raise KafkaError(ErrorCode(block.error_code), "The controller gives out no producer ids.")
    return range(block.producer_id_start, block.producer_id_start + block.producer_id_len)
