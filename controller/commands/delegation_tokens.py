"""Changes of delegation tokens (KIP-48, KIP-373; Kafka: `DelegationTokenControlManager`).

    create    a token of the requester, or of another owner for which it may request tokens
    renew     a later expiry, at most the maximum lifetime; by the owner or a renewer
    expire    another expiry, or none: the token is removed; by the owner or a renewer
    sweep     remove tokens that have expired

Requests are refused with DELEGATION_TOKEN_AUTH_DISABLED unless there is a secret key. Whether a requester may request
tokens of an owner is checked before (`broker.authorization.delegation_tokens`).
"""

from __future__ import annotations

from itertools import islice

from controller.commands.controller_result import ControllerResult
from controller.delegation_tokens import DelegationToken, TokenRules, token_record
from controller.image import MetadataImage
from protocol.errors import ErrorCode
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from protocol.records.metadata import RemoveDelegationTokenRecord

MAX_REMOVALS = 1_000
"""The most tokens that one sweep removes."""

MAX_RECORD_BYTES = 8 << 20
"""The most bytes of a token, most of which are its renewers: any authenticated client may request one.

Kafka's limit of a batch of the metadata log (`KafkaRaftClient.MAX_BATCH_SIZE_BYTES`).
"""

_MAX_MS = 2**63 - 1
_USER = "User"


def create_delegation_token(
    image: MetadataImage,  # noqa: ARG001  # a command
    request: CreateDelegationTokenRequest,
    rules: TokenRules,
    *,
    principal: str,
    token_id: str,
    now_ms: int,
) -> ControllerResult[CreateDelegationTokenResponse]:
    """Issue a token with a new id."""
    owner = owner_of(request, principal)
    response = creation_response(owner, principal)
    renewers = tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers)
    if rules.hmacs is None:
        response.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    elif not has_valid_renewers(request):
        response.error_code = ErrorCode.INVALID_PRINCIPAL_TYPE
    else:
        lifetime_ms = _at_most(request.max_lifetime_ms, rules.max_lifetime_ms)
        max_ms = _sum(now_ms, lifetime_ms)
        expiry_ms = min(max_ms, _sum(now_ms, rules.expiry_time_ms))
        record = token_record(DelegationToken(token_id, owner, principal, renewers, now_ms, max_ms, expiry_ms))
        if len(record.encode(0)) > MAX_RECORD_BYTES:
            response.error_code = ErrorCode.RECORD_LIST_TOO_LARGE
            return ControllerResult((), response)
        response.issue_timestamp_ms = now_ms
        response.expiry_timestamp_ms, response.max_timestamp_ms = expiry_ms, max_ms
        response.token_id, response.hmac = token_id, rules.hmacs.of(token_id)
        return ControllerResult((record,), response)
    return ControllerResult((), response)


def renew_delegation_token(
    image: MetadataImage, request: RenewDelegationTokenRequest, rules: TokenRules, *, principal: str, now_ms: int
) -> ControllerResult[RenewDelegationTokenResponse]:
    """Let a token expire later, or earlier if the request says so."""
    found = _find(image, request.hmac, rules)
    if isinstance(found, ErrorCode):
        error = found
    elif found.has_expired(now_ms):
        error = ErrorCode.DELEGATION_TOKEN_EXPIRED
    elif not found.may_renew(principal):
        error = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    else:
        period_ms = _at_most(request.renew_period_ms, rules.expiry_time_ms)
        expiry_ms = min(found.max_ms, _sum(now_ms, period_ms))
        record = token_record(found._replace(expiry_ms=expiry_ms))
        return ControllerResult((record,), RenewDelegationTokenResponse(expiry_timestamp_ms=expiry_ms))
    return ControllerResult((), RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=0))


def expire_delegation_token(
    image: MetadataImage, request: ExpireDelegationTokenRequest, rules: TokenRules, *, principal: str, now_ms: int
) -> ControllerResult[ExpireDelegationTokenResponse]:
    """Let a token expire at another time; remove it if the period is negative."""
    found = _find(image, request.hmac, rules)
    if isinstance(found, ErrorCode):
        error = found
    elif not found.may_renew(principal):
        error = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    elif request.expiry_time_period_ms < 0:
        removal = RemoveDelegationTokenRecord(token_id=found.token_id)
        return ControllerResult((removal,), ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms))
    elif found.has_expired(now_ms):
        error = ErrorCode.DELEGATION_TOKEN_EXPIRED
    else:
        expiry_ms = min(found.max_ms, _sum(now_ms, request.expiry_time_period_ms))
        record = token_record(found._replace(expiry_ms=expiry_ms))
        return ControllerResult((record,), ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms))
    return ControllerResult((), ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=0))


def sweep_expired_delegation_tokens(
    image: MetadataImage, now_ms: int, limit: int = MAX_REMOVALS
) -> ControllerResult[bool]:
    """Remove expired tokens, at most `limit`; the response is whether more may have expired."""
    expired = (token.token_id for token in image.delegation_tokens.values() if token.has_expired(now_ms))
    records = tuple(RemoveDelegationTokenRecord(token_id=token_id) for token_id in islice(expired, limit))
    return ControllerResult(records, len(records) >= limit)


def owner_of(request: CreateDelegationTokenRequest, principal: str) -> str:
    """Return the owner of a requested token: the requester unless the request has another."""
    if not request.owner_principal_name:
        return principal
    return f"{request.owner_principal_type or ''}:{request.owner_principal_name}"


def has_valid_renewers(request: CreateDelegationTokenRequest) -> bool:
    """Return whether all renewers are users."""
    return all(renewer.principal_type == _USER for renewer in request.renewers)


def creation_response(owner: str, requester: str) -> CreateDelegationTokenResponse:
    """Return the response to CreateDelegationToken without a token."""
    owner_type, _, owner_name = owner.partition(":")
    requester_type, _, requester_name = requester.partition(":")
    return CreateDelegationTokenResponse(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=0,
        expiry_timestamp_ms=0,
        max_timestamp_ms=0,
        token_id="",
        hmac=b"",
    )


def _find(image: MetadataImage, token_hmac: bytes, rules: TokenRules) -> DelegationToken | ErrorCode:
    if rules.hmacs is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    return rules.hmacs.find(image.delegation_tokens, token_hmac) or ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def _at_most(wanted_ms: int, limit_ms: int) -> int:
    return min(wanted_ms, limit_ms) if wanted_ms > 0 else limit_ms


def _sum(now_ms: int, duration_ms: int) -> int:
    return min(now_ms + duration_ms, _MAX_MS)
