"""Delegation tokens under any changes, across controllers, against a few lines of obvious code."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.commands.controller_result import Command
from controller.commands.delegation_tokens import (
    create_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
    sweep_expired_delegation_tokens,
)
from controller.delegation_tokens import TokenHmacs, TokenRules
from controller.image import MetadataImage
from controller.image_builder import apply_records
from controller.image_delta import difference
from controller.snapshot import image_records
from protocol.errors import ErrorCode
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from protocol.schema import Message

MAX_MS, EXPIRY_MS = 100, 40
EMPTY = MetadataImage(cluster_id="c")
NONE, NOT_FOUND = ErrorCode.NONE, ErrorCode.DELEGATION_TOKEN_NOT_FOUND
USERS = st.sampled_from(["User:a", "User:b"])
PERIODS = st.sampled_from([-1, 0, 5, 30, 60, 130])
TOKENS = st.integers(0, 2)

STEPS = st.one_of(
    st.tuples(st.just("create"), USERS, st.lists(USERS, max_size=2), PERIODS),
    st.tuples(st.just("renew"), USERS, TOKENS, PERIODS),
    st.tuples(st.just("expire"), USERS, TOKENS, PERIODS),
    st.tuples(st.just("wait"), st.integers(1, 60)),
    st.tuples(st.just("sweep")),
    st.tuples(st.just("failover")),
    st.tuples(st.just("snapshot")),
)


class Model:
    """Owner, renewers, maximum and expiry of each token."""

    def __init__(self) -> None:
        self.tokens: dict[str, tuple[str, list[str], int, int]] = {}
        self.now = 0

    def create(self, token: str, user: str, renewers: list[str], lifetime: int) -> None:
        most = self.now + (min(lifetime, MAX_MS) if lifetime > 0 else MAX_MS)
        self.tokens[token] = user, renewers, most, min(most, self.now + EXPIRY_MS)

    def change(self, kind: str, user: str, token: str, period: int) -> ErrorCode:
        if token not in self.tokens:
            return NOT_FOUND
        owner, renewers, most, expiry = self.tokens[token]
        removes = kind == "expire" and period < 0
        is_over, is_stranger = self.now > expiry, user not in (owner, *renewers)
        refusals = [(is_over and not removes, ErrorCode.DELEGATION_TOKEN_EXPIRED)]
        refusals.append((is_stranger, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH))
        for applies, code in refusals if kind == "renew" else reversed(refusals):
            if applies:
                return code
        if removes:
            del self.tokens[token]
            return NONE
        if kind == "renew":
            period = min(period, EXPIRY_MS) if period > 0 else EXPIRY_MS
        self.tokens[token] = owner, renewers, most, min(most, self.now + period)
        return NONE

    def sweep(self) -> None:
        self.tokens = {token: kept for token, kept in self.tokens.items() if self.now <= kept[3]}


class Controllers:
    """The log, and the image and the HMACs of the active controller."""

    def __init__(self) -> None:
        self.log: list[Message] = []
        self.image = EMPTY
        self.rules = TokenRules(TokenHmacs("key"), MAX_MS, EXPIRY_MS)
        self.hmacs: list[bytes] = []

    def apply(self, command: Command[Any]) -> Any:
        records, response = command(self.image)
        self.log += records
        self.image = apply_records(self.image, records, offset=len(self.log), epoch=1)
        return response

    def fail_over(self) -> None:
        self.rules = self.rules._replace(hmacs=TokenHmacs("key"))
        self.image = apply_records(EMPTY, self.log, offset=len(self.log), epoch=1)

    def continue_from_a_snapshot(self, before: MetadataImage) -> None:
        """A node that has fallen behind, at `before`, gets the newest image as a difference."""
        records = list(difference(before, self.image))
        assert apply_records(before, records, offset=0, epoch=1).delegation_tokens == self.image.delegation_tokens
        self.image = apply_records(EMPTY, image_records(self.image), offset=len(self.log), epoch=1)


@settings(deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_tokens_are_those_of_the_model_after_any_steps(steps: list[Any]) -> None:
    model, real, before = Model(), Controllers(), EMPTY
    for step in steps:
        now = model.now
        match step:
            case ("create", user, renewers, lifetime):
                token = str(len(real.hmacs))
                of = [
                    CreateDelegationTokenRequest.Renewer(principal_type="User", principal_name=one[-1])
                    for one in renewers
                ]
                creation = CreateDelegationTokenRequest(renewers=of, max_lifetime_ms=lifetime)
                command = partial(create_delegation_token, request=creation, rules=real.rules)
                created = real.apply(partial(command, principal=user, token_id=token, now_ms=now))
                real.hmacs.append(created.hmac)
                model.create(token, user, renewers, lifetime)
            case ("renew" | "expire" as kind, user, number, period):
                known = number < len(real.hmacs)
                hmac = real.hmacs[number] if known else b"?"
                change: Any = (
                    partial(
                        renew_delegation_token, request=RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period)
                    )
                    if kind == "renew"
                    else partial(
                        expire_delegation_token,
                        request=ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period),
                    )
                )
                changed = real.apply(partial(change, rules=real.rules, principal=user, now_ms=now))
                assert changed.error_code == model.change(kind, user, str(number), period)
            case ("wait", time):
                model.now += time
            case ("sweep",):
                assert real.apply(partial(sweep_expired_delegation_tokens, now_ms=now)) is False
                model.sweep()
            case ("failover",):
                real.fail_over()
            case ("snapshot",):
                real.continue_from_a_snapshot(before)
                before = real.image
        found = {
            token.token_id: (token.owner, list(token.renewers), token.max_ms, token.expiry_ms)
            for token in real.image.delegation_tokens.values()
        }
        assert found == model.tokens
