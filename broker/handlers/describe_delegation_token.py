"""DescribeDelegationToken: list the delegation tokens of some or all owners (KIP-48).

Behaviour
- Requires an authenticated client; on a PLAINTEXT listener no client is: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as in
  Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node


def handle(
    _broker: Node, _context: RequestContext, _request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Return DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, tokens=[])
