"""Delegation tokens, without authentication."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.node import Node


def create(node: ControllerNode, version: int, **owner: str) -> Any:
    response = node.query(ApiKey.CREATE_DELEGATION_TOKEN, version, renewers=[], max_lifetime_ms=-1, **owner)
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return response


@pytest.mark.parametrize("version", range(1, 4))
def test_unauthenticated_client_creates_no_token(controlled: ControllerNode, version: int) -> None:
    response = create(controlled, version)
    assert (response.principal_type, response.principal_name) == ("User", "ANONYMOUS")
    assert (response.issue_timestamp_ms, response.token_id, response.hmac) == (-1, "", b"")


def test_response_names_owner_and_requester(controlled: ControllerNode) -> None:
    response = create(controlled, 3, owner_principal_type="User", owner_principal_name="me")
    assert (response.principal_type, response.principal_name) == ("User", "me")
    assert response.token_requester_principal_name == "ANONYMOUS"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("key", "period"),
    [
        (ApiKey.RENEW_DELEGATION_TOKEN, {"renew_period_ms": 1000}),
        (ApiKey.EXPIRE_DELEGATION_TOKEN, {"expiry_time_period_ms": 1000}),
    ],
)
def test_unauthenticated_client_alters_no_token(node: Node, key: ApiKey, version: int, period: dict[str, Any]) -> None:
    response = node.answer(key, version, hmac=b"token", **period)
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert response.expiry_timestamp_ms == -1


@pytest.mark.parametrize("version", range(1, 4))
def test_unauthenticated_client_is_shown_no_tokens(node: Node, version: int) -> None:
    with pytest.raises(KafkaError) as refused:
        node.answer(ApiKey.DESCRIBE_DELEGATION_TOKEN, version, owners=None)
    assert refused.value.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
