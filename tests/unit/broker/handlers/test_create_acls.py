import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.create_acls import CreateAclsRequest
from tests.unit.broker.node import Node


@pytest.mark.parametrize("version", range(1, 4))
def test_each_acl_creation_is_refused(node: Node, version: int) -> None:
    creations = [
        CreateAclsRequest.Creation(
            resource_type=2, resource_name=name, principal="User:me", host="*", operation=3, permission_type=3
        )
        for name in ("a", "b")
    ]
    response = node.answer(ApiKey.CREATE_ACLS, version, creations=creations)
    assert [result.error_code for result in response.results] == [ErrorCode.SECURITY_DISABLED] * 2
