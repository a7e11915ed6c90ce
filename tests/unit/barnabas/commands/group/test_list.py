from __future__ import annotations

import json

import pytest

from tests.unit.barnabas.conftest import Command, Halved


@pytest.fixture
def group(barnabas: Command, topic: str) -> str:
    barnabas("produce", topic, stdin=b"1\n2\n3\n")
    barnabas("consume", topic, "-g", topic, "-n", "2")
    return topic


def test_groups_are_listed_with_their_states(barnabas: Command, group: str) -> None:
    header, *rows = [line.split() for line in barnabas("group", "list").lines]
    assert header == ["GROUP", "STATE", "TYPE"]
    assert [group, "Empty", "classic"] in rows


def test_groups_are_filtered_by_state(barnabas: Command, group: str) -> None:
    listed = json.loads(barnabas("group", "list", "--state", "empty", "--json").out)
    assert {"group": group, "state": "Empty", "type": "classic", "protocol_type": "consumer"} in listed
    assert group not in barnabas("group", "list", "-s", "Stable").out


def test_unknown_state_is_refused(call: Command) -> None:
    status, out, err = call("group", "list", "--state", "Idle")
    assert (status, out) == (2, "")
    assert "'Idle': write one of Stable, Empty, " in err


def test_unreachable_broker_is_reported_with_the_group_list(call: Command, halved: Halved) -> None:
    why = f"broker 1 cannot be reached at {halved.dead} (connection refused)"
    assert call("group", "list", "--json", "-b", halved.alive) == (
        1,
        "[]\n",
        f"barnabas group list: {why}\n",
    )
