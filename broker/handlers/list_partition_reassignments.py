"""ListPartitionReassignments: list the partitions that are being reassigned (KIP-455).

Behaviour
- Partitions that are not being reassigned, or do not exist, are omitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.commands.reassignments import list_reassignments
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node


def handle(
    broker: Node, _context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the reassignments in the metadata image."""
    return list_reassignments(broker.image, request)
