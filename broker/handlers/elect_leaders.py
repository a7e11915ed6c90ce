"""ElectLeaders: elect the preferred leader of partitions, or an unclean one (KIP-460).

Behaviour
- The controller elects (`controller.commands.elect_leaders`); the response is sent once the elections are committed.
- A partition that needs no election is ELECTION_NOT_NEEDED, or omitted if all partitions were requested.

Version notes
- 0 always elects the preferred leader.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.commands.elect_leaders import elect_leaders
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node


async def handle(broker: Node, _context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Submit the command; return its response once its records are committed."""
    command = partial(elect_leaders, request=request, settings=broker.settings)
    return await broker.controller.submit(command, request.timeout_ms)
