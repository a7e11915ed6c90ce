"""Vote: a candidate requests a vote or a pre-vote (KIP-595, KIP-996).

Sent and handled by controllers only. `controller.raft` makes the response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.messages.vote import VoteRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from broker.network.connection import RequestContext
    from broker.node import Node
    from protocol.schema import Message


def handle(broker: Node, _context: RequestContext, request: VoteRequest) -> Awaitable[Message]:
    """Pass the request to this node's Raft driver; return its response."""
    return broker.controller.ask(request)
