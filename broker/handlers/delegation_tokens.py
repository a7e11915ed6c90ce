"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken (KIP-48, KIP-373).

Behaviour
- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for clients that are authenticated by a token or not at all: on PLAINTEXT, and on
  SSL without a client certificate. Also if the request, which has the token's HMAC or gets it, would be forwarded to a
  controller listener with PLAINTEXT.
- DELEGATION_TOKEN_AUTH_DISABLED without `delegation.token.secret.key`.
- A broker refuses what it can; the controller decides (`controller.commands.delegation_tokens`). Every node has the
  tokens in its metadata, and describes them, with their HMACs, by itself: in steps, as there may be very many.
- Owner and renewers renew and expire a token. They see it, as do its requester, and clients with DESCRIBE on it or with
  DESCRIBE_TOKENS on its owner. To request a token for another owner takes CREATE_TOKENS on it
  (`broker.authorization.delegation_tokens`).

Version notes
- 3 of CreateDelegationToken has an owner; of it and of DescribeDelegationToken, the requester of each token.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from broker.network.listeners import PLAINTEXT, uses_sasl
from broker.runtime.cooperative import start_steps
from controller.acls.acl import ANONYMOUS
from controller.commands.delegation_tokens import create_delegation_token as create
from controller.commands.delegation_tokens import creation_response, has_valid_renewers, owner_of
from controller.commands.delegation_tokens import expire_delegation_token as expire
from controller.commands.delegation_tokens import renew_delegation_token as renew
from controller.commands.random_uuid import random_uuid
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_delegation_token import DescribeDelegationTokenResponse
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from protocol.primitives import uuid_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from broker.broker_server import BrokerServer
    from broker.controller_server import ControllerServer
    from broker.network.connection import RequestContext
    from broker.settings import Settings
    from broker.shared_server import RoleServer
    from controller.delegation_tokens import DelegationToken, TokenHmacs
    from protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
    from protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
    from protocol.schema import Message
    from storage.steps import Steps

    MaySee: TypeAlias = Callable[[DelegationToken], bool]

_NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
_REQUESTER_FROM_VERSION = 3
_NO_TIMESTAMP = -1
_TOKENS_A_STEP = 200

_Token = DescribeDelegationTokenResponse.Token
_Changed = TypeVar("_Changed", RenewDelegationTokenResponse, ExpireDelegationTokenResponse)


