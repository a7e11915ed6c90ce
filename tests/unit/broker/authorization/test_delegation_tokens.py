"""Who may request and see delegation tokens."""

from __future__ import annotations

import pytest

from broker.authorization.delegation_tokens import guard_description
from broker.handlers.delegation_tokens import describe_delegation_token
from broker.network.connection import RequestContext
from controller.delegation_tokens import TokenHmacs
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from protocol.records.metadata import DelegationTokenRecord
from tests.unit.broker.guarded_node import ALICE, GuardedNode
from tests.unit.broker.handlers.test_delegation_tokens import BOB, CAROL, create, principals, shown


def test_a_token_for_another_owner_needs_create_tokens_on_that_user(guarded: GuardedNode) -> None:
    refused = create(guarded, owner="bob")
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")
    assert (refused.issue_timestamp_ms, refused.token_id, refused.hmac) == (-1, "", b"")
    guarded.add("allow User:alice CREATE_TOKENS USER:User:bob")
    assert create(guarded, owner="bob").error_code == 0
    assert create(guarded, owner="carol").error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


def test_a_client_sees_tokens_of_its_own_to_renew_and_by_entries(guarded: GuardedNode) -> None:
    mine = create(guarded).token_id
    renewed = create(guarded, principal=BOB, renewers=principals("alice")).token_id
    others = create(guarded, principal=BOB).token_id
    assert shown(guarded, ALICE) == [mine, renewed]
    assert shown(guarded, CAROL) == []
    assert shown(guarded, ALICE, owners=principals("bob")) == [renewed]
    assert shown(guarded, ALICE, owners=[]) == []
    entry = guarded.add(f"allow User:alice DESCRIBE DELEGATION_TOKEN:{others}")
    assert shown(guarded, ALICE) == [mine, renewed, others]
    guarded.remove(*entry)
    assert shown(guarded, ALICE) == [mine, renewed]
    guarded.add("allow User:carol CREATE_TOKENS USER:User:dave")
    requested = create(guarded, principal=CAROL, owner="dave").token_id
    for version in (1, 3):
        assert shown(guarded, CAROL, version) == [requested]
    assert shown(guarded, "User:dave") == [requested]
    guarded.add("allow User:carol DESCRIBE_TOKENS USER:User:bob")
    assert shown(guarded, CAROL) == [renewed, others, requested]


def test_only_the_tokens_that_a_client_may_see_are_described(
    guarded: GuardedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = create(guarded).token_id
    for _ in range(5):
        create(guarded, principal=BOB)
    hashed: list[str] = []
    of = TokenHmacs.of

    def counted(self: TokenHmacs, token_id: str) -> bytes:
        hashed.append(token_id)
        return of(self, token_id)

    monkeypatch.setattr(TokenHmacs, "of", counted)
    assert shown(guarded, CAROL) == []
    assert hashed == []
    assert shown(guarded, ALICE) == [mine]
    assert hashed == [mine]


def test_many_tokens_are_described_in_steps(guarded: GuardedNode) -> None:
    records = [
        DelegationTokenRecord(
            owner=ALICE if number % 2 else BOB,
            requester=BOB,
            renewers=[],
            issue_timestamp=0,
            max_timestamp=1 << 60,
            expiration_timestamp=1 << 60,
            token_id=str(number),
        )
        for number in range(2000)
    ]
    guarded.node.commit(*records)
    context = RequestContext(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, 1, None, 1, "SASL", "127.0.0.1", ALICE)
    request = DescribeDelegationTokenRequest(owners=None)
    handle = describe_delegation_token
    pending = guard_description(guarded.authorizer, handle, guarded.node.broker, context, request)
    assert not hasattr(pending, "tokens")
    mine = [str(number) for number in range(1, 2000, 2)]
    assert [token.token_id for token in guarded.node.wait(pending).tokens] == mine
    assert shown(guarded, ALICE) == mine
