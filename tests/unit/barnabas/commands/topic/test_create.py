import re

import pytest


def described(barnabas, topic: str) -> list[str]:
    """Return the lines that describe a topic, runs of blanks as one."""
    return [re.sub(r" +", " ", line).strip() for line in barnabas("topic", "describe", topic).lines]


def test_a_created_topic_is_listed_and_described(barnabas, topic):
    assert barnabas("topic", "create", topic) == (0, f"created {topic}\n", "")
    assert topic in barnabas("topic", "list").lines
    about, *table = described(barnabas, topic)
    assert re.fullmatch(rf"{topic} id=\S+ partitions=1", about)
    assert table == ["PARTITION LEADER EPOCH REPLICAS IN SYNC", "0 1 0 [1] [1]"]


def test_partitions_are_given_for_each_topic_or_for_all(barnabas, topic):
    barnabas("topic", "create", f"{topic}-a:2", f"{topic}-b", "--partitions", "3", "--config", "retention.ms=-1")
    assert len(described(barnabas, f"{topic}-a")) == 3 + 2
    assert len(described(barnabas, f"{topic}-b")) == 3 + 3
    assert described(barnabas, f"{topic}-a")[1] == "retention.ms=-1"


def test_one_topic_that_exists_does_not_keep_others_from_being_created(barnabas, topic):
    barnabas("topic", "create", topic)
    status, out, err = barnabas("topic", "create", topic, f"{topic}-2")
    assert (status, out) == (1, f"created {topic}-2\n")
    assert err == f"barnabas topic: {topic}: Topic '{topic}' already exists.\n"


def test_an_existing_topic_may_be_no_error(barnabas, topic):
    barnabas("topic", "create", topic)
    assert barnabas("topic", "create", topic, "--if-not-exists") == (0, "", "")


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("--config=nope=1", "Unknown topic config name: nope"),
        ("--config=retention.ms=soon", "Invalid value soon for configuration retention.ms: Not a number of type LONG"),
        ("--replication-factor=3", "only 1 broker(s) are registered"),
    ],
)
def test_what_the_broker_refuses_is_told_in_its_words(barnabas, topic, option, complaint):
    status, out, err = barnabas("topic", "create", topic, option)
    assert (status, out) == (1, "")
    assert err.startswith(f"barnabas topic: {topic}: ")
    assert complaint in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["create", "t:0"], "'0' is not a number of at least 1"),
        (["create", "t:"], "'' is not a number of at least 1"),
        (["create", "t", "--partitions", "-3"], "'-3' is not a number of at least 1"),
        (["create", "t", "--config", "retention.ms"], "'retention.ms': write it as NAME=VALUE"),
        (["create"], "the following arguments are required"),
        (["alter", "t"], "nothing to alter: give --partitions, --config or --reset"),
        (["grow", "t"], "invalid choice: 'grow'"),
    ],
)
def test_a_wrong_call_is_told_before_any_broker_is_asked(call, arguments, complaint):
    status, out, err = call("topic", *arguments)
    assert (status, out) == (2, "")
    assert complaint in err


def test_altered_configs_are_described_until_they_are_reset(barnabas, topic):
    barnabas("topic", "create", topic)
    assert barnabas("topic", "alter", topic, "-c", "retention.ms=1000") == (0, f"altered {topic}\n", "")
    assert "retention.ms=1000" in described(barnabas, topic)
    barnabas("topic", "alter", topic, "--reset", "retention.ms")
    assert "retention.ms=1000" not in described(barnabas, topic)


def test_partitions_are_added(barnabas, topic):
    barnabas("topic", "create", topic)
    assert barnabas("topic", "alter", topic, "--partitions", "4").status == 0
    assert described(barnabas, topic)[-1] == "3 1 0 [1] [1]"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["-c", "retention.ms=soon"], "Not a number of type LONG"),
        (["-c", "nope=1"], "nope"),
        (["-p", "1"], "Topic already has 1 partition(s)."),
    ],
)
def test_an_alteration_that_is_refused_is_not_called_one(barnabas, topic, options, complaint):
    barnabas("topic", "create", topic)
    status, out, err = barnabas("topic", "alter", topic, *options)
    assert (status, out) == (1, "")
    assert err.startswith(f"barnabas topic: {topic}: ")
    assert complaint in err


def test_a_topic_that_does_not_exist_is_named_and_the_others_are_served(barnabas, topic):
    barnabas("topic", "create", topic)
    for action, *options in (["describe"], ["alter", "-c", "retention.ms=1"], ["alter", "-p", "2"], ["delete"]):
        status, out, err = barnabas("topic", action, "missing", topic, *options)
        assert status == 1
        assert topic in out
        assert err.startswith("barnabas topic: missing: ")
        assert len(err.splitlines()) == 1


def test_a_deleted_topic_is_gone(barnabas, topic):
    barnabas("topic", "create", topic)
    assert barnabas("topic", "delete", topic) == (0, f"deleted {topic}\n", "")
    assert topic not in barnabas("topic", "list").lines
