from __future__ import annotations

import logging

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest
from tests.unit.broker.group_node import GroupNode

KEY = ApiKey.LEAVE_GROUP
Member = LeaveGroupRequest.Member


@pytest.mark.parametrize("version", range(3))
def test_one_member_leaves(group_node: GroupNode, version: int) -> None:
    member = group_node.host().stable_member()
    assert group_node.answer(KEY, version, group_id="g", member_id=member).error_code == 0
    assert group_node.state() == "Empty"


@pytest.mark.parametrize("version", range(3))
def test_error_of_a_single_member_is_the_response_error(group_node: GroupNode, version: int) -> None:
    group_node.host().stable_member()
    answer = group_node.answer(KEY, version, group_id="g", member_id="stranger")
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [3, 4, 5])
def test_each_leaving_member_has_its_own_result(group_node: GroupNode, version: int) -> None:
    group_node.host().stable_member(instance="A")
    leaving = [Member(member_id="", group_instance_id="A"), Member(member_id="stranger")]
    answer = group_node.answer(KEY, version, group_id="g", members=leaving)
    assert answer.error_code == 0
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in answer.members] == [
        ("", "A", 0),
        ("stranger", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert group_node.state() == "Empty"


def test_leave_of_unknown_group_is_refused(group_node: GroupNode) -> None:
    group_node.host()
    answer = group_node.answer(KEY, 3, group_id="g", members=[Member(member_id="m")])
    assert (answer.error_code, answer.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("version", [2, 3])
def test_a_group_without_a_name_is_refused(group_node: GroupNode, version: int) -> None:
    assert group_node.host().answer(KEY, version, group_id="").error_code == ErrorCode.INVALID_GROUP_ID


def test_the_reason_of_a_leave_is_logged_from_version_5(
    group_node: GroupNode, caplog: pytest.LogCaptureFixture
) -> None:
    group_node.host().stable_member(instance="A")
    leaving = Member(member_id="", group_instance_id="A", reason="the consumer is closed")
    with caplog.at_level(logging.DEBUG, "broker.coordinator.group"):
        group_node.answer(KEY, 5, group_id="g", members=[leaving])
    assert "(the consumer is closed)" in caplog.text
