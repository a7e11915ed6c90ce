from __future__ import annotations

from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.controller_node import ControllerNode


def create(node: ControllerNode, version: int, **owner: str) -> Any:
    response = node.ask(ApiKey.CREATE_DELEGATION_TOKEN, version, renewers=[], max_lifetime_ms=-1, **owner)
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return response


@pytest.mark.parametrize("version", range(1, 4))
def test_unauthenticated_client_is_refused(controlled: ControllerNode, version: int) -> None:
    response = create(controlled, version)
    assert (response.principal_type, response.principal_name) == ("User", "ANONYMOUS")
    assert (response.issue_timestamp_ms, response.token_id, response.hmac) == (-1, "", b"")


def test_response_names_owner_and_requester(controlled: ControllerNode) -> None:
    response = create(controlled, 3, owner_principal_type="User", owner_principal_name="me")
    assert (response.principal_type, response.principal_name) == ("User", "me")
    assert response.token_requester_principal_name == "ANONYMOUS"
