"""ElectLeaders: give partitions their preferred leader, or any at all (KIP-460).

Behaviour
- The controller elects (`controller.commands.elect_leaders`); the answer comes when the elected can be produced to.
- A partition that needs no election is ELECTION_NOT_NEEDED, or left out where all partitions were asked for.

Version notes
- 0 always elects the preferred leader.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.commands.elect_leaders import elect_leaders
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import RequestContext


async def handle(broker: Broker, _context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Submit the command and answer when it holds."""
    command = partial(elect_leaders, request=request, settings=broker.settings)
    return await broker.controller.submit(command, request.timeout_ms)
