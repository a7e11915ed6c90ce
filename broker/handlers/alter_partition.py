"""AlterPartition: leaders change the ISRs of what they lead (KIP-497, KIP-903).

Behaviour
- Each partition is decided by itself; the answer says how each is afterwards.
- STALE_BROKER_EPOCH to an earlier run of a broker; others as `controller.commands.alter_partition`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.commands.alter_partition import alter_partition
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import RequestContext


async def handle(broker: Broker, _context: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Submit the command."""
    return await broker.controller.submit(partial(alter_partition, request=request, settings=broker.settings))
