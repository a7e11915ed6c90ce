"""DeleteAcls: delete ACLs.

Behaviour
- There is no authorizer: each filter is refused with SECURITY_DISABLED, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node


def handle(_broker: Node, _context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Return SECURITY_DISABLED for each filter."""
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsResponse.Result(
                error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.", matching_acls=[]
            )
            for _ in request.filters
        ]
    )
