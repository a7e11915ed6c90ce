"""AllocateProducerIds: allocate a block of producer ids to a broker (KIP-730)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.commands.producer_ids import allocate_producer_ids
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node


async def handle(
    broker: Node, _context: RequestContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """Submit the command; return the allocated block once its record is committed."""
    block = await broker.controller.submit(
        partial(allocate_producer_ids, broker_id=request.broker_id, broker_epoch=request.broker_epoch)
    )
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))
