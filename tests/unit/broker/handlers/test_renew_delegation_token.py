import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.node import Node


@pytest.mark.parametrize("version", [1, 2])
def test_unauthenticated_client_is_refused(node: Node, version: int) -> None:
    response = node.answer(ApiKey.RENEW_DELEGATION_TOKEN, version, hmac=b"token", renew_period_ms=1000)
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert response.expiry_timestamp_ms == -1
