"""RenewDelegationToken: extend the expiry of a delegation token (KIP-48).

Behaviour
- Requires an authenticated client; on a PLAINTEXT listener no client is: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as in
  Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node

_NO_TIMESTAMP = -1


def handle(
    _broker: Node, _context: RequestContext, _request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Return DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=_NO_TIMESTAMP
    )
