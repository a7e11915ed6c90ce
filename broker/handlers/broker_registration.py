"""BrokerRegistration: a broker that starts becomes known to the cluster (KIP-631, KIP-858, KIP-966).

Behaviour
- The answer has the broker's epoch, which every later request of its run has to name.
- DUPLICATE_BROKER_REGISTRATION while another run of the same id is heard; others as `controller.commands.registration`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.commands.registration import register_broker
from protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.connection import RequestContext


async def handle(
    broker: Broker, _context: RequestContext, request: BrokerRegistrationRequest
) -> BrokerRegistrationResponse:
    """Submit the command."""
    return await broker.controller.submit(
        lambda image: register_broker(image, request, broker.settings, alive=broker.duties.alive(request.broker_id))
    )
