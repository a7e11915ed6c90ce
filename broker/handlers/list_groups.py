"""ListGroups: the groups that this broker coordinates.

Behaviour
- COORDINATOR_LOAD_IN_PROGRESS, and no groups, while any of them may still be unknown.
- UNKNOWN_SERVER_ERROR beside the groups that are known, where others could not be loaded.
- Filters compare without regard to case; a state or type that does not exist selects nothing.

Version notes
- 4 and later tell states and filter by them (KIP-518).
- 5 and later tell types and filter by them (KIP-848); every group is a classic one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import RequestContext

_TYPE = "classic"


def handle(broker: Broker, _context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """List the groups that pass both filters."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.strip().lower() for kind in request.types_filter}
    return ListGroupsResponse(
        error_code=ErrorCode.UNKNOWN_SERVER_ERROR if broker.groups.failures else ErrorCode.NONE,
        groups=[
            ListGroupsResponse.Group(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state,
                group_type=_TYPE,
            )
            for shard in broker.groups.shards()
            for group in shard.groups.values()
            if (not states or group.state.lower() in states) and (not types or _TYPE in types)
        ],
    )
