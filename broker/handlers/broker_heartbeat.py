"""BrokerHeartbeat: a broker renews its session and requests a state change (KIP-631, KIP-841).

Behaviour
- The session is renewed on arrival; the response is sent when the resulting records are committed.
- The controller watches the connection of the last heartbeat: when it breaks, and no other heartbeat arrives within
  `barnabas.broker.disconnect.grace.ms`, the broker is fenced.
- STALE_BROKER_EPOCH for an earlier run of the broker, BROKER_ID_NOT_REGISTERED for one that is not registered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.commands.controller_result import ControllerResult
from controller.commands.heartbeats import broker_heartbeat
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node
    from controller.image import MetadataImage


async def handle(broker: Node, context: RequestContext, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    """Renew the session, then submit the command."""
    controller_tasks = broker.controller_tasks

    def command(image: MetadataImage) -> ControllerResult[BrokerHeartbeatResponse]:
        may_stop = controller_tasks.liveness.may_stop(request.broker_id)
        return broker_heartbeat(image, request, broker.settings, may_stop=may_stop)

    controller_tasks.heard_from(
        request.broker_id, request.broker_epoch, request.current_metadata_offset, context.connection
    )
    return await broker.controller.submit(command)
