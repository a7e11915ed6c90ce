from __future__ import annotations

import pytest

from barnabas.commands._groups import Group, refuse_active
from barnabas.commands._output import CommandError


@pytest.mark.parametrize("state", ["Empty", "Dead"])
def test_a_group_that_nobody_is_in_may_be_changed(state: str) -> None:
    refuse_active(Group("g", state, None, []))


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "CompletingRebalance"])
def test_an_active_one_may_not(state: str) -> None:
    with pytest.raises(CommandError, match=f"g is {state} with 2 members: stop its consumers first"):
        refuse_active(Group("g", state, None, [{}, {}]))
