"""AlterPartitionReassignments: move partitions to other replicas, or stop moving them (KIP-455).

Behaviour
- The controller decides on each partition by itself (`controller.commands.reassignments`).
- With one broker there is one set of replicas that a partition can have: INVALID_REPLICA_ASSIGNMENT for any other.

Version notes
- 1 and later can forbid that a partition gets more or fewer replicas (KIP-860).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.commands.reassignments import alter_reassignments
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import RequestContext


async def handle(
    broker: Broker, _context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Submit the command and answer when it holds."""
    command = partial(alter_reassignments, request=request, settings=broker.settings)
    return await broker.controller.submit(command, request.timeout_ms)
