from __future__ import annotations

from typing import Any

import pytest

from barnabas.commands._groups import OFFSETS, GroupView, not_listed, refuse_active
from barnabas.commands._output import CommandError


@pytest.mark.parametrize("state", ["Empty", "Dead"])
def test_group_without_members_can_be_changed(state: str) -> None:
    refuse_active(GroupView("g", state, None, []))


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "CompletingRebalance"])
def test_active_group_cannot_be_changed(state: str) -> None:
    with pytest.raises(CommandError, match=f"g is {state} with 2 members: stop its consumers first"):
        refuse_active(GroupView("g", state, None, [{}, {}]))


def offsets(*leaders: int) -> list[dict[str, Any]]:
    partitions = [{"partition_index": n, "leader_id": one, "error_code": 0} for n, one in enumerate(leaders)]
    return [{"name": OFFSETS, "error_code": 0, "partitions": partitions}]


def test_groups_of_an_unreachable_coordinator_are_reported_as_unknown() -> None:
    why = f"the groups of 2 partitions of {OFFSETS} are unknown: no coordinator answers"
    assert not_listed(offsets(1, 2, -1), away=[2]) == why
    assert not_listed(offsets(1, 1), away=[2]) is None
    assert not_listed([{"name": OFFSETS, "error_code": 3, "partitions": []}], away=[]) is None
