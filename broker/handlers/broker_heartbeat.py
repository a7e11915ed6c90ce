"""BrokerHeartbeat: a broker says that it lives, and what it wants (KIP-631, KIP-841).

Behaviour
- It counts from its arrival; what follows from it is answered when it holds.
- The connection that it came through stands for the broker: when it breaks, and no other heartbeat comes within
  `barnabas.broker.disconnect.grace.ms`, the broker is fenced.
- STALE_BROKER_EPOCH to an earlier run of a broker, BROKER_ID_NOT_REGISTERED to one that was forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.commands.controller_result import Decision
from controller.commands.heartbeats import broker_heartbeat
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import RequestContext
    from controller.image import MetadataImage


async def handle(broker: Broker, context: RequestContext, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    """Note it, and submit the command."""
    duties = broker.duties

    def command(image: MetadataImage) -> Decision[BrokerHeartbeatResponse]:
        may_stop = duties.liveness.may_stop(request.broker_id)
        return broker_heartbeat(image, request, broker.settings, may_stop=may_stop)

    duties.heard_from(request.broker_id, request.broker_epoch, request.current_metadata_offset, context.connection)
    return await broker.controller.submit(command)
