from __future__ import annotations

from tests.unit.barnabas.conftest import Command


def test_deleted_topic_is_not_listed(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    assert barnabas("topic", "delete", topic) == (0, f"deleted {topic}\n", "")
    assert topic not in barnabas("topic", "list", "-q").lines


def test_dry_run_lists_the_topics_to_delete(barnabas: Command, topic: str) -> None:
    barnabas("produce", topic, stdin=b"a\nb\n")
    shown = barnabas("topic", "delete", topic, "--dry-run")
    assert shown == (0, f"would delete {topic}: 1 partition, 2 records\n", "")
    assert topic in barnabas("topic", "list", "-q").lines


def test_an_internal_topic_is_deleted_by_force_only(barnabas: Command, topic: str) -> None:
    assert barnabas("produce", topic, stdin=b"a\n").status == 0
    assert barnabas("consume", topic, "-g", topic, "-c", "1").out == "a\n"
    name = "__consumer_offsets"
    why = "an internal topic, used by groups; --force deletes it"
    assert barnabas("topic", "delete", name) == (1, "", f"barnabas topic delete: {name}: {why}\n")
    assert barnabas("topic", "delete", name, "--dry-run").status == 1
    assert barnabas("topic", "delete", name, "--dry-run", "--force").out.startswith(f"would delete {name}: ")


def test_pattern_deletes_matching_topics(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", f"{topic}-a", f"{topic}-b", topic)
    assert barnabas("topic", "delete", f"^{topic}-").lines == [f"deleted {topic}-a", f"deleted {topic}-b"]
    assert topic in barnabas("topic", "list", "-q").lines


def test_missing_topic_is_named_and_the_others_are_deleted(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    assert barnabas("topic", "delete", "missing", topic) == (
        1,
        f"deleted {topic}\n",
        "barnabas topic delete: missing: there is no such topic\n",
    )
    assert barnabas("topic", "delete", "missing", "--if-exists") == (0, "", "")
    assert barnabas("topic", "delete", "^nothing-is-so") == (
        1,
        "",
        "barnabas topic delete: ^nothing-is-so: no topic matches\n",
    )
