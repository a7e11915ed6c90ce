"""Heartbeat: a member of a classic group is alive.

Behaviour
- Renews the session. REBALANCE_IN_PROGRESS tells the member to join again, ILLEGAL_GENERATION and UNKNOWN_MEMBER_ID
  that it missed a rebalance, FENCED_INSTANCE_ID that another process has taken its instance id.
- While the group is being loaded the answer is NONE, as in Kafka: sessions begin when it is.

Version notes
- 3 and later name the member's instance (KIP-345).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import RequestContext


def handle(broker: Broker, _context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Renew a session; this is the call that every consumer makes every few seconds."""
    error = broker.groups.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return HeartbeatResponse(error_code=error)
