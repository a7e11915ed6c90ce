"""DescribeAcls: list ACLs.

Behaviour
- There is no authorizer: SECURITY_DISABLED, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node


def handle(_broker: Node, _context: RequestContext, _request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Return SECURITY_DISABLED."""
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
        resources=[],
    )
