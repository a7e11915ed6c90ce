from __future__ import annotations

import json

from tests.unit.barnabas.conftest import Command


def test_topics_are_listed_with_partitions_and_replicas(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", f"{topic}:3")
    header, *rows = [line.split() for line in barnabas("topic", "list").lines]
    assert header == ["TOPIC", "PARTITIONS", "REPLICAS"]
    assert [topic, "3", "1"] in rows


def test_topics_are_selected_by_pattern_or_names(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", f"{topic}-a", f"{topic}-b")
    assert barnabas("topic", "list", "-q", f"^{topic}-[ab]$").lines == [f"{topic}-a", f"{topic}-b"]
    assert barnabas("topic", "list", "-q", f"{topic}-b").lines == [f"{topic}-b"]
    assert barnabas("topic", "list", "-q", "missing") == (
        1,
        "",
        "barnabas topic list: missing: there is no such topic\n",
    )


def test_internal_topics_are_listed_on_request(barnabas: Command, topic: str) -> None:
    barnabas("produce", topic, stdin=b"x\n")
    barnabas("consume", topic, "-g", topic, "-e")
    assert "__consumer_offsets" not in barnabas("topic", "list", "-q").lines
    assert "__consumer_offsets" in barnabas("topic", "list", "-q", "--internal").lines


def test_topic_list_is_printed_as_json(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    (row,) = json.loads(barnabas("topic", "list", topic, "--json").out)
    assert row == {"topic": topic, "partitions": 1, "replicas": 1, "internal": False}


def test_invalid_pattern_is_a_wrong_call(barnabas: Command) -> None:
    status, _, err = barnabas("topic", "list", "^(")
    assert status == 2
    assert "is not a regular expression" in err


def test_a_topic_that_does_not_exist_is_named_without_a_table(barnabas: Command) -> None:
    assert barnabas("topic", "list", "missing") == (1, "", "barnabas topic list: missing: there is no such topic\n")


def test_a_pattern_that_no_topic_matches_is_an_error(barnabas: Command) -> None:
    shown = barnabas("topic", "list", "^nosuch")
    assert (shown.status, shown.out) == (1, "")
    assert shown.err == "barnabas topic list: ^nosuch: no topic matches\n"
