from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.group_node import GroupNode

KEY = ApiKey.HEARTBEAT


@pytest.mark.parametrize("version", range(5))
def test_heartbeat_of_the_current_generation_succeeds(group_node: GroupNode, version: int) -> None:
    member = group_node.host().stable_member()
    answer = group_node.answer(KEY, version, group_id="g", generation_id=1, member_id=member)
    assert answer.error_code == 0


@pytest.mark.parametrize("version", range(5))
def test_heartbeat_of_another_generation_is_refused(group_node: GroupNode, version: int) -> None:
    member = group_node.host().stable_member()
    answer = group_node.answer(KEY, version, group_id="g", generation_id=2, member_id=member)
    assert answer.error_code == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", [3, 4])
def test_other_member_with_the_same_instance_id_is_fenced(group_node: GroupNode, version: int) -> None:
    group_node.host().stable_member(instance="A")
    answer = group_node.answer(KEY, version, group_id="g", generation_id=1, member_id="other", group_instance_id="A")
    assert answer.error_code == ErrorCode.FENCED_INSTANCE_ID
