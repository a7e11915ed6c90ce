import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.node import Node


@pytest.mark.parametrize("version", range(1, 4))
def test_unauthenticated_client_is_refused(node: Node, version: int) -> None:
    response = node.answer(ApiKey.DESCRIBE_DELEGATION_TOKEN, version, owners=None)
    assert (response.error_code, response.tokens) == (ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, [])
