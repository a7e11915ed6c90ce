"""BrokerRegistration, BrokerHeartbeat, UnregisterBroker: a broker's session with the controller (KIP-631).

Behaviour
- A registration's response has the broker epoch, which every later request of this run of the broker carries.
  DUPLICATE_BROKER_REGISTRATION while the session of another run with the same id is alive (KIP-858, KIP-966).
- A heartbeat renews the session on arrival; the response is sent when the resulting records are committed (KIP-841).
- The controller watches the connection of the last heartbeat: when it breaks, and no other heartbeat arrives within
  `barnabas.broker.disconnect.grace.ms`, the broker is fenced.
- STALE_BROKER_EPOCH in a heartbeat of an earlier run of a broker, or of one that is not registered.
- BROKER_ID_NOT_REGISTERED for the unregistration of one that is not registered.
- As in Kafka, a running broker can be unregistered: it leads no partition until it is restarted.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from controller.commands.brokers import unregister_broker
from controller.commands.heartbeats import broker_heartbeat
from controller.commands.registration import register_broker
from controller.records import endpoints_of
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from broker.controller_server import ControllerServer
    from broker.network.connection import RequestContext
    from controller.commands.controller_result import ControllerResult
    from controller.image import MetadataImage
    from protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

_log = logging.getLogger("broker.controller")


async def register(
    controller: ControllerServer, _context: RequestContext, request: BrokerRegistrationRequest
) -> BrokerRegistrationResponse:
    """Probe the earlier registration that this one may replace, then submit the command."""
    endpoints = endpoints_of(request.listeners)
    controller.tasks.registration_attempted(request.broker_id, request.incarnation_id, endpoints)
    return await controller.raft.submit(
        lambda image: register_broker(image, request, controller.settings, alive=controller.tasks.alive())
    )


async def heartbeat(
    controller: ControllerServer, context: RequestContext, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse:
    """Renew the session, then submit the command."""
    tasks = controller.tasks

    def command(image: MetadataImage) -> ControllerResult[BrokerHeartbeatResponse]:
        may_stop = tasks.heartbeat_manager.may_stop(request.broker_id)
        return broker_heartbeat(image, request, controller.settings, may_stop=may_stop)

    tasks.heartbeat_received(
        request.broker_id, request.broker_epoch, request.current_metadata_offset, context.connection
    )
    return await controller.raft.submit(command)


async def unregister(
    controller: ControllerServer, _context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Submit the command; return its response once its records are committed."""
    from protocol.messages.unregister_broker import UnregisterBrokerResponse  # not needed at the start

    await controller.raft.submit(partial(unregister_broker, broker_id=request.broker_id, settings=controller.settings))
    _log.warning("Broker %d unregistered: it leads no partition until it is restarted", request.broker_id)
    return UnregisterBrokerResponse(error_message=None)
