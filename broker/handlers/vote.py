"""Vote: a node asks for a vote, or whether it would get one (KIP-595, KIP-996).

Only controllers ask and are asked. What is answered is the consensus' to say (`controller.raft`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.messages.vote import VoteRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from broker.broker import Broker
    from broker.network.connection import RequestContext
    from protocol.schema import Message


def handle(broker: Broker, _context: RequestContext, request: VoteRequest) -> Awaitable[Message]:
    """Ask this node of the quorum."""
    return broker.controller.ask(request)
