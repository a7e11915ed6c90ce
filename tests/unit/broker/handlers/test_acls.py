"""Access control entries are created, deleted and described; without an authorizer they are refused."""

from __future__ import annotations

from typing import Any

import pytest

from controller.acls.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsRequest
from tests.authorization.matrix import ADMIN
from tests.unit.broker.guarded_node import GuardedNode
from tests.unit.broker.node import Node

VERSIONS = range(1, 4)
ANY = 1
TOPIC, READ, ALLOW = AclResourceType.TOPIC, AclOperation.READ, AclPermissionType.ALLOW
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
EVERY_ACL: dict[str, Any] = {
    "principal_filter": None, "host_filter": None, "operation": ANY, "permission_type": ANY
}  # fmt: skip
EVERYTHING: dict[str, Any] = {
    "resource_type_filter": ANY, "resource_name_filter": None, "pattern_type_filter": ANY, **EVERY_ACL
}  # fmt: skip


def creation(name: str, principal: str = "User:bob", **changes: Any) -> dict[str, Any]:
    fields = {"resource_type": TOPIC, "resource_name": name, "resource_pattern_type": LITERAL, "principal": principal}
    return {**fields, "host": "*", "operation": READ, "permission_type": ALLOW, **changes}


def create(guarded: GuardedNode, version: int, *creations: dict[str, Any]) -> list[tuple[int, str | None]]:
    response = guarded.ask(ApiKey.CREATE_ACLS, version, principal=ADMIN, creations=list(creations))
    return [(result.error_code, result.error_message) for result in response.results]


def described(guarded: GuardedNode, version: int, **changes: Any) -> list[tuple[int, str, int, list[str]]]:
    response = guarded.ask(ApiKey.DESCRIBE_ACLS, version, principal=ADMIN, **(EVERYTHING | changes))
    assert (response.error_code, response.error_message) == (0, "")
    return sorted(
        (one.resource_type, one.resource_name, one.pattern_type, sorted(acl.principal for acl in one.acls))
        for one in response.resources
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_created_entries_are_described_by_resource_until_they_are_deleted(guarded: GuardedNode, version: int) -> None:
    new = [
        creation("t"),
        creation("t", "User:eve"),
        creation("t", resource_pattern_type=PREFIXED),
        creation("g", resource_type=AclResourceType.GROUP),
    ]
    assert create(guarded, version, *new) == [(0, "")] * 4
    assert described(guarded, version) == [
        (TOPIC, "t", LITERAL, ["User:bob", "User:eve"]),
        (TOPIC, "t", PREFIXED, ["User:bob"]),
        (AclResourceType.GROUP, "g", LITERAL, ["User:bob"]),
    ]
    filters = [EVERYTHING | {"principal_filter": "User:eve"}, EVERYTHING | {"resource_name_filter": "nothing"}]
    first, second = guarded.ask(ApiKey.DELETE_ACLS, version, principal=ADMIN, filters=filters).filter_results
    [deleted] = first.matching_acls
    assert (first.error_code, first.error_message, second.error_code, second.matching_acls) == (0, None, 0, [])
    assert (deleted.resource_name, deleted.pattern_type, deleted.principal, deleted.host) == (
        "t", LITERAL, "User:eve", "*"
    )  # fmt: skip
    assert (deleted.operation, deleted.permission_type, deleted.error_code) == (READ, ALLOW, 0)
    assert (TOPIC, "t", LITERAL, ["User:bob"]) in described(guarded, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_invalid_entry_fails_alone(guarded: GuardedNode, version: int) -> None:
    results = create(guarded, version, creation("", "User:bob"), creation("t"), creation("t", "bob"))
    assert [code for code, _ in results] == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
    assert described(guarded, version) == [(TOPIC, "t", LITERAL, ["User:bob"])]


def test_a_filter_selects_what_is_described(guarded: GuardedNode) -> None:
    create(guarded, 3, creation("t"), creation("other"), creation("t", host="10.0.0.7"), creation("t", "User:eve"))
    assert described(guarded, 3, resource_name_filter="other") == [(TOPIC, "other", LITERAL, ["User:bob"])]
    assert described(guarded, 3, host_filter="10.0.0.7") == [(TOPIC, "t", LITERAL, ["User:bob"])]
    assert described(guarded, 3, operation=AclOperation.WRITE) == []


@pytest.mark.parametrize("field", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"])
def test_a_filter_with_unknown_is_invalid(guarded: GuardedNode, field: str) -> None:
    response = guarded.ask(ApiKey.DESCRIBE_ACLS, 3, principal=ADMIN, **(EVERYTHING | {field: 0}))
    assert (response.error_code, response.resources) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("key", "fields", "message"),
    [
        (
            ApiKey.CREATE_ACLS,
            {"creations": [CreateAclsRequest.Creation(**creation("t"))]},
            "No Authorizer is configured.",
        ),
        (ApiKey.DELETE_ACLS, {"filters": [DeleteAclsRequest.Filter(**EVERYTHING)]}, "No Authorizer is configured."),
        (ApiKey.DESCRIBE_ACLS, EVERYTHING, "No Authorizer is configured on the broker"),
    ],
)
def test_acls_are_refused_without_an_authorizer(
    node: Node, key: ApiKey, version: int, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(KafkaError, match=message) as refused:
        node.answer(key, version, **fields)
    assert refused.value.code is ErrorCode.SECURITY_DISABLED
