from __future__ import annotations

from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.group_node import GroupNode

VERSIONS = range(7)
READ_DELETE_DESCRIBE_AND_CONFIGS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


def describe(node: GroupNode, version: int, group: str = "g", **fields: Any) -> Any:
    [answer] = node.answer(ApiKey.DESCRIBE_GROUPS, version, groups=[group], **fields).groups
    assert answer.group_id == group
    return answer


@pytest.mark.parametrize("version", VERSIONS)
def test_stable_group_has_metadata_and_assignments(group_node: GroupNode, version: int) -> None:
    member_id = group_node.host().stable_member(instance="A")
    answer = describe(group_node, version)
    assert (answer.error_code, answer.group_state) == (0, "Stable")
    assert (answer.protocol_type, answer.protocol_data) == ("consumer", "range")
    [member] = answer.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "c", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"m", b"all")
    assert member.group_instance_id == ("A" if version >= 4 else None)


@pytest.mark.parametrize("version", VERSIONS)
def test_metadata_is_empty_during_a_rebalance(group_node: GroupNode, version: int) -> None:
    group_node.host().stable_member()
    group_node.join()
    answer = describe(group_node, version)
    assert (answer.group_state, answer.protocol_data) == ("PreparingRebalance", "")
    assert [member.member_metadata for member in answer.members] == [b"", b""]


def test_a_simple_group_is_empty(group_node: GroupNode) -> None:
    group_node.wait(group_node.host().commit(5))
    answer = describe(group_node, 5)
    assert (answer.group_state, answer.protocol_type, answer.members) == ("Empty", "", [])


@pytest.mark.parametrize("version", range(6))
def test_a_group_that_does_not_exist_is_dead(group_node: GroupNode, version: int) -> None:
    answer = describe(group_node.host(), version)
    assert (answer.error_code, answer.group_state) == (0, "Dead")


def test_from_version_6_a_group_that_does_not_exist_is_not_found(group_node: GroupNode) -> None:
    answer = describe(group_node.host(), 6)
    assert (answer.error_code, answer.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert answer.error_message == "Group g not found."


def test_group_with_another_coordinator_fails_alone(group_node: GroupNode) -> None:
    answer = describe(group_node, 5)
    assert (answer.error_code, answer.group_state) == (ErrorCode.NOT_COORDINATOR, "")


@pytest.mark.parametrize(("asked", "operations"), [(True, READ_DELETE_DESCRIBE_AND_CONFIGS), (False, -(2**31))])
def test_authorized_operations_of_groups_are_returned_if_requested(
    group_node: GroupNode, asked: bool, operations: int
) -> None:
    group_node.host().stable_member()
    assert describe(group_node, 5, include_authorized_operations=asked).authorized_operations == operations
