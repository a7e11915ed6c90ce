"""AlterPartitionReassignments: start or cancel the reassignment of partitions to other replicas (KIP-455).

Behaviour
- The controller decides each partition independently (`controller.commands.reassignments`).
- With one broker only one replica set exists: any other is INVALID_REPLICA_ASSIGNMENT.

Version notes
- 1 and later can forbid a change of the replication factor (KIP-860).
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
    from broker.network.connection import RequestContext
    from broker.node import Node


async def handle(
    broker: Node, _context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Submit the command; return its response once its records are committed."""
    command = partial(alter_reassignments, request=request, settings=broker.settings)
    return await broker.controller.submit(command, request.timeout_ms)
