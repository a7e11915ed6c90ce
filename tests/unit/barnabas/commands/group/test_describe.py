import re

import pytest
from kafka import KafkaConsumer


@pytest.fixture
def group(barnabas, topic) -> str:
    """A group, named as its topic, that has read two of three records."""
    barnabas("produce", topic, stdin=b"1\n2\n3\n")
    barnabas("consume", topic, "-g", topic, "-n", "2")
    return topic


def cells(line: str) -> list[str]:
    return re.split(r"  +", line.strip())


def test_groups_are_listed_with_their_states(barnabas, group):
    header, *rows = map(cells, barnabas("group", "list").lines)
    assert header == ["GROUP", "STATE", "TYPE"]
    assert [group, "Empty", "classic"] in rows


def test_offsets_and_lag_of_a_group_without_members(barnabas, group):
    about, header, row = map(cells, barnabas("group", "describe", group).lines)
    assert about == [group, "state=Empty", "protocol=-", "members=0"]
    assert header == ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "HOST"]
    assert row == [group, "0", "2", "3", "1", "-", "-"]


def test_members_are_shown_with_what_they_are_assigned(barnabas, group, shared_broker):
    member = KafkaConsumer(group, group_id=group, client_id="me", bootstrap_servers=shared_broker.bootstrap)
    try:
        while not member.assignment():
            member.poll(100)
        about, _, row = map(cells, barnabas("group", "describe", group).lines)
    finally:
        member.close()
    assert about == [group, "state=Stable", "protocol=range", "members=1"]
    assert row[:2] == [group, "0"]
    assert re.fullmatch(r"me-[0-9a-f-]{36}", row[5])
    assert row[6] in ("127.0.0.1", "/127.0.0.1")


def test_a_group_that_does_not_exist_is_named(barnabas, group):
    status, out, err = barnabas("group", "describe", "missing", group)
    assert status == 1
    assert out.startswith(group)
    assert err == "barnabas group: there is no group missing\n"


def test_describe_asks_for_a_group(call):
    status, _, err = call("group", "describe")
    assert status == 2
    assert "the following arguments are required: group" in err
