"""CreateAcls: add ACLs.

Behaviour
- There is no authorizer: each ACL is refused with SECURITY_DISABLED, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node


def handle(_broker: Node, _context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Return SECURITY_DISABLED for each ACL."""
    return CreateAclsResponse(
        results=[
            CreateAclsResponse.Result(
                error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured."
            )
            for _ in request.creations
        ]
    )
