import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.node import Node


@pytest.mark.parametrize("version", range(1, 4))
def test_no_acls_are_described(node: Node, version: int) -> None:
    response = node.answer(
        ApiKey.DESCRIBE_ACLS,
        version,
        resource_type_filter=1,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    assert (response.error_code, response.resources) == (ErrorCode.SECURITY_DISABLED, [])
    assert response.error_message == "No Authorizer is configured on the broker"
