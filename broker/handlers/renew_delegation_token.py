"""RenewDelegationToken: a delegation token lives longer (KIP-48).

Behaviour
- Tokens are for those who have logged in, and nobody has on a PLAINTEXT listener: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
  as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import RequestContext

_NO_TIMESTAMP = -1


def handle(
    _broker: Broker, _context: RequestContext, _request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Refuse it."""
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=_NO_TIMESTAMP
    )
