"""Heartbeat: renew the session of a member of a classic group.

Behaviour
- REBALANCE_IN_PROGRESS: the member must rejoin. ILLEGAL_GENERATION and UNKNOWN_MEMBER_ID: it missed a rebalance.
  FENCED_INSTANCE_ID: another process has its instance id.
- NONE while the group is being loaded, as in Kafka: sessions start when it is.

Version notes
- 3 and later have the member's instance id (KIP-345).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext


def handle(broker: BrokerServer, _context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Renew the session; hot path: every consumer sends this every few seconds."""
    error = broker.groups.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return HeartbeatResponse(error_code=error)
