"""Groups: FindCoordinator, OffsetFetch, OffsetDelete, DescribeGroups and ListGroups.

Behaviour
- FindCoordinator and OffsetFetch need DESCRIBE on each group, or transactional id, that they name.
- OffsetFetch also needs DESCRIBE on each topic: others are omitted if all are requested, and else refused one by one.
- OffsetDelete needs DELETE on the group and READ on each topic. An error of the group is the only one in a response.
- ListGroups returns the groups that the client may describe; all of them if it may describe the cluster (KIP-231).
- DescribeGroups returns the operations that the client may do (KIP-430).
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias

from broker.authorization.guards import Handle, add_entries, error_for, guard_each, with_entries
from broker.authorization.outcomes import complete
from broker.authorization.request_authorizer import RequestAuthorizer, authorization_error
from broker.authorization.requirement import Requirement
from controller.acls.acl import AclOperation, AclResourceType
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext

_DESCRIBE = AclOperation.DESCRIBE
_GROUP, _TOPIC = AclResourceType.GROUP, AclResourceType.TOPIC
_KEY_TYPES = {0: _GROUP, 1: AclResourceType.TRANSACTIONAL_ID}
_SHARE = 2
_KEYS_FROM_VERSION = 4
_GROUPS_FROM_VERSION = 8
_ERROR_FROM_VERSION = 2

_GroupRequest: TypeAlias = OffsetFetchRequest.Group
_GroupResult: TypeAlias = OffsetFetchResponse.Group


def guard_coordinator(
    authorizer: RequestAuthorizer,
    handle: Handle,
    broker: BrokerServer,
    context: RequestContext,
    request: FindCoordinatorRequest,
) -> Any:
    """Find the coordinators of the authorized keys."""
    if request.key_type == _SHARE:
        authorizer.require(context, AclOperation.CLUSTER_ACTION)
    resource_type = _KEY_TYPES.get(request.key_type)
    if resource_type is None:
        return handle(broker, context, request)
    if context.api_version < _KEYS_FROM_VERSION:
        authorizer.require(context, _DESCRIBE, resource_type, request.key)
        return handle(broker, context, request)
    refused = authorizer.unauthorized(context, _DESCRIBE, resource_type, request.coordinator_keys)
    if not refused:
        return handle(broker, context, request)
    error = authorization_error(resource_type)

    def finish(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
        found = iter(response.coordinators)
        response.coordinators = [
            FindCoordinatorResponse.Coordinator(
                key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message
            )
            if key in refused
            else next(found)
            for key in request.coordinator_keys
        ]
        return response

    kept = [key for key in request.coordinator_keys if key not in refused]
    if not kept:
        return finish(FindCoordinatorResponse(coordinators=[]))
    return complete(handle(broker, context, with_entries(request, "coordinator_keys", kept)), finish)


def guard_offsets(
    authorizer: RequestAuthorizer,
    handle: Handle,
    broker: BrokerServer,
    context: RequestContext,
    request: OffsetFetchRequest,
) -> Any:
    """Return the offsets of the authorized groups and topics."""
    if context.api_version < _GROUPS_FROM_VERSION:
        return _guard_offsets_of_one(authorizer, handle, broker, context, request)
    refused = authorizer.unauthorized(context, _DESCRIBE, _GROUP, (group.group_id for group in request.groups))
    wanted: list[_GroupRequest] = []
    refused_topics: list[list[_GroupRequest.Topic]] = []
    for group in request.groups:
        if group.group_id not in refused:
            kept, others = _split(authorizer, context, group.topics)
            wanted.append(with_entries(group, "topics", kept) if others else group)
            refused_topics.append(others)

    def finish(response: OffsetFetchResponse) -> OffsetFetchResponse:
        results = iter(zip(response.groups, refused_topics, strict=True))
        groups = []
        for group in request.groups:
            if group.group_id in refused:
                groups.append(
                    _GroupResult(group_id=group.group_id, topics=[], error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
                )
                continue
            result, others = next(results)
            groups.append(result)
            if group.topics is None:
                result.topics = _describable(authorizer, context, result.topics)
            elif not result.error_code:
                result.topics += _refused_topics(
                    _GroupResult.Topic, others, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "name", "topic_id"
                )
        response.groups = groups
        return response

    if not wanted:
        return finish(OffsetFetchResponse(groups=[]))
    return complete(handle(broker, context, with_entries(request, "groups", wanted)), finish)


def _guard_offsets_of_one(
    authorizer: RequestAuthorizer,
    handle: Handle,
    broker: BrokerServer,
    context: RequestContext,
    request: OffsetFetchRequest,
) -> Any:
    if not authorizer.authorize(context, _DESCRIBE, _GROUP, request.group_id):
        if context.api_version >= _ERROR_FROM_VERSION:
            raise authorization_error(_GROUP)
        return OffsetFetchResponse(
            topics=_refused_topics(
                OffsetFetchResponse.Topic, request.topics, ErrorCode.GROUP_AUTHORIZATION_FAILED, "name"
            )
        )
    kept, refused = _split(authorizer, context, request.topics)

    def finish(response: OffsetFetchResponse) -> OffsetFetchResponse:
        if request.topics is None:
            response.topics = _describable(authorizer, context, response.topics)
        elif not response.error_code:
            response.topics += _refused_topics(
                OffsetFetchResponse.Topic, refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "name"
            )
        return response

    return complete(handle(broker, context, with_entries(request, "topics", kept) if refused else request), finish)


def _refused_topics(kind: type[Any], topics: list[Any] | None, error: ErrorCode, *identity: str) -> list[Any]:
    """Return the results, of class `kind`, of refused topics, with the fields `identity` of their requests."""
    return [
        kind(
            **{field: getattr(topic, field) for field in identity},
            partitions=[
                kind.Partition(partition_index=index, committed_offset=-1, metadata="", error_code=error)
                for index in topic.partition_indexes
            ],
        )
        for topic in topics or ()
    ]


def _split(
    authorizer: RequestAuthorizer,
    context: RequestContext,
    topics: list[Any] | None,
    operation: AclOperation = _DESCRIBE,
) -> tuple[list[Any], list[Any]]:
    """Return the topics on which the client may do an operation, and the others."""
    if topics is None:
        return [], []
    names = [authorizer.topic_name(topic) for topic in topics]
    refused = authorizer.unauthorized(context, operation, _TOPIC, (name for name in names if name is not None))
    pairs = list(zip(names, topics, strict=True))
    return [topic for name, topic in pairs if name not in refused], [topic for name, topic in pairs if name in refused]


def _describable(authorizer: RequestAuthorizer, context: RequestContext, topics: list[Any]) -> list[Any]:
    decisions = authorizer.decisions(context, _DESCRIBE, _TOPIC)
    return [topic for topic in topics if decisions[topic.name]]


def guard_offset_deletion(
    authorizer: RequestAuthorizer,
    handle: Handle,
    broker: BrokerServer,
    context: RequestContext,
    request: OffsetDeleteRequest,
) -> Any:
    """Delete the group's offsets of the authorized topics."""
    authorizer.require(context, AclOperation.DELETE, _GROUP, request.group_id)
    kept, others = _split(authorizer, context, request.topics, AclOperation.READ)
    refused = error_for(context, with_entries(request, "topics", others), authorization_error(_TOPIC))

    def finish(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if not response.error_code:
            add_entries(response, refused)
        return response

    return complete(handle(broker, context, with_entries(request, "topics", kept)), finish)


def guard_description(
    authorizer: RequestAuthorizer,
    handle: Handle,
    broker: BrokerServer,
    context: RequestContext,
    request: DescribeGroupsRequest,
) -> Any:
    """Describe the groups that the client may describe, with its operations."""
    wanted = copy(request)
    wanted.include_authorized_operations = False

    def finish(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
        if request.include_authorized_operations:
            for group in response.groups:
                if not group.error_code:
                    group.authorized_operations = authorizer.operations(context, _GROUP, group.group_id)
        return response

    requirement = Requirement(_DESCRIBE, _GROUP, "groups")
    return complete(guard_each(authorizer, handle, requirement, broker, context, wanted), finish)


def guard_list(
    authorizer: RequestAuthorizer,
    handle: Handle,
    broker: BrokerServer,
    context: RequestContext,
    request: ListGroupsRequest,
) -> Any:
    """Return the groups that the client may describe."""
    if authorizer.may_on_cluster(context, _DESCRIBE):
        return handle(broker, context, request)

    def finish(response: ListGroupsResponse) -> ListGroupsResponse:
        decisions = authorizer.decisions(context, _DESCRIBE, _GROUP)
        response.groups = [group for group in response.groups if decisions[group.group_id]]
        return response

    return complete(handle(broker, context, request), finish)
