"""Limits of times of delegation tokens; their rules are the transcripts of `tests/scripts/tokens`."""

from __future__ import annotations

from controller.commands.delegation_tokens import (
    MAX_RECORD_BYTES,
    create_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
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
