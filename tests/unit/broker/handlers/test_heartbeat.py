from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.group_node import GroupNode

KEY = ApiKey.HEARTBEAT


@pytest.mark.parametrize("version", range(5))
def test_a_member_of_the_generation_may_go_on(group_node: GroupNode, version: int) -> None:
    member = group_node.host().stable_member()
    answer = group_node.answer(KEY, version, group_id="g", generation_id=1, member_id=member)
    assert answer.error_code == 0


@pytest.mark.parametrize("version", range(5))
def test_one_of_another_generation_may_not(group_node: GroupNode, version: int) -> None:
    member = group_node.host().stable_member()
    answer = group_node.answer(KEY, version, group_id="g", generation_id=2, member_id=member)
    assert answer.error_code == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", [3, 4])
def test_another_process_with_the_instance_is_fenced(group_node: GroupNode, version: int) -> None:
    group_node.host().stable_member(instance="A")
    answer = group_node.answer(KEY, version, group_id="g", generation_id=1, member_id="other", group_instance_id="A")
    assert answer.error_code == ErrorCode.FENCED_INSTANCE_ID
