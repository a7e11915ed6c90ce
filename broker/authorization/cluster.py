"""DescribeCluster: every client may know the brokers; to know the controllers, it needs ALTER on the cluster.

The authorized operations are those of the client (KIP-430).
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from broker.authorization.outcomes import complete
from controller.acls.acl import AclOperation

if TYPE_CHECKING:
    from broker.authorization.guards import Handle
    from broker.authorization.request_authorizer import RequestAuthorizer
    from broker.network.connection import RequestContext
    from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse


def guard(
    authorizer: RequestAuthorizer,
    handle: Handle,
    server: Any,
    context: RequestContext,
    request: DescribeClusterRequest,
) -> Any:
    """Describe the cluster with the client's operations."""
    if context.listener in server.settings.controller_listeners:
        authorizer.require(context, AclOperation.ALTER)
    wanted = copy(request)
    wanted.include_cluster_authorized_operations = False

    def finish(response: DescribeClusterResponse) -> DescribeClusterResponse:
        if request.include_cluster_authorized_operations and not response.error_code:
            response.cluster_authorized_operations = authorizer.cluster_operations(context)
        return response

    return complete(handle(server, context, wanted), finish)
