"""DescribeGroups: state and members of classic groups.

Behaviour
- The protocol and the members' metadata are returned only while the group is stable, assignments always.
- All operations are authorized: there are no ACLs.

Version notes
- Below 6 an unknown group has the state Dead; from 6 on it is GROUP_ID_NOT_FOUND too (KIP-1043).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.authorized_operations import GROUP_OPERATIONS, OPERATIONS_NOT_ASKED
from broker.coordinator.group.classic_group import DEAD, STABLE, ClassicGroup, ClassicGroupMember
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext

_NOT_FOUND_FROM_VERSION = 6

_Described = DescribeGroupsResponse.Group


def handle(broker: BrokerServer, context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describe each group independently."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else OPERATIONS_NOT_ASKED
    return DescribeGroupsResponse(
        groups=[_describe(broker, group_id, operations, context.api_version) for group_id in request.groups]
    )


def _describe(broker: BrokerServer, group_id: str, operations: int, version: int) -> _Described:
    try:
        group = broker.groups.shard_of(group_id).groups.get(group_id)
    except KafkaError as error:
        return _nothing(group_id, error.code, "", error.message or None, OPERATIONS_NOT_ASKED)
    if group is not None:
        return _described(group, operations)
    if version >= _NOT_FOUND_FROM_VERSION:
        return _nothing(
            group_id, ErrorCode.GROUP_ID_NOT_FOUND, DEAD, f"Group {group_id} not found.", OPERATIONS_NOT_ASKED
        )
    return _nothing(group_id, ErrorCode.NONE, DEAD, None, operations)


def _described(group: ClassicGroup, operations: int) -> _Described:
    is_stable = group.state == STABLE
    protocol = group.protocol if is_stable and group.protocol is not None else ""
    return _Described(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol,
        members=[
            _member(member, member.protocols[protocol] if is_stable else b"") for member in group.members.values()
        ],
        authorized_operations=operations,
    )


def _member(member: ClassicGroupMember, metadata: bytes) -> _Described.Member:
    return _Described.Member(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=metadata,
        member_assignment=member.assignment,
    )


def _nothing(group_id: str, error: ErrorCode, state: str, message: str | None, operations: int) -> _Described:
    return _Described(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
        authorized_operations=operations,
    )
