"""ListGroups, DescribeGroups and DeleteGroups: administration of classic groups.

Behaviour
- ListGroups returns the groups that this broker coordinates: COORDINATOR_LOAD_IN_PROGRESS, and none, while a partition
  of the offsets topic is being loaded; UNKNOWN_SERVER_ERROR, with those that are loaded, if loading others failed.
  Filters ignore case; an unknown state or type matches nothing.
- DescribeGroups returns the protocol and the members' metadata only while the group is stable, assignments always. The
  authorized operations are all; `broker.authorization.groups` replaces them by what the client may do.
- DeleteGroups deletes groups without members, and their offsets. Each group has its own result, once its tombstones are
  committed: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND. A group that is named twice has one result, as in Kafka.

Version notes
- ListGroups: 4 and later return states and filter by them (KIP-518); 5 and later return types and filter by them
  (KIP-848); every group is a classic one.
- DescribeGroups: below 6 an unknown group has the state Dead; from 6 on it is GROUP_ID_NOT_FOUND too (KIP-1043).
"""

from broker.broker_server import BrokerServer
from broker.coordinator.group.classic_group import DEAD, STABLE, ClassicGroup
from broker.coordinator.runtime.shard_host import Outcome
from broker.handlers.authorized_operations import GROUP_OPERATIONS, OPERATIONS_NOT_REQUESTED
from broker.network.connection import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

_TYPE = "classic"
_NOT_FOUND_FROM_VERSION = 6

_Described = DescribeGroupsResponse.Group


def list_groups(broker: BrokerServer, _context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
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


def describe_groups(
    broker: BrokerServer, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """Describe each group independently."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else OPERATIONS_NOT_REQUESTED
    return DescribeGroupsResponse(
        groups=[_describe(broker, group_id, operations, context.api_version) for group_id in request.groups]
    )


def _describe(broker: BrokerServer, group_id: str, operations: int, version: int) -> _Described:
    try:
        group = broker.groups.shard_of(group_id).groups.get(group_id)
    except KafkaError as error:
        return _nothing(group_id, error.code, "", error.message or None, OPERATIONS_NOT_REQUESTED)
    if group is not None:
        return _described(group, operations)
    if version >= _NOT_FOUND_FROM_VERSION:
        return _nothing(
            group_id, ErrorCode.GROUP_ID_NOT_FOUND, DEAD, f"Group {group_id} not found.", OPERATIONS_NOT_REQUESTED
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
            _Described.Member(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.protocols[protocol] if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
        authorized_operations=operations,
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


async def delete_groups(
    broker: BrokerServer, _context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    """Delete each group independently."""
    # Write all tombstones before waiting for the first commit.
    deletions = [(group_id, _delete(broker, group_id)) for group_id in dict.fromkeys(request.groups_names)]
    results = []
    for group_id, deletion in deletions:
        try:
            error = deletion if isinstance(deletion, ErrorCode) else await deletion
        except KafkaError as failure:
            error = failure.code
        results.append(DeleteGroupsResponse.Result(group_id=group_id, error_code=error))
    return DeleteGroupsResponse(results=results)


def _delete(broker: BrokerServer, group_id: str) -> Outcome[ErrorCode]:
    try:
        return broker.groups.delete_group(group_id)
    except KafkaError as error:
        return error.code
