"""BeginQuorumEpoch: a leader says that it was elected (KIP-595).

Only controllers ask and are asked. What is answered is the consensus' to say (`controller.raft`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from broker.broker import Broker
    from broker.network.connection import RequestContext
    from protocol.schema import Message


def handle(broker: Broker, _context: RequestContext, request: BeginQuorumEpochRequest) -> Awaitable[Message]:
    """Ask this node of the quorum."""
    return broker.controller.ask(request)
