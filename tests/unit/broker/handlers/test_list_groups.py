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
        hosting.node.ask(ApiKey.LIST_GROUPS, 4)


def test_failed_load_is_an_error_beside_the_loaded_groups(hosting: GroupNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CoordinatorRuntime, "failures", {0: "damaged"})
    response = hosting.node.answer(ApiKey.LIST_GROUPS, 4)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert sorted(group.group_id for group in response.groups) == ["simple", "stable"]
