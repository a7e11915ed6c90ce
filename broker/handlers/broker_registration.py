"""BrokerRegistration: register a broker that starts (KIP-631, KIP-858, KIP-966).

Behaviour
- The response has the broker's epoch, which every later request of this run carries.
- DUPLICATE_BROKER_REGISTRATION while the session of another run with the same id is alive; other errors are those of
  `controller.commands.registration`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.commands.registration import register_broker
from controller.records import endpoints_of
from protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node


async def handle(
    broker: Node, _context: RequestContext, request: BrokerRegistrationRequest
) -> BrokerRegistrationResponse:
    """Probe the earlier registration that this one may replace, then submit the command."""
    broker.controller_tasks.claimed(request.broker_id, endpoints_of(request.listeners))
    return await broker.controller.submit(
        lambda image: register_broker(image, request, broker.settings, alive=broker.controller_tasks.alive())
    )
