"""Delegation tokens, which are refused as by Apache Kafka without authentication.

Behaviour
- CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken (KIP-48) require an
  authenticated client; on a PLAINTEXT listener no client is: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
- The response to CreateDelegationToken has the principal that would have owned the token; from version 3 on it may be
  another than the requester, and both are returned (KIP-373).
"""

from typing import NoReturn

from broker.network.connection import RequestContext
from broker.shared_server import RoleServer
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from protocol.schema import Message

_REFUSED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
_REQUESTER_FROM_VERSION = 3
_NO_TIMESTAMP = -1


def create_delegation_token(
    _broker: RoleServer, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Return DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    kind, _, name = context.principal.partition(":")
    response = CreateDelegationTokenResponse(
        error_code=_REFUSED,
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


def renew_delegation_token(
    _broker: RoleServer, _context: RequestContext, _request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Return DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    return RenewDelegationTokenResponse(error_code=_REFUSED, expiry_timestamp_ms=_NO_TIMESTAMP)


def expire_delegation_token(
    _broker: RoleServer, _context: RequestContext, _request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Return DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    return ExpireDelegationTokenResponse(error_code=_REFUSED, expiry_timestamp_ms=_NO_TIMESTAMP)


def describe_delegation_token(_broker: RoleServer, _context: RequestContext, _request: Message) -> NoReturn:
    """Raise KafkaError DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    raise KafkaError(_REFUSED)
