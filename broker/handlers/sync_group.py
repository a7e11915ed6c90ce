"""SyncGroup: get the member's assignment in a generation; the leader's request has everyone's.

Behaviour
- The response is sent when the leader's assignment is stored. REBALANCE_IN_PROGRESS if another rebalance starts first.

Version notes
- 3 and later have the member's instance id (KIP-345).
- 5 and later must have the group's protocol type and name: INCONSISTENT_GROUP_PROTOCOL (KIP-559).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from broker.coordinator.group.context import Sync, Synced
from broker.coordinator.runtime.shard_host import then
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext

_NAMES_PROTOCOL_FROM_VERSION = 5


def handle(
    broker: BrokerServer, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """Return the member's assignment, or an awaitable of it."""
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= _NAMES_PROTOCOL_FROM_VERSION and not names_protocol:
        return _response(Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
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
        return then(broker.groups.sync(sync), _response)
    except KafkaError as error:
        return _response(Synced(error.code))


def _response(synced: Synced) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )
