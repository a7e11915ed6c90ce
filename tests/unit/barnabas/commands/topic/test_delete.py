from __future__ import annotations

import pytest

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
    name, held = "__consumer_offsets", "the committed offsets and the states of all groups"
    why = "an internal topic with {}: deleting it loses them; --force deletes it"
    assert barnabas("topic", "delete", name) == (1, "", f"barnabas topic delete: {name}: {why.format(held)}\n")
    assert barnabas("topic", "delete", name, "--dry-run").status == 1
    would = barnabas("topic", "delete", name, "--dry-run", "--force").out
    assert would.startswith(f"would delete {name}: ")
    assert would.endswith(f", with {held}\n")


@pytest.mark.usefixtures("transaction_state")
def test_what_is_lost_with_the_state_of_transactions_is_named(barnabas: Command) -> None:
    name, held = "__transaction_state", "the producer ids and the open transactions of all transactional ids"
    shown = barnabas("topic", "delete", name, "--dry-run")
    why = f"{name}: an internal topic with {held}: deleting it loses them; --force deletes it"
    assert shown == (1, "", f"barnabas topic delete: {why}\n")
    assert barnabas("topic", "delete", name, "--dry-run", "--force").out.endswith(f", with {held}\n")


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
