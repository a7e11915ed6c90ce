"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: membership in a classic group (`broker.coordinator.group`).

Behaviour
- JoinGroup is answered when the next generation starts: at once if nothing changes, else when all members have joined
  or the rebalance timeout has passed. The leader's response lists all members. INVALID_SESSION_TIMEOUT outside
  `group.min.session.timeout.ms` and `group.max.session.timeout.ms`.
- SyncGroup is answered with the member's assignment when the leader's request, which has everyone's, is stored;
  REBALANCE_IN_PROGRESS if another rebalance starts first.
- Heartbeat: REBALANCE_IN_PROGRESS if the member must rejoin; ILLEGAL_GENERATION and UNKNOWN_MEMBER_ID if it missed a
  rebalance; FENCED_INSTANCE_ID if another process has its instance id. NONE while the group is being loaded, as in
  Kafka: sessions start when it is.
- LeaveGroup has a result for each member. An administrator removes a static member by its instance id alone.

Version notes
- JoinGroup: below 1 the rebalance timeout is the session timeout; in 4 and later a new member first gets its id, with
  MEMBER_ID_REQUIRED (KIP-394); 5 and later allow static members (KIP-345); below 7 a missing protocol name is empty,
  not null; 9 and later can make the leader skip the assignment (KIP-814).
- SyncGroup: 3 and later have the instance id; 5 and later must have the group's protocol type and name:
  INCONSISTENT_GROUP_PROTOCOL (KIP-559).
- Heartbeat: 3 and later have the instance id.
- LeaveGroup: below 3 there is one member, and its error is the response's; 5 and later have a reason (KIP-800).
"""

from collections.abc import Awaitable

from broker.broker_server import BrokerServer
from broker.coordinator.group.context import Join, Joined, Leaving, Left, Sync, Synced
from broker.coordinator.runtime.shard_host import then
from broker.network.connection import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_JOIN_NEEDS_MEMBER_ID_FROM_VERSION = 4
_JOIN_NULLABLE_PROTOCOL_FROM_VERSION = 7
_JOIN_SKIPS_ASSIGNMENT_FROM_VERSION = 9
_SYNC_NAMES_PROTOCOL_FROM_VERSION = 5
_LEAVE_SEVERAL_FROM_VERSION = 3


def join_group(
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
        needs_member_id=version >= _JOIN_NEEDS_MEMBER_ID_FROM_VERSION,
        can_skip_assignment=version >= _JOIN_SKIPS_ASSIGNMENT_FROM_VERSION,
    )
    try:
        outcome = broker.groups.join(join)
    except KafkaError as error:
        outcome = Joined(error.code, request.member_id)
    return then(outcome, lambda joined: _joined(joined, version))


def _joined(joined: Joined, version: int) -> JoinGroupResponse:
    protocol = joined.protocol
    if protocol is None and version < _JOIN_NULLABLE_PROTOCOL_FROM_VERSION:
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


def sync_group(
    broker: BrokerServer, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """Return the member's assignment, or an awaitable of it."""
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= _SYNC_NAMES_PROTOCOL_FROM_VERSION and not names_protocol:
        return _synced(Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    sync = Sync(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments={one.member_id: one.assignment for one in request.assignments},
    )
    try:
        return then(broker.groups.sync(sync), _synced)
    except KafkaError as error:
        return _synced(Synced(error.code))


def _synced(synced: Synced) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )


def heartbeat(broker: BrokerServer, _context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Renew the session; hot path: every consumer sends this every few seconds."""
    error = broker.groups.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return HeartbeatResponse(error_code=error)


def leave_group(
    broker: BrokerServer, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    """Remove members from their group, which then rebalances."""
    if context.api_version < _LEAVE_SEVERAL_FROM_VERSION:
        one = [Leaving(request.member_id, None, "")]
        return then(broker.groups.leave(request.group_id, one), _one_left)
    leaving = [Leaving(member.member_id, member.group_instance_id, member.reason or "") for member in request.members]
    return then(broker.groups.leave(request.group_id, leaving), lambda left: _left(leaving, left))


def _left(leaving: list[Leaving], left: Left) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        error_code=left.error,
        members=[
            LeaveGroupResponse.Member(
                member_id=member.member_id, group_instance_id=member.instance_id, error_code=error
            )
            for member, error in zip(leaving, left.members, strict=False)
        ],
    )


def _one_left(left: Left) -> LeaveGroupResponse:
    error = left.members[0] if left.error == ErrorCode.NONE else left.error
    return LeaveGroupResponse(error_code=error, members=[])
