import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.delete_acls import DeleteAclsRequest
from tests.unit.broker.node import Node


@pytest.mark.parametrize("version", range(1, 4))
def test_each_filter_is_refused(node: Node, version: int) -> None:
    filters = [
        DeleteAclsRequest.Filter(
            resource_type_filter=2,
            resource_name_filter=name,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        for name in ("a", "b")
    ]
    response = node.answer(ApiKey.DELETE_ACLS, version, filters=filters)
    assert [result.error_code for result in response.filter_results] == [ErrorCode.SECURITY_DISABLED] * 2
