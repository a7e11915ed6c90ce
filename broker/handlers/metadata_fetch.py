"""Fetch on a controller's listener: voters and brokers replicate the metadata log (KIP-595).

The only partition served is `__cluster_metadata`-0. `controller.raft` decides the response and when it is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from broker.network.connection import RequestContext
    from broker.node import Node
    from protocol.schema import Message


def handle(broker: Node, _context: RequestContext, request: FetchRequest) -> Awaitable[Message]:
    """Pass the request to this node's Raft driver; return its response."""
    return broker.controller.ask(request)
