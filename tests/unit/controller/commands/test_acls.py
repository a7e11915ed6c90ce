"""CreateAcls and DeleteAcls: entries are checked one by one, created once and deleted by filters."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

from controller.acls.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from controller.commands import acls as module
from controller.commands.acls import create_acls, delete_acls
from protocol.errors import ErrorCode
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from tests.unit.controller.cluster import Cluster

INVALID = ErrorCode.INVALID_REQUEST


def creation(name: str = "t", **fields: Any) -> CreateAclsRequest.Creation:
    values: dict[str, Any] = {
        "resource_type": AclResourceType.TOPIC,
        "resource_name": name,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:a",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": AclPermissionType.ALLOW,
    }
    return CreateAclsRequest.Creation(**values | fields)


def create(cluster: Cluster, *creations: CreateAclsRequest.Creation) -> list[tuple[int, str | None]]:
    request = CreateAclsRequest(creations=list(creations))
    response = cluster.apply(partial(create_acls, request=request, random=cluster.random))
    return [(result.error_code, result.error_message) for result in response.results]


def wanted(name: str | None = None, **fields: Any) -> DeleteAclsRequest.Filter:
    values: dict[str, Any] = {
        "resource_type_filter": AclResourceType.ANY,
        "resource_name_filter": name,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": AclOperation.ANY,
        "permission_type": AclPermissionType.ANY,
    }
    return DeleteAclsRequest.Filter(**values | fields)


def delete(cluster: Cluster, *filters: DeleteAclsRequest.Filter) -> list[DeleteAclsResponse.Result]:
    response: DeleteAclsResponse = cluster.apply(partial(delete_acls, request=DeleteAclsRequest(filters=list(filters))))
    return response.filter_results


class Scripted(Random):
    """Returns bytes of the test's."""

    def __init__(self, found: list[bytes]) -> None:
        super().__init__(1)
        self._found = iter(found)

    def randbytes(self, n: int) -> bytes:
        found = next(self._found)
        assert len(found) == n
        return found


def names(cluster: Cluster) -> list[str]:
    return [acl.resource_name for acl in cluster.image.acls.by_id.values()]


def test_entries_are_created_once() -> None:
    cluster = Cluster()
    assert create(cluster, creation("a"), creation("b"), creation("a")) == [(ErrorCode.NONE, "")] * 3
    assert names(cluster) == ["a", "b"]
    assert create(cluster, creation("a"), creation("c")) == [(ErrorCode.NONE, "")] * 2
    assert names(cluster) == ["a", "b", "c"]
    assert [len(acl_id) for acl_id in cluster.image.acls.by_id] == [16] * 3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 8}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_pattern_type": 0}, "Invalid patternType UNKNOWN"),
        ({"resource_pattern_type": 1}, "Invalid patternType ANY"),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 0}, "Invalid operation UNKNOWN"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": 16}, "Invalid operation UNKNOWN"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"permission_type": 9}, "Invalid permissionType UNKNOWN"),
        ({"principal": "alice"}, "Could not parse principal from `alice` (no colon is present separating the "
                                 "principal type from the principal name)"),
    ],
)  # fmt: skip
def test_an_invalid_entry_is_refused_alone(fields: dict[str, Any], message: str) -> None:
    cluster = Cluster()
    assert create(cluster, creation(**fields), creation("good")) == [(INVALID, message), (ErrorCode.NONE, "")]
    assert names(cluster) == ["good"]


def test_operations_that_a_resource_does_not_have_and_odd_principals_are_accepted_as_by_kafka() -> None:
    cluster = Cluster()
    odd = [
        creation(operation=AclOperation.IDEMPOTENT_WRITE),
        creation(principal="User:"),
        creation(principal=":a"),
        creation(principal="User:a\nb"),
        creation(host="no address"),
        creation("kafka-cluster", resource_type=AclResourceType.CLUSTER),
        creation("User:b", resource_type=AclResourceType.USER, operation=AclOperation.CREATE_TOKENS),
    ]
    assert create(cluster, *odd) == [(ErrorCode.NONE, "")] * len(odd)
    assert len(cluster.image.acls) == len(odd)


def test_too_many_or_too_large_entries_are_refused_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ACLS_PER_REQUEST", 3)
    cluster = Cluster()
    refusal = (ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    assert create(cluster, *(creation(str(number)) for number in range(4))) == [refusal] * 4
    assert create(cluster, *(creation(str(number)) for number in range(3)))[0] == (ErrorCode.NONE, "")
    assert create(cluster, *(creation(str(number)) for number in range(6)))[0] == (ErrorCode.NONE, "")
    large = [creation(f"{number}{'x' * 32_000}") for number in range(3)]
    monkeypatch.setattr(module, "MAX_CHARACTERS_PER_REQUEST", 96_000)
    assert create(cluster, *large) == [refusal] * 3
    assert len(cluster.image.acls) == 6
    [result] = delete(cluster, wanted())
    assert (result.error_code, result.error_message, result.matching_acls) == (
        INVALID,
        "Cannot remove more than 3 acls in a single delete operation.",
        [],
    )
    assert len(cluster.image.acls) == 6


def test_ids_of_other_entries_are_not_taken() -> None:
    cluster = Cluster()
    create(cluster, creation("a"))
    [taken] = cluster.image.acls.by_id
    cluster.random = Scripted([taken, b"1" * 16, b"1" * 16, taken, b"2" * 16])
    assert create(cluster, creation("b"), creation("c")) == [(ErrorCode.NONE, "")] * 2
    assert names(cluster) == ["a", "b", "c"]


def test_limits_of_a_request_are_10_000_entries_and_4_mebibytes_of_characters() -> None:
    cluster = Cluster()
    room = (4 << 20) - len("User:a") - len("*")
    assert create(cluster, creation("x" * (room + 1)))[0][0] == ErrorCode.POLICY_VIOLATION
    assert create(cluster, creation("x" * room))[0][0] == ErrorCode.NONE
    assert create(cluster, *(creation(str(number)) for number in range(10_001)))[0][0] == ErrorCode.POLICY_VIOLATION
    assert create(cluster, *(creation(str(number)) for number in range(10_000)))[0][0] == ErrorCode.NONE
    assert len(cluster.image.acls) == 10_001


def test_entries_are_deleted_by_filters_and_each_filter_returns_its_own() -> None:
    cluster = Cluster()
    create(cluster, creation("a"), creation("b"), creation("a", resource_pattern_type=PatternType.PREFIXED))
    results = delete(
        cluster,
        wanted("a"),
        wanted("ab", pattern_type_filter=PatternType.MATCH),
        wanted("c"),
        wanted(operation=99),
        wanted("a"),
    )
    assert [(result.error_code, result.error_message, len(result.matching_acls)) for result in results] == [
        (ErrorCode.NONE, None, 2),
        (ErrorCode.NONE, None, 1),
        (ErrorCode.NONE, None, 0),
        (INVALID, "Unknown entryFilter.", 0),
        (ErrorCode.NONE, None, 2),
    ]
    [prefixed] = results[1].matching_acls
    assert (prefixed.error_code, prefixed.resource_name, prefixed.pattern_type, prefixed.principal, prefixed.host) == (
        ErrorCode.NONE,
        "a",
        PatternType.PREFIXED,
        "User:a",
        "*",
    )
    assert names(cluster) == ["b"]


def test_the_same_filters_are_evaluated_once() -> None:
    cluster = Cluster()
    create(cluster, creation("a"))
    results = delete(cluster, *(wanted() for _ in range(1000)))
    assert len(results) == 1000
    assert all(result is results[0] for result in results)
    assert names(cluster) == []
