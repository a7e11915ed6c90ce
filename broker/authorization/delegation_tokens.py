"""Delegation tokens: CreateDelegationToken and DescribeDelegationToken.

A client requests tokens for itself, and with CREATE_TOKENS on another user for that one (KIP-373). It sees the tokens
that it owns, has requested or may renew, those on which it has DESCRIBE, and those of users on which it has
DESCRIBE_TOKENS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.handlers.delegation_tokens import describe_delegation_token, is_allowed, refused_creation
from controller.acls.acl import AclOperation, AclResourceType
from controller.commands.delegation_tokens import owner_of
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.authorization.guards import Handle
    from broker.authorization.request_authorizer import RequestAuthorizer
    from broker.network.connection import RequestContext
    from controller.delegation_tokens import DelegationToken
    from protocol.messages.create_delegation_token import CreateDelegationTokenRequest
    from protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest

_USER, _TOKEN = AclResourceType.USER, AclResourceType.DELEGATION_TOKEN


def guard_creation(
    authorizer: RequestAuthorizer,
    handle: Handle,
    server: Any,
    context: RequestContext,
    request: CreateDelegationTokenRequest,
) -> Any:
    """Issue a token for an owner for which the client may request tokens."""
    owner = owner_of(request, context.principal)
    if is_allowed(server.settings, context) and not authorizer.may_request_tokens_for(context, owner):
        return refused_creation(context, request, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    return handle(server, context, request)


def guard_description(
    authorizer: RequestAuthorizer,
    _handle: Handle,
    server: Any,
    context: RequestContext,
    request: DescribeDelegationTokenRequest,
) -> Any:
    """Return the tokens that the client may see."""
    tokens = authorizer.decisions(context, AclOperation.DESCRIBE, _TOKEN)
    owners = authorizer.decisions(context, AclOperation.DESCRIBE_TOKENS, _USER)

    def may_see(token: DelegationToken) -> bool:
        return token.may_be_seen_by(context.principal) or owners[token.owner] or tokens[token.token_id]

    return describe_delegation_token(server, context, request, may_see)
