"""Delegation tokens for the commands."""

from __future__ import annotations

import argparse
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas._arguments import did_you_mean
from barnabas.commands._client import send
from barnabas.commands._offsets import duration_ms
from barnabas.commands._output import CommandError, Report, explain_code
from barnabas.commands._token_messages import messages
from barnabas.commands._transactions import time_text

if TYPE_CHECKING:
    from barnabas.commands._admin import Admin

SERVERS_CHOICE = -1
"""The period that stands for the broker's setting."""
_MAX_ID_CHARS = 32
"""An id has 22 characters; the HMAC, which is a secret, 88 in base64."""
_HIDDEN, _IDS = "a long TOKEN", "write the ids of tokens, not their HMACs; `barnabas token list` has the ids"
_REASONS = {
    61: "delegation tokens are disabled: brokers and controllers need delegation.token.secret.key",
    63: "only the owner and the renewers of a token can do this",
    64: "tokens are for clients that authenticate, and not by a token: see --command-config",
    65: "this user may not request tokens for that owner: it needs CREATE_TOKENS on it",
    66: "the token has expired",
}


class Token(NamedTuple):
    """A token; principals are `type:name`, times in ms since 1970."""

    token_id: str
    owner: str
    requester: str
    renewers: list[str]
    issued_ms: int
    expires_ms: int
    max_ms: int
    hmac: bytes

    def row(self, *, with_hmac: bool) -> dict[str, Any]:
        """Return the token for a table or JSON."""
        secret = {"hmac": b64encode(self.hmac).decode()} if with_hmac else {}
        return {
            "token": self.token_id,
            "owner": self.owner,
            "requester": self.requester,
            "renewers": self.renewers,
            "issued": time_text(self.issued_ms),
            "expires": time_text(self.expires_ms),
            "max": time_text(self.max_ms),
            **secret,
        }


COLUMNS = ("token", "owner", "requester", "renewers", "issued", "expires", "max")


def period_ms(text: str) -> int:
    """Parse a period of at least a second, such as 90s or 7d, in ms."""
    found = duration_ms(text)
    if found <= 0:
        raise argparse.ArgumentTypeError(f"{text!r}: the least is 1s")
    return found


def create_token(client: Admin, owner: str | None, renewers: Iterable[str], max_lifetime_ms: int) -> Token:
    """Return a new token; CommandError if there is none."""
    request_class = messages("Create").request
    owner_type, owner_name = (None, None) if owner is None else _parts(owner)
    renewer = request_class.CreatableRenewers
    split = [_parts(one) for one in renewers]
    response = send(
        client,
        request_class(
            owner_principal_type=owner_type,
            owner_principal_name=owner_name,
            renewers=[renewer(principal_type=kind, principal_name=name) for kind, name in split],
            max_lifetime_ms=max_lifetime_ms,
            min_version=1 if owner is None else 3,
        ),
    )
    _check(response.error_code)
    asked = f"{response.principal_type}:{response.principal_name}"
    requester = f"{response.token_requester_principal_type}:{response.token_requester_principal_name}"
    return Token(
        response.token_id,
        asked,
        asked if requester == ":" else requester,
        [f"{kind}:{name}" for kind, name in split],
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
        response.hmac,
    )


def list_tokens(client: Admin, owners: Iterable[str] | None = None) -> list[Token]:
    """Return the tokens of which these principals, or any, are owners or renewers; those that the user may see."""
    request_class = messages("Describe").request
    owner = request_class.DescribeDelegationTokenOwner
    wanted = None
    if owners is not None:
        wanted = [owner(principal_type=kind, principal_name=name) for kind, name in map(_parts, owners)]
    response = send(client, request_class(owners=wanted, min_version=1))
    _check(response.error_code)
    found = [
        Token(
            token.token_id,
            f"{token.principal_type}:{token.principal_name}",
            f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
            [f"{renewer.principal_type}:{renewer.principal_name}" for renewer in token.renewers],
            token.issue_timestamp,
            token.expiry_timestamp,
            token.max_timestamp,
            token.hmac,
        )
        for token in response.tokens
    ]
    return sorted(found, key=lambda token: (token.owner, token.issued_ms, token.token_id))


def renew_token(client: Admin, token: Token, period_ms: int) -> int:
    """Return the new expiry of a token in ms since 1970; CommandError if it is refused."""
    request_class = messages("Renew").request
    response = send(client, request_class(hmac=token.hmac, renew_period_ms=period_ms, min_version=1))
    _check(response.error_code)
    return int(response.expiry_timestamp_ms)


def expire_token(client: Admin, token: Token, period_ms: int) -> int:
    """Return the new expiry of a token; a negative period removes it. CommandError if it is refused."""
    request_class = messages("Expire").request
    request = request_class(hmac=token.hmac, expiry_time_period_ms=period_ms, min_version=1)
    response = send(client, request)
    _check(response.error_code)
    return int(response.expiry_timestamp_ms)


def change_tokens(client: Admin, report: Report, token_ids: Iterable[str], change: Callable[[Token], object]) -> None:
    """Call `change` with each of these tokens, which reports it; report those that are refused, or that do not exist.

    A change is refused by CommandError.
    """
    found, missing = find_tokens(token_ids, list_tokens(client))
    for token_id, why in missing.items():
        report.failed(*((_HIDDEN, _IDS) if len(token_id) > _MAX_ID_CHARS else (token_id, why)))
    for token in found:
        try:
            change(token)
        except CommandError as error:
            report.failed(token.token_id, str(error))


def find_tokens(wanted: Iterable[str], existing: Iterable[Token]) -> tuple[list[Token], dict[str, str]]:
    """Return the tokens with these ids, and an error message for each id that the user sees no token of."""
    by_id = {token.token_id: token for token in existing}
    ids = list(dict.fromkeys(wanted))
    missing = {
        token_id: f"this user sees no such token{did_you_mean(token_id, by_id)}"
        for token_id in ids
        if token_id not in by_id
    }
    return [by_id[token_id] for token_id in ids if token_id in by_id], missing


def _parts(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name


def _check(code: int) -> None:
    if code:
        raise CommandError(_REASONS.get(code) or explain_code(code))
