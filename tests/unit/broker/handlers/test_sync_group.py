from __future__ import annotations

from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest
from tests.unit.broker.group_node import GroupNode

KEY = ApiKey.SYNC_GROUP


@pytest.fixture
def member(group_node: GroupNode) -> str:
    result: str = group_node.wait(group_node.host().join()).member_id
    return result


def sync(node: GroupNode, version: int, member_id: str, **changes: Any) -> Any:
    assignment = SyncGroupRequest.Assignment(member_id=member_id, assignment=b"all")
    fields: dict[str, Any] = {
        "group_id": "g",
        "generation_id": 1,
        "member_id": member_id,
        "assignments": [assignment],
    }
    if version >= 5:
        fields |= {"protocol_type": "consumer", "protocol_name": "range"}
    return node.answer(KEY, version, **(fields | changes))


@pytest.mark.parametrize("version", range(6))
def test_assignment_is_returned(group_node: GroupNode, member: str, version: int) -> None:
    answer = sync(group_node, version, member)
    assert (answer.error_code, answer.assignment) == (0, b"all")
    assert answer.protocol_name == ("range" if version >= 5 else None)


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_protocol_is_required_from_version_5(group_node: GroupNode, member: str, missing: str) -> None:
    answer = sync(group_node, 5, member, **{missing: None})
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_protocol_must_match_the_group(group_node: GroupNode, member: str) -> None:
    answer = sync(group_node, 5, member, protocol_name="sticky")
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(6))
def test_another_generation_is_refused(group_node: GroupNode, member: str, version: int) -> None:
    answer = sync(group_node, version, member, generation_id=7)
    assert (answer.error_code, answer.assignment) == (ErrorCode.ILLEGAL_GENERATION, b"")


def test_group_with_another_coordinator_is_refused(group_node: GroupNode) -> None:
    assert sync(group_node, 4, "m").error_code == ErrorCode.NOT_COORDINATOR
