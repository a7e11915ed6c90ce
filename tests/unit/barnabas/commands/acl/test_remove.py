from __future__ import annotations

from tests.unit.barnabas.conftest import Command

READ = ("--allow-principal", "User:a", "--operation", "read")


def test_only_the_named_entry_is_removed(guarded: Command, topic: str) -> None:
    guarded("acl", "add", *READ, "--operation", "write", "--topic", topic)
    assert guarded("acl", "remove", *READ, "--topic", topic) == (0, f"removed ALLOW User:a READ on topic/{topic}\n", "")
    (entry,) = guarded("acl", "list", "--topic", topic).lines[1:]
    assert "WRITE" in entry


def test_all_entries_of_a_resource_are_removed_by_its_short_name(guarded: Command, topic: str) -> None:
    guarded("acl", "add", *READ, "--deny-principal", "User:b", "--topic", topic)
    guarded("acl", "add", *READ, "--topic", f"{topic}-2")
    assert guarded("acl", "rm", "--topic", topic).lines == [
        f"removed ALLOW User:a READ on topic/{topic}",
        f"removed DENY User:b READ on topic/{topic}",
    ]
    assert len(guarded("acl", "list", "--topic", topic).lines) == 1
    assert len(guarded("acl", "list", "--topic", f"{topic}-2").lines) == 2


def test_a_dry_run_removes_nothing(guarded: Command, topic: str) -> None:
    guarded("acl", "add", *READ, "--topic", topic)
    shown = guarded("acl", "remove", "--topic", topic, "--dry-run")
    assert shown == (0, f"would remove ALLOW User:a READ on topic/{topic}\n", "")
    assert len(guarded("acl", "list", "--topic", topic).lines) == 2


def test_an_entry_that_two_filters_match_is_reported_once(guarded: Command, topic: str) -> None:
    guarded("acl", "add", *READ, "--topic", topic)
    wanted = ("--topic", topic, "--topic", topic)
    assert guarded("acl", "remove", *wanted, "--dry-run").lines == [f"would remove ALLOW User:a READ on topic/{topic}"]
    assert guarded("acl", "remove", *wanted) == (0, f"removed ALLOW User:a READ on topic/{topic}\n", "")


def test_a_filter_without_matching_entries_fails(guarded: Command, topic: str) -> None:
    guarded("acl", "add", *READ, "--topic", topic)
    shown = guarded("acl", "remove", "--allow-principal", "User:a", "--topic", topic)
    assert (shown.status, shown.out) == (1, "")
    assert f"ALLOW User:a ALL on topic/{topic}: no entry matches" in shown.err


def test_operations_without_a_principal_are_refused(call: Command) -> None:
    shown = call("acl", "remove", "--topic", "t", "--operation", "read")
    assert (shown.status, shown.out) == (2, "")
    assert "need a principal" in shown.err
