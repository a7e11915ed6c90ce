"""UnregisterBroker: the cluster forgets a broker that will not come back (KIP-631).

Behaviour
- A broker that is not registered is BROKER_ID_NOT_REGISTERED.
- As in Kafka, nobody keeps a running broker from being unregistered: it leads nothing until it is started again.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from controller.commands.brokers import unregister_broker
from protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import RequestContext

_log = logging.getLogger("broker.controller")


async def handle(
    broker: Broker, _context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Submit the command and answer when it holds."""
    await broker.controller.submit(partial(unregister_broker, broker_id=request.broker_id, settings=broker.settings))
    _log.warning("Broker %d was unregistered: it leads nothing until it is started again", request.broker_id)
    return UnregisterBrokerResponse(error_message=None)
