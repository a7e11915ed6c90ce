"""CreateDelegationToken: create a token with which a client authenticates as its owner (KIP-48).

Behaviour
- Requires an authenticated client; on a PLAINTEXT listener no client is: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as in
  Kafka. The response names the principal that would have owned the token.

Version notes
- 3 and later may name another owner, and return the requester (KIP-373).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node

_REQUESTER_FROM_VERSION = 3
_NO_TIMESTAMP = -1


def handle(
    _broker: Node, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Return DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    kind, _, name = context.principal.partition(":")
    response = CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type=(request.owner_principal_type or "") if request.owner_principal_name else kind,
        principal_name=request.owner_principal_name or name,
        issue_timestamp_ms=_NO_TIMESTAMP,
        expiry_timestamp_ms=_NO_TIMESTAMP,
        max_timestamp_ms=_NO_TIMESTAMP,
        token_id="",
        hmac=b"",
    )
    if context.api_version >= _REQUESTER_FROM_VERSION:
        response.token_requester_principal_type, response.token_requester_principal_name = kind, name
    return response
