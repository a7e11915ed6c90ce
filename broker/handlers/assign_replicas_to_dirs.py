"""AssignReplicasToDirs: a broker reports the log directories of its replicas (KIP-858)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.commands.assign_replicas_to_dirs import assign_replicas_to_dirs
from protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node


async def handle(
    broker: Node, _context: RequestContext, request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    """Submit the command; return its response once its records are committed."""
    return await broker.controller.submit(partial(assign_replicas_to_dirs, request=request, settings=broker.settings))
