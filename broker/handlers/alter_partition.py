"""AlterPartition: a leader changes the ISR of its partitions (KIP-497, KIP-903).

Behaviour
- Each partition is decided independently; the response has its resulting state.
- STALE_BROKER_EPOCH for a request of an earlier run of the broker; other errors are those of
  `controller.commands.alter_partition`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.commands.alter_partition import alter_partition
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node


async def handle(broker: Node, _context: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Submit the command; return its response once its records are committed."""
    return await broker.controller.submit(partial(alter_partition, request=request, settings=broker.settings))
