"""Who may request and see delegation tokens."""

from __future__ import annotations

from protocol.errors import ErrorCode
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
