from __future__ import annotations

import json

import pytest

from tests.unit.barnabas.conftest import Command


def test_a_created_topic_is_listed(barnabas: Command, topic: str) -> None:
    assert barnabas("topic", "create", topic) == (0, f"created {topic}\n", "")
    assert topic in barnabas("topic", "list", "-q").lines


def test_partitions_are_given_for_each_topic_or_for_all(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", f"{topic}-a:2", f"{topic}-b", "--partitions", "3", "--config", "retention.ms=-1")
    first, second = json.loads(barnabas("topic", "describe", f"{topic}-a", f"{topic}-b", "--json").out)
    assert (len(first["partitions"]), len(second["partitions"])) == (2, 3)
    assert second["configs"] == {"retention.ms": "-1"}


def test_one_topic_that_exists_does_not_keep_others_from_being_created(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    status, out, err = barnabas("topic", "create", topic, f"{topic}-2")
    assert (status, out) == (1, f"created {topic}-2\n")
    assert err == f"barnabas topic create: {topic}: Topic '{topic}' already exists.\n"


def test_existing_topic_can_be_accepted(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    assert barnabas("topic", "create", topic, "--if-not-exists") == (0, "", "")
    assert barnabas("topic", "create", f"{topic}:1", "--if-not-exists") == (0, "", "")
    note = (
        f"barnabas topic create: {topic} exists with 1 partition, not 7; `barnabas topic alter {topic} --partitions 7` "
    )
    note += "adds the others\n"
    assert barnabas("topic", "create", f"{topic}:7", "--if-not-exists") == (0, "", note)


def test_a_dry_run_creates_nothing(barnabas: Command, topic: str) -> None:
    assert barnabas("topic", "create", topic, "--dry-run") == (0, f"would create {topic}\n", "")
    assert topic not in barnabas("topic", "list", "-q").lines


def test_json_output_has_the_partition_count(barnabas: Command, topic: str) -> None:
    shown = barnabas("topic", "create", f"{topic}:2", "--json")
    assert json.loads(shown.out) == [{"name": topic, "result": "created", "partitions": 2}]


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("--config=nope=1", "Unknown topic config name: nope"),
        ("--config=retention.ms=soon", "Invalid value soon for configuration retention.ms: Not a number of type LONG"),
        ("--replication-factor=3", "only 1 broker(s) are registered"),
    ],
)
def test_refusal_is_reported_with_the_message_of_the_broker(
    barnabas: Command, topic: str, option: str, complaint: str
) -> None:
    status, out, err = barnabas("topic", "create", topic, option)
    assert (status, out) == (1, "")
    assert err.startswith(f"barnabas topic create: {topic}: ")
    assert complaint in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["t:0"], "'0' is not a number of at least 1"),
        (["t:"], "'' is not a number of at least 1"),
        (["t", "--partitions", "-3"], "'-3' is not a number of at least 1"),
        (["t", "--config", "retention.ms"], "'retention.ms': write it as NAME=VALUE"),
        ([], "the following arguments are required"),
    ],
)
def test_wrong_call_is_reported_without_a_connection(call: Command, arguments: list[str], complaint: str) -> None:
    status, out, err = call("topic", "create", *arguments)
    assert (status, out) == (2, "")
    assert complaint in err


def test_mistyped_setting_of_a_new_topic_gets_a_suggestion(barnabas: Command, topic: str) -> None:
    shown = barnabas("topic", "create", topic, "-c", "retention.mss=1")
    assert shown.status == 1
    assert shown.err.endswith("; did you mean retention.ms?\n")


def test_partitions_given_twice_are_a_wrong_call(call: Command) -> None:
    status, out, err = call("topic", "create", "w:3", "-p", "4")
    assert (status, out) == (2, "")
    assert "w:3 and --partitions 4: leave out one of them" in err


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        (["topic", "create", "t:99999999999999999999"], "2,147,483,647"),
        (["topic", "create", f"t:{'9' * 5000}"], "2,147,483,647"),
        (["topic", "create", "t", "-r", "99999999"], "32,767"),
        (["topic", "alter", "t", "-p", "99999999999999"], "2,147,483,647"),
        (["topic", "add-partitions", "t", "-n", "99999999999999"], "2,147,483,647"),
        (["topic", "list", "-m", "99999999999"], "2,147,483 seconds"),
        (["cluster", "--watch", "1e30"], "2,147,483 seconds"),
        (["health", "--interval", "1e300", "--watch"], "2,147,483 seconds"),
    ],
)
def test_number_beyond_its_request_field_is_refused(call: Command, arguments: list[str], most: str) -> None:
    status, out, err = call(*arguments)
    assert (status, out) == (2, "")
    assert err.endswith(f": the most is {most}\n")


def test_partition_limit_of_a_request_is_named(barnabas: Command, topic: str) -> None:
    shown = barnabas("topic", "create", topic, "-p", "20000", "--dry-run")
    assert shown.err.endswith("Excessively large number of partitions per request: the most is 10,000.\n")
    barnabas("topic", "create", topic)
    shown = barnabas("topic", "add-partitions", topic, "-n", str(2**31 - 1))
    assert shown.err.endswith(f"{topic}: it would have 2,147,483,648 partitions; the most is 2,147,483,647\n")
