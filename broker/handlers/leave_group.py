"""LeaveGroup: remove members from a group, which then rebalances.

Behaviour
- Each member has its own result. An administrator removes a static member by its instance id alone.

Version notes
- Below 3 there is one member, and its error is the response's.
- 5 and later have a reason (KIP-800).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from broker.coordinator.group.context import Leaving, Left
from broker.coordinator.runtime.shard_host import then
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext

_SEVERAL_FROM_VERSION = 3


def handle(
    broker: BrokerServer, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    """Remove members from their group."""
    if context.api_version >= _SEVERAL_FROM_VERSION:
        leaving = [
            Leaving(member.member_id, member.group_instance_id, member.reason or "") for member in request.members
        ]
        return then(broker.groups.leave(request.group_id, leaving), lambda left: _response(leaving, left))
    one = [Leaving(request.member_id, None, "")]
    return then(broker.groups.leave(request.group_id, one), _single_response)


def _response(leaving: list[Leaving], left: Left) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        error_code=left.error,
        members=[
            LeaveGroupResponse.Member(
                member_id=member.member_id, group_instance_id=member.instance_id, error_code=error
            )
            for member, error in zip(leaving, left.members, strict=False)
        ],
    )


def _single_response(left: Left) -> LeaveGroupResponse:
    error = left.members[0] if left.error == ErrorCode.NONE else left.error
    return LeaveGroupResponse(error_code=error, members=[])
