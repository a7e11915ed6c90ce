"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from tests.unit.broker.group_node import GroupNode


@pytest.fixture
def hosting(group_node: GroupNode) -> GroupNode:
    """Host a stable consumer group and a simple group."""
    group_node.host().stable_member("stable")
    group_node.wait(group_node.commit(5, group="simple"))
    return group_node


def listed(node: GroupNode, version: int, **filters: Any) -> list[tuple[Any, ...]]:
    answer = node.answer(ApiKey.LIST_GROUPS, version, **filters)
    assert answer.error_code == 0
    return sorted((one.group_id, one.protocol_type, one.group_state, one.group_type) for one in answer.groups)


@pytest.mark.parametrize("version", range(6))
def test_all_groups_are_listed(hosting: GroupNode, version: int) -> None:
    kind = "classic" if version >= 5 else ""
    assert listed(hosting, version) == [
        ("simple", "", "Empty" if version >= 4 else "", kind),
        ("stable", "consumer", "Stable" if version >= 4 else "", kind),
    ]


@pytest.mark.parametrize(
    ("states", "groups"),
    [(["Stable"], ["stable"]), (["empty ", "DEAD"], ["simple"]), (["Nonsense"], []), ([], ["simple", "stable"])],
)
def test_groups_are_filtered_by_state(hosting: GroupNode, states: list[str], groups: list[str]) -> None:
    assert [group[0] for group in listed(hosting, 4, states_filter=states)] == groups


@pytest.mark.parametrize(
    ("types", "groups"),
    [(["Classic"], ["simple", "stable"]), (["consumer"], []), (["consumer", "classic"], ["simple", "stable"])],
)
def test_groups_are_filtered_by_type(hosting: GroupNode, types: list[str], groups: list[str]) -> None:
    assert [group[0] for group in listed(hosting, 5, types_filter=types)] == groups


def test_no_groups_are_listed_while_loading(hosting: GroupNode) -> None:
    hosting.restart()
    with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        hosting.node.query(ApiKey.LIST_GROUPS, 4)


def test_failed_load_is_an_error_beside_the_loaded_groups(hosting: GroupNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CoordinatorRuntime, "failures", {0: "damaged"})
    response = hosting.node.answer(ApiKey.LIST_GROUPS, 4)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert sorted(group.group_id for group in response.groups) == ["simple", "stable"]


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


@pytest.mark.parametrize(("requested", "operations"), [(True, READ_DELETE_DESCRIBE_AND_CONFIGS), (False, -(2**31))])
def test_authorized_operations_of_groups_are_returned_if_requested(
    group_node: GroupNode, requested: bool, operations: int
) -> None:
    group_node.host().stable_member()
    assert describe(group_node, 5, include_authorized_operations=requested).authorized_operations == operations


@pytest.mark.parametrize("version", range(3))
def test_each_group_has_its_own_result(group_node: GroupNode, version: int) -> None:
    group_node.host().stable_member("busy")
    group_node.wait(group_node.commit(5))
    answer = group_node.answer(ApiKey.DELETE_GROUPS, version, groups_names=["busy", "g", "unknown_client", "g"])
    assert [(one.group_id, one.error_code) for one in answer.results] == [
        ("busy", ErrorCode.NON_EMPTY_GROUP),
        ("g", ErrorCode.NONE),
        ("unknown_client", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert group_node.state("busy") == "Stable"
    assert group_node.state("g") is None


def test_group_with_another_coordinator_is_not_deleted(group_node: GroupNode) -> None:
    [answer] = group_node.answer(ApiKey.DELETE_GROUPS, 2, groups_names=["g"]).results
    assert answer.error_code == ErrorCode.NOT_COORDINATOR


def test_response_waits_until_all_deletions_are_committed(group_node: GroupNode) -> None:
    group_node.host(replicated=True)
    committing = group_node.commit(5)
    group_node.replicate()
    assert group_node.wait(committing) == [ErrorCode.NONE]
    deleting = group_node.node.loop.create_task(group_node.node.query(ApiKey.DELETE_GROUPS, 2, groups_names=["g"]))
    group_node.settle()
    assert not deleting.done()
    group_node.replicate()
    assert group_node.wait(deleting).results[0].error_code == ErrorCode.NONE
