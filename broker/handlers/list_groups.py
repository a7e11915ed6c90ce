"""ListGroups: list the groups that this broker coordinates.

Behaviour
- COORDINATOR_LOAD_IN_PROGRESS, and no groups, while a partition of the offsets topic is being loaded.
- UNKNOWN_SERVER_ERROR, with the groups that are loaded, if loading others failed.
- Filters ignore case; an unknown state or type matches nothing.

Version notes
- 4 and later return states and filter by them (KIP-518).
- 5 and later return types and filter by them (KIP-848); every group is a classic one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext

_TYPE = "classic"


def handle(broker: BrokerServer, _context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """Return the groups that match both filters."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.strip().lower() for kind in request.types_filter}
    return ListGroupsResponse(
        error_code=ErrorCode.UNKNOWN_SERVER_ERROR if broker.groups.runtime.failures else ErrorCode.NONE,
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
