"""CreateAcls, DeleteAcls and DescribeAcls: access control entries (KIP-140).

Behaviour
- SECURITY_DISABLED, of each entry or filter, without an authorizer.
- The controller creates and deletes entries (`controller.commands.acls`); the response is sent once its own decisions
  follow them. Other brokers apply them at the same time as any other change of the metadata.
- DescribeAcls is answered from the metadata of the node that gets it. INVALID_REQUEST for a filter with UNKNOWN, where
  Kafka closes the connection; any other number without a meaning matches nothing.

Version notes
- 1 to 3 have the same fields; 2 is flexible. 3 stands for users as resources (KIP-373), which 1 and 2 accept, too.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.acls.acl_filter import AclFilter
from controller.commands.acls import create_acls as create
from controller.commands.acls import delete_acls as delete
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from broker.controller_server import ControllerServer
    from broker.network.connection import RequestContext
    from broker.shared_server import RoleServer
    from protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
    from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse

_Resource = DescribeAclsResponse.Resource


async def create_acls(
    controller: ControllerServer, _context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    """Submit the command; return its response once its records are committed."""
    _check_authorizer(controller, "No Authorizer is configured.")
    return await controller.raft.submit(partial(create, request=request, random=controller.random))


async def delete_acls(
    controller: ControllerServer, _context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    """Submit the command; return its response once its records are committed."""
    _check_authorizer(controller, "No Authorizer is configured.")
    return await controller.raft.submit(partial(delete, request=request))


def describe_acls(server: RoleServer, _context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Return the entries that match the filter, by resource."""
    _check_authorizer(server, "No Authorizer is configured on the broker")
    wanted = AclFilter(
        resource_type=request.resource_type_filter,
        resource_name=request.resource_name_filter,
        pattern_type=request.pattern_type_filter,
        principal=request.principal_filter,
        host=request.host_filter,
        operation=request.operation,
        permission_type=request.permission_type,
    )
    if 0 in (wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission_type):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The filter contains UNKNOWN elements.")
    resources: dict[tuple[int, str, int], _Resource] = {}
    for _, acl in server.image.acls.matching(wanted):
        key = acl.resource_type, acl.resource_name, acl.pattern_type
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = _Resource(
                resource_type=acl.resource_type, resource_name=acl.resource_name, pattern_type=acl.pattern_type, acls=[]
            )
        resource.acls.append(
            _Resource.Acl(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
            )
        )
    return DescribeAclsResponse(error_message="", resources=list(resources.values()))


def _check_authorizer(server: RoleServer, message: str) -> None:
    if server.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, message)
