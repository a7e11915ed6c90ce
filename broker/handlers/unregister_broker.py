"""UnregisterBroker: remove the registration of a broker that will not come back (KIP-631).

Behaviour
- BROKER_ID_NOT_REGISTERED for a broker that is not registered.
- As in Kafka, a running broker can be unregistered: it leads no partition until it is restarted.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from controller.commands.brokers import unregister_broker
from protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node

_log = logging.getLogger("broker.controller")


async def handle(broker: Node, _context: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Submit the command; return its response once its records are committed."""
    await broker.controller.submit(partial(unregister_broker, broker_id=request.broker_id, settings=broker.settings))
    _log.warning("Broker %d unregistered: it leads no partition until it is restarted", request.broker_id)
    return UnregisterBrokerResponse(error_message=None)
