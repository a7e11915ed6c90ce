"""Limits of times of delegation tokens; their rules are the transcripts of `tests/scripts/tokens`."""

from __future__ import annotations

import pytest

from controller.commands.delegation_tokens import (
    MAX_RECORD_BYTES,
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

LARGEST = 2**63 - 1
RULES = TokenRules(TokenHmacs("k"), LARGEST, LARGEST)
EMPTY = MetadataImage(cluster_id="c")


def test_times_end_with_the_largest_number() -> None:
    request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=LARGEST)
    records, created = create_delegation_token(EMPTY, request, RULES, principal="User:a", token_id="t", now_ms=1000)
    assert created.expiry_timestamp_ms == created.max_timestamp_ms == LARGEST
    image = apply_records(EMPTY, records, offset=0, epoch=1)
    renewal = RenewDelegationTokenRequest(hmac=created.hmac, renew_period_ms=LARGEST)
    _, renewed = renew_delegation_token(image, renewal, RULES, principal="User:a", now_ms=2000)
    assert renewed.expiry_timestamp_ms == LARGEST
    expiry = ExpireDelegationTokenRequest(hmac=created.hmac, expiry_time_period_ms=LARGEST)
    _, expired = expire_delegation_token(image, expiry, RULES, principal="User:a", now_ms=2000)
    assert expired.expiry_timestamp_ms == LARGEST


def test_an_owner_without_a_name_is_the_requester() -> None:
    request = CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="", renewers=[], max_lifetime_ms=-1
    )
    (record,), created = create_delegation_token(EMPTY, request, RULES, principal="User:a", token_id="t", now_ms=0)
    assert (created.principal_type, created.principal_name) == ("User", "a")
    assert getattr(record, "owner") == getattr(record, "requester") == "User:a"  # noqa: B009


def test_a_token_that_would_fill_the_metadata_log_with_renewers_is_refused() -> None:
    renewer = CreateDelegationTokenRequest.Renewer
    for size, is_created in ((MAX_RECORD_BYTES - 100, True), (MAX_RECORD_BYTES, False)):
        request = CreateDelegationTokenRequest(
            renewers=[renewer(principal_type="User", principal_name="a" * size)], max_lifetime_ms=-1
        )
        records, created = create_delegation_token(EMPTY, request, RULES, principal="User:a", token_id="t", now_ms=0)
        error = ErrorCode.NONE if is_created else ErrorCode.RECORD_LIST_TOO_LARGE
        assert (len(records), created.error_code, bool(created.hmac)) == (is_created, error, is_created)


def issued(max_lifetime_ms: int = -1, rules: TokenRules = RULES, now_ms: int = 1000) -> tuple[MetadataImage, bytes]:
    """Return the metadata with a token of User:a, and its HMAC."""
    request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=max_lifetime_ms)
    records, created = create_delegation_token(EMPTY, request, rules, principal="User:a", token_id="t", now_ms=now_ms)
    return apply_records(EMPTY, records, offset=0, epoch=1), created.hmac


def test_renewers_of_another_type_than_users_are_refused() -> None:
    renewers = [
        CreateDelegationTokenRequest.Renewer(principal_type=kind, principal_name="b") for kind in ("User", "Group")
    ]
    request = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1)
    records, created = create_delegation_token(EMPTY, request, RULES, principal="User:a", token_id="t", now_ms=0)
    assert (records, created.error_code) == ((), ErrorCode.INVALID_PRINCIPAL_TYPE)
    assert (created.token_id, created.hmac, created.expiry_timestamp_ms) == ("", b"", 0)


@pytest.mark.parametrize(("wanted_ms", "lifetime_ms"), [(-1, 500), (0, 500), (1, 1), (499, 499), (501, 500)])
def test_lifetime_is_the_wanted_one_up_to_the_longest(wanted_ms: int, lifetime_ms: int) -> None:
    image, _ = issued(wanted_ms, RULES._replace(max_lifetime_ms=500))
    assert image.delegation_tokens["t"].max_ms == 1000 + lifetime_ms


@pytest.mark.parametrize(("period_ms", "expiry_ms"), [(-1, None), (0, 1000), (1, 1001), (501, 1500)])
def test_expiry_is_at_most_the_end_of_the_lifetime_and_a_negative_one_removes_the_token(
    period_ms: int, expiry_ms: int | None
) -> None:
    image, token_hmac = issued(500)
    request = ExpireDelegationTokenRequest(hmac=token_hmac, expiry_time_period_ms=period_ms)
    records, response = expire_delegation_token(image, request, RULES, principal="User:a", now_ms=1000)
    tokens = apply_records(image, records, offset=1, epoch=1).delegation_tokens
    assert (response.error_code, response.expiry_timestamp_ms) == (ErrorCode.NONE, expiry_ms or 1000)
    assert {token.expiry_ms for token in tokens.values()} == ({expiry_ms} if expiry_ms else set())


def test_token_that_has_expired_is_not_prolonged_but_can_be_removed() -> None:
    image, token_hmac = issued(500)
    renewal = RenewDelegationTokenRequest(hmac=token_hmac, renew_period_ms=1)
    for now_ms, error in ((1500, ErrorCode.NONE), (1501, ErrorCode.DELEGATION_TOKEN_EXPIRED)):
        _, renewed = renew_delegation_token(image, renewal, RULES, principal="User:a", now_ms=now_ms)
        assert renewed.error_code == error
        for period_ms in (0, 1000):
            expiry = ExpireDelegationTokenRequest(hmac=token_hmac, expiry_time_period_ms=period_ms)
            _, expired = expire_delegation_token(image, expiry, RULES, principal="User:a", now_ms=now_ms)
            assert expired.error_code == error
    removal = ExpireDelegationTokenRequest(hmac=token_hmac, expiry_time_period_ms=-1)
    records, _ = expire_delegation_token(image, removal, RULES, principal="User:a", now_ms=1501)
    assert len(records) == 1


def test_sweep_removes_expired_tokens_up_to_its_limit() -> None:
    image, _ = issued(500)
    sweeps = [
        sweep_expired_delegation_tokens(image, now_ms, limit) for now_ms, limit in ((1500, 1), (1501, 1), (1501, 2))
    ]
    assert [(len(records), has_more) for records, has_more in sweeps] == [(0, False), (1, True), (1, False)]
