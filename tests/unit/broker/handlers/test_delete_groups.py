from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.group_node import GroupNode

KEY = ApiKey.DELETE_GROUPS


@pytest.mark.parametrize("version", range(3))
def test_each_group_has_its_own_result(group_node: GroupNode, version: int) -> None:
    group_node.host().stable_member("busy")
    group_node.wait(group_node.commit(5))
    answer = group_node.answer(KEY, version, groups_names=["busy", "g", "nobody", "g"])
    assert [(one.group_id, one.error_code) for one in answer.results] == [
        ("busy", ErrorCode.NON_EMPTY_GROUP),
        ("g", ErrorCode.NONE),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert group_node.state("busy") == "Stable"
    assert group_node.state("g") is None


def test_group_with_another_coordinator_is_refused(group_node: GroupNode) -> None:
    [answer] = group_node.answer(KEY, 2, groups_names=["g"]).results
    assert answer.error_code == ErrorCode.NOT_COORDINATOR


def test_response_waits_until_all_deletions_are_committed(group_node: GroupNode) -> None:
    group_node.host(replicated=True)
    committing = group_node.commit(5)
    group_node.replicate()
    assert group_node.wait(committing) == [ErrorCode.NONE]
    deleting = group_node.node.loop.create_task(group_node.node.ask(KEY, 2, groups_names=["g"]))
    group_node.settle()
    assert not deleting.done()
    group_node.replicate()
    assert group_node.wait(deleting).results[0].error_code == ErrorCode.NONE
