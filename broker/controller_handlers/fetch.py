"""Fetch on a controller's listener: other nodes copy the metadata log (KIP-595).

Voters and brokers alike ask for the only partition of `__cluster_metadata`. What is answered, and when, is the
consensus' to say (`controller.raft`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from broker.broker import Broker
    from broker.network.connection import RequestContext
    from protocol.schema import Message


def handle(broker: Broker, _context: RequestContext, request: FetchRequest) -> Awaitable[Message]:
    """Ask this node of the quorum."""
    return broker.controller.ask(request)
