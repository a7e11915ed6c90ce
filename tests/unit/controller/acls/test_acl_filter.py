"""Filters of DescribeAcls and DeleteAcls."""

from __future__ import annotations

import pytest

from controller.acls.acl import AclResourceType, PatternType
from controller.acls.acl_filter import AclFilter
from protocol.errors import ErrorCode, KafkaError
from tests.unit.controller.acls.entries import acl
from tests.unit.controller.acls.test_acls_image import EVERYTHING


def by_name(name: str, pattern_type: PatternType) -> AclFilter:
    return EVERYTHING._replace(resource_type=AclResourceType.TOPIC, resource_name=name, pattern_type=pattern_type)


@pytest.mark.parametrize(
    ("pattern_type", "found"),
    [
        (PatternType.LITERAL, ["TOPIC:abc"]),
        (PatternType.PREFIXED, ["TOPIC:abc*"]),
        (PatternType.ANY, ["TOPIC:abc", "TOPIC:abc*"]),
        (PatternType.MATCH, ["TOPIC:abc", "TOPIC:abc*", "TOPIC:a*", "TOPIC:*"]),
    ],
)
def test_the_pattern_type_says_what_a_name_means(pattern_type: PatternType, found: list[str]) -> None:
    resources = ["TOPIC:abc", "TOPIC:abc*", "TOPIC:a*", "TOPIC:abcd*", "TOPIC:*", "TOPIC:b", "GROUP:abc"]
    wanted = by_name("abc", pattern_type)
    assert [name for name in resources if wanted.matches(acl(f"allow User:a READ {name}"))] == found


@pytest.mark.parametrize("field", ["resource_type", "pattern_type", "operation", "permission_type"])
@pytest.mark.parametrize("value", [0, 99, -1])
def test_an_unknown_number_is_an_invalid_request(field: str, value: int) -> None:
    EVERYTHING.check()
    with pytest.raises(KafkaError, match=r"Unknown .*Filter") as raised:
        AclFilter(**EVERYTHING._asdict() | {field: value}).check()
    assert raised.value.code is ErrorCode.INVALID_REQUEST
