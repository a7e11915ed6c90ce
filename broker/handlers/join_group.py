"""JoinGroup: join the next generation of a classic group.

Behaviour
- The response is sent when the generation starts: at once if nothing changes, else when all members have joined or the
  rebalance timeout has passed. The leader's response lists all members. `broker.coordinator.group.join` has the rules.
- INVALID_SESSION_TIMEOUT outside `group.min.session.timeout.ms` and `group.max.session.timeout.ms`.

Version notes
- Below 1 the rebalance timeout is the session timeout.
- In 4 and later a new member first gets its id, with MEMBER_ID_REQUIRED (KIP-394).
- 5 and later allow static members (KIP-345).
- Below 7 a missing protocol name is empty, not null.
- 9 and later can make the leader skip the assignment (KIP-814).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from broker.coordinator.group.context import Join, Joined
from broker.coordinator.runtime.shard_host import then
from protocol.errors import KafkaError
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext

_NEEDS_MEMBER_ID_FROM_VERSION = 4
_NULLABLE_PROTOCOL_FROM_VERSION = 7
_SKIPS_ASSIGNMENT_FROM_VERSION = 9


def handle(
    broker: BrokerServer, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    """Return the member's next generation, or an awaitable of it."""
    version = context.api_version
    join = Join(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        # The format of Java's InetAddress, in responses and records.
        client_host=f"/{context.client_host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if version >= 1 else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols={protocol.name: protocol.metadata for protocol in request.protocols},
        reason=request.reason or "",
        needs_member_id=version >= _NEEDS_MEMBER_ID_FROM_VERSION,
        can_skip_assignment=version >= _SKIPS_ASSIGNMENT_FROM_VERSION,
    )
    try:
        outcome = broker.groups.join(join)
    except KafkaError as error:
        outcome = Joined(error.code, request.member_id)
    return then(outcome, lambda joined: _response(joined, version))


def _response(joined: Joined, version: int) -> JoinGroupResponse:
    protocol = joined.protocol
    if protocol is None and version < _NULLABLE_PROTOCOL_FROM_VERSION:
        protocol = ""
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponse.Member(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in joined.members
        ],
    )