async def create_delegation_token(
    controller: ControllerServer, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Submit the command; return its response once the token is committed."""
    if not is_allowed(controller.settings, context):
        return refused_creation(context, request, _NOT_ALLOWED)
    command = partial(
        create,
        request=request,
        rules=controller.token_rules,
        principal=context.principal,
        token_id=uuid_text(random_uuid(controller.random)),
        now_ms=controller.now_ms(),
    )
    return _in_version(context, await controller.raft.submit(command))


async def renew_delegation_token(
    controller: ControllerServer, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Submit the command; return its response once the change is committed."""
    if not is_allowed(controller.settings, context):
        return _refused(RenewDelegationTokenResponse)
    return await controller.raft.submit(
        partial(
            renew,
            request=request,
            rules=controller.token_rules,
            principal=context.principal,
            now_ms=controller.now_ms(),
        )
    )


async def expire_delegation_token(
    controller: ControllerServer, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Submit the command; return its response once the change is committed."""
    if not is_allowed(controller.settings, context):
        return _refused(ExpireDelegationTokenResponse)
    return await controller.raft.submit(
        partial(
            expire,
            request=request,
            rules=controller.token_rules,
            principal=context.principal,
            now_ms=controller.now_ms(),
        )
    )


def own_creation(
    broker: BrokerServer, context: RequestContext, request: CreateDelegationTokenRequest
) -> Awaitable[Message] | None:
    """Return the response if the broker refuses the request, else None."""
    owner = owner_of(request, context.principal)
    if not _may_be_forwarded(broker.settings, context):
        error = _NOT_ALLOWED
    elif broker.authorizer is not None and not broker.authorizer.may_request_tokens_for(context, owner):
        error = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    elif not has_valid_renewers(request):
        error = ErrorCode.INVALID_PRINCIPAL_TYPE
    else:
        return None
    return _answer(refused_creation(context, request, error))


def own_renewal(
    broker: BrokerServer, context: RequestContext, _request: RenewDelegationTokenRequest
) -> Awaitable[Message] | None:
    """Return the response if the broker refuses the request, else None."""
    return None if _may_be_forwarded(broker.settings, context) else _answer(_refused(RenewDelegationTokenResponse))


def own_expiry(
    broker: BrokerServer, context: RequestContext, _request: ExpireDelegationTokenRequest
) -> Awaitable[Message] | None:
    """Return the response if the broker refuses the request, else None."""
    return None if _may_be_forwarded(broker.settings, context) else _answer(_refused(ExpireDelegationTokenResponse))


def describe_delegation_token(
    server: RoleServer,
    context: RequestContext,
    request: DescribeDelegationTokenRequest,
    may_see: MaySee | None = None,
) -> DescribeDelegationTokenResponse | Awaitable[DescribeDelegationTokenResponse]:
    """Return the tokens of which a wanted principal is owner, requester or renewer; all if the request names none.

    If there is `may_see`, return only those for which it returns True.
    """
    if not is_allowed(server.settings, context):
        raise KafkaError(_NOT_ALLOWED)
    hmacs = server.token_rules.hmacs
    if hmacs is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    wanted = (
        None
        if request.owners is None
        else {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
    )
    has_requester = context.api_version >= _REQUESTER_FROM_VERSION

    def describe(tokens: Iterable[DelegationToken], hmacs: TokenHmacs) -> Steps[DescribeDelegationTokenResponse]:
        found = []
        for number, token in enumerate(tokens, 1):
            if number % _TOKENS_A_STEP == 0:
                yield None
            if (wanted is None or any(map(token.may_be_seen_by, wanted))) and (may_see is None or may_see(token)):
                found.append(_described(token, hmacs.of(token.token_id), has_requester=has_requester))
        return DescribeDelegationTokenResponse(tokens=found)

    return start_steps(describe(server.image.delegation_tokens.values(), hmacs), server.loop)


def is_allowed(settings: Settings, context: RequestContext) -> bool:
    """Return whether the client is authenticated, and not by a token (Kafka: `allowTokenRequests`)."""
    protocol = settings.security_protocol_of(context.listener)
    return (
        not context.token_authenticated
        and protocol != PLAINTEXT
        and (uses_sasl(protocol) or context.principal != ANONYMOUS)
    )


def refused_creation(
    context: RequestContext, request: CreateDelegationTokenRequest, error: ErrorCode
) -> CreateDelegationTokenResponse:
    """Return the response to a refused CreateDelegationToken."""
    response = creation_response(owner_of(request, context.principal), context.principal)
    response.error_code = error
    response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = _NO_TIMESTAMP
    return _in_version(context, response)


def _refused(response_class: type[_Changed]) -> _Changed:
    """Return the response to a RenewDelegationToken or ExpireDelegationToken that is not allowed."""
    return response_class(error_code=_NOT_ALLOWED, expiry_timestamp_ms=_NO_TIMESTAMP)


def _may_be_forwarded(settings: Settings, context: RequestContext) -> bool:
    return is_allowed(settings, context) and settings.forwarding_protocol != PLAINTEXT


def _in_version(context: RequestContext, response: CreateDelegationTokenResponse) -> CreateDelegationTokenResponse:
    if context.api_version < _REQUESTER_FROM_VERSION:
        response.token_requester_principal_type = response.token_requester_principal_name = ""
    return response


def _described(token: DelegationToken, token_hmac: bytes, *, has_requester: bool) -> _Token:
    owner_type, _, owner = token.owner.partition(":")
    requester_type, _, requester = token.requester.partition(":") if has_requester else ("", "", "")
    renewers = [renewer.partition(":") for renewer in token.renewers]
    return _Token(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=token_hmac,
        renewers=[_Token.Renewer(principal_type=kind, principal_name=name) for kind, _, name in renewers],
    )


async def _answer(response: Message) -> Message:
    return response
