"""Transcripts of the controller's rules for delegation tokens.

settings [key=K] [lifetime=10h] [expiry=4h]     the settings from now on; no tokens without a key
create by=User:a [owner=User:o] [renewers=(User:r)] [lifetime=1h]
                                                a token is requested; its name in the transcript is t1, t2, ...
renew token=t1 by=User:a [period=1h]
expire token=t1 by=User:a [period=1h]           without a period the token is removed
hours to=5                                      it is so many hours after the start
sweep [limit=1]                                 remove expired tokens
failover                                        another controller, with the same key and log, becomes active

Times are in hours since the start. Each step prints its response, and the tokens if they changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.commands.controller_result import ControllerResult, R
from controller.commands.delegation_tokens import (
    create_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
    sweep_expired_delegation_tokens,
)
from controller.delegation_tokens import TokenHmacs, TokenRules
from controller.image import MetadataImage
from controller.image_builder import apply_records
from protocol.errors import ErrorCode
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

if TYPE_CHECKING:
    from protocol.schema import Message
    from tests.scripts.conftest import Script, Step

HOUR_MS = 3_600_000


class Machine:
    """A controller and its metadata log."""

    def __init__(self) -> None:
        self.log: list[Message] = []
        self.image = MetadataImage(cluster_id="cluster")
        self.now_ms = 0
        self.hmacs_seen: dict[str, bytes] = {}
        self.key = ""
        self.rules = TokenRules(None, 0, 0)

    def __call__(self, step: Step) -> str:
        before = self.tokens()
        response: str = getattr(self, step.command)(step)
        after = self.tokens()
        return "\n".join([response, *(after or ["no tokens"])] if after != before else [response])

    def tokens(self) -> list[str]:
        return [
            f"{token.token_id}: {token.owner} by {token.requester}, renewed by [{', '.join(token.renewers)}], "
            f"until {_hours(token.expiry_ms)}, at most {_hours(token.max_ms)}"
            for token in self.image.delegation_tokens.values()
        ]

    def apply(self, result: ControllerResult[R]) -> R:
        self.log += result.records
        self.image = apply_records(self.image, result.records, offset=len(self.log), epoch=1)
        return result.response

    def settings(self, step: Step) -> str:
        self.key = step.get("key")
        hmacs = TokenHmacs(self.key) if self.key else None
        self.rules = TokenRules(hmacs, _ms(step.get("lifetime", "10h")), _ms(step.get("expiry", "4h")))
        return ""

    def create(self, step: Step) -> str:
        def principals(name: str) -> list[tuple[str, str]]:
            return [(text.partition(":")[0], text.partition(":")[2]) for text in step.list(name)]

        ((owner_type, owner),) = principals("owner") or [("", "")]
        request = CreateDelegationTokenRequest(
            owner_principal_type=owner_type,
            owner_principal_name=owner,
            renewers=[
                CreateDelegationTokenRequest.Renewer(principal_type=kind, principal_name=name)
                for kind, name in principals("renewers")
            ],
            max_lifetime_ms=_ms(step.get("lifetime", "-1")),
        )
        response = self.apply(
            create_delegation_token(
                self.image,
                request,
                self.rules,
                principal=step.required("by"),
                token_id=f"t{len(self.hmacs_seen) + 1}",
                now_ms=self.now_ms,
            )
        )
        if response.error_code:
            return ErrorCode(response.error_code).name
        self.hmacs_seen[response.token_id] = response.hmac
        return f"{response.token_id} of {response.principal_type}:{response.principal_name}"

    def renew(self, step: Step) -> str:
        request = RenewDelegationTokenRequest(hmac=self.hmac(step), renew_period_ms=_ms(step.get("period", "-1")))
        response = self.apply(
            renew_delegation_token(self.image, request, self.rules, principal=step.required("by"), now_ms=self.now_ms)
        )
        return _expiry(response.error_code, response.expiry_timestamp_ms)

    def expire(self, step: Step) -> str:
        request = ExpireDelegationTokenRequest(
            hmac=self.hmac(step), expiry_time_period_ms=_ms(step.get("period", "-1"))
        )
        response = self.apply(
            expire_delegation_token(self.image, request, self.rules, principal=step.required("by"), now_ms=self.now_ms)
        )
        return _expiry(response.error_code, response.expiry_timestamp_ms)

    def hours(self, step: Step) -> str:
        self.now_ms = _ms(step.required("to") + "h")
        return ""

    def sweep(self, step: Step) -> str:
        more = self.apply(sweep_expired_delegation_tokens(self.image, self.now_ms, step.int("limit", 1_000)))
        return "more may have expired" if more else "done"

    def failover(self, _step: Step) -> str:
        self.image = apply_records(MetadataImage(cluster_id="cluster"), self.log, offset=len(self.log), epoch=2)
        self.rules = self.rules._replace(hmacs=TokenHmacs(self.key))
        return ""

    def hmac(self, step: Step) -> bytes:
        return self.hmacs_seen.get(step.required("token"), b"unknown")


def _ms(text: str) -> int:
    return int(float(text[:-1]) * HOUR_MS) if text.endswith("h") else int(text)


def _hours(time_ms: int) -> str:
    return f"{time_ms / HOUR_MS:g}h"


def _expiry(error: int, expiry_ms: int) -> str:
    return ErrorCode(error).name if error else f"expires at {_hours(expiry_ms)}"


def test_transcript(script: Script) -> None:
    script.run(Machine())
