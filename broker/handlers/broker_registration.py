"""BrokerRegistration: a broker that starts becomes known to the cluster (KIP-631, KIP-858, KIP-966).

Behaviour
- The answer has the broker's epoch, which every later request of its run has to name.
- DUPLICATE_BROKER_REGISTRATION while another run of the same id is heard; others as `controller.commands.registration`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.commands.registration import register_broker
from controller.records import endpoints_of
from protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import RequestContext


async def handle(
    broker: Broker, _context: RequestContext, request: BrokerRegistrationRequest
) -> BrokerRegistrationResponse:
    """Submit the command, and have the registration before looked at that this one may replace."""
    broker.duties.claimed(request.broker_id, endpoints_of(request.listeners))
    return await broker.controller.submit(
        lambda image: register_broker(image, request, broker.settings, alive=broker.duties.alive())
    )
