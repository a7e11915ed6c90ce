from __future__ import annotations

import json

import pytest

from barnabas.commands._acls import ANY_ACL, AclBinding, delete_acls, describe_acls
from barnabas.commands._admin import Admin
from barnabas.commands.acl import add
from tests.unit.barnabas.conftest import Command


def test_entries_of_a_consumer(guarded: Command, topic: str) -> None:
    shown = guarded("acl", "add", "--allow-principal", "User:a", "--consumer", "--topic", topic, "--group", topic)
    assert (shown.status, shown.err) == (0, "")
    assert shown.lines == [
        f"added ALLOW User:a READ on topic/{topic}",
        f"added ALLOW User:a DESCRIBE on topic/{topic}",
        f"added ALLOW User:a READ on group/{topic}",
    ]
    listed = guarded("acl", "list", "--topic", topic, "--group", topic).lines
    assert [line.split() for line in listed[1:]] == [
        [f"group/{topic}", "literal", "User:a", "*", "READ", "ALLOW"],
        [f"topic/{topic}", "literal", "User:a", "*", "DESCRIBE", "ALLOW"],
        [f"topic/{topic}", "literal", "User:a", "*", "READ", "ALLOW"],
    ]


def test_a_denied_client_is_refused_until_the_entry_is_removed(guarded: Command, topic: str) -> None:
    entry = ("--deny-principal", "User:ANONYMOUS", "--deny-host", "127.0.0.1", "--operation", "write", "--topic", topic)
    assert guarded("topic", "create", topic).status == 0
    assert guarded("acl", "add", "--allow-principal", "User:*", "--topic", topic).status == 0
    assert guarded("produce", topic, stdin=b"a\n").status == 0
    assert guarded("acl", "add", *entry).out == f"added DENY User:ANONYMOUS WRITE on topic/{topic} from 127.0.0.1\n"
    refused = guarded("produce", topic, stdin=b"b\n")
    assert refused.status == 1
    assert "authoriz" in refused.err.lower()
    assert guarded("acl", "remove", *entry).status == 0
    assert guarded("produce", topic, stdin=b"c\n").status == 0
    assert guarded("consume", topic, "--exit").lines == ["a", "c"]


@pytest.mark.parametrize("option", ["--allow-principal", "--deny-principal"])
@pytest.mark.parametrize("who", ["Group:a", "user:a"])
def test_entry_of_a_principal_that_no_client_has_is_added_with_a_warning(
    guarded: Command, topic: str, option: str, who: str
) -> None:
    shown = guarded("acl", "add", option, who, option, "User:b", "--operation", "read", "--topic", topic)
    assert shown.status == 0
    assert len(shown.lines) == 2
    why = "the entry has no effect, because all clients have principals of the type User"
    assert shown.err == f"barnabas acl add: {who}: {why}; did you mean User:a?\n"


def test_a_dry_run_adds_nothing_and_names_what_exists(guarded: Command, topic: str) -> None:
    entry = ("--allow-principal", "User:a", "--topic", topic, "--operation", "read")
    guarded("acl", "add", *entry)
    shown = guarded("acl", "add", *entry, "--operation", "describe-configs", "--pattern", "literal", "--dry-run")
    assert shown.lines == [
        f"exists already: ALLOW User:a READ on topic/{topic}",
        f"would add ALLOW User:a DESCRIBE_CONFIGS on topic/{topic}",
    ]
    assert len(guarded("acl", "list", "--topic", topic).lines) == 2


def test_entries_that_exist_are_not_added_again(guarded: Command, topic: str) -> None:
    entry = ("acl", "add", "--allow-principal", "User:a", "--topic", topic, "--operation")
    guarded(*entry, "read")
    shown = guarded(*entry, "read", "--operation", "write")
    assert (shown.status, shown.err) == (0, "")
    assert shown.lines == [
        f"exists already: ALLOW User:a READ on topic/{topic}",
        f"added ALLOW User:a WRITE on topic/{topic}",
    ]
    assert guarded(*entry, "read").lines == [f"exists already: ALLOW User:a READ on topic/{topic}"]


def test_entry_that_another_client_removes_meanwhile_is_created(
    guarded: Command, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def described_and_removed(client: Admin, wanted: AclBinding) -> list[AclBinding]:
        found = describe_acls(client, wanted)
        assert delete_acls(client, found) == [[one] for one in found]
        return found

    entry = ("acl", "add", "--allow-principal", "User:a", "--topic", topic, "--operation", "read")
    assert guarded(*entry).status == 0
    monkeypatch.setattr(add, "describe_acls", described_and_removed)
    assert guarded(*entry) == (0, f"exists already: ALLOW User:a READ on topic/{topic}\n", "")
    assert len(guarded("acl", "list", "--topic", topic).lines) == 2


def test_only_entries_of_the_named_resources_are_read(
    guarded: Command, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def described(client: Admin, wanted: AclBinding) -> list[AclBinding]:
        read.append(wanted)
        return describe_acls(client, wanted)

    entry = ("acl", "add", "--allow-principal", "User:a", "--topic", topic)
    assert guarded(*entry, "--operation", "read").status == 0
    monkeypatch.setattr(add, "describe_acls", described)
    added = guarded(*entry, "--consumer", "--group", topic, "--pattern", "prefixed").lines
    assert [line.split()[0] for line in added] == ["added"] * 3
    assert read == [ANY_ACL._replace(type=kind, name=topic, pattern="prefixed") for kind in ("topic", "group")]


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        (
            ("--topic", "ord*"),
            "topic/ord*: the entry has no effect, because no topic has this name; for all names that begin with ord, "
            "write --topic ord --pattern prefixed",
        ),
        (("--topic", "a b/c"), "topic/a b/c: the entry has no effect, because no topic has this name"),
        (
            ("--topic", "a b", "--pattern", "prefixed"),
            "topic/a b: the entry has no effect, because no topic has a name that begins so",
        ),
        (
            ("--group", "read*"),
            "group/read*: the * is a part of the name; for all names that begin with read, write --group read "
            "--pattern prefixed",
        ),
    ],
)
def test_entry_of_a_name_that_is_hardly_meant_is_added_with_a_warning(
    guarded: Command, words: tuple[str, ...], warning: str
) -> None:
    shown = guarded("acl", "add", "--allow-principal", "User:a", "--operation", "read", *words)
    assert shown.status == 0
    assert shown.out.startswith("added ALLOW User:a READ on ")
    assert shown.err == f"barnabas acl add: {warning}\n"
    assert guarded("acl", "remove", "--allow-principal", "User:a", "--operation", "read", *words).status == 0


def test_json_has_the_parts_of_each_entry(guarded: Command, topic: str) -> None:
    shown = guarded(
        "acl", "add", "--allow-principal", "User:a", "--transactional-id", topic, "--pattern", "prefixed", "--json"
    )
    assert json.loads(shown.out) == [
        {
            "name": f"ALLOW User:a ALL on transactional-id/{topic} (prefixed)",
            "result": "added",
            "resource": f"transactional-id/{topic}",
            "pattern": "prefixed",
            "principal": "User:a",
            "host": "*",
            "operation": "ALL",
            "permission": "ALLOW",
        }
    ]


def test_an_entry_that_the_cluster_refuses_is_named(guarded: Command, topic: str) -> None:
    shown = guarded("acl", "add", "--allow-principal", "User:a", "--topic", topic, "--topic", "")
    assert shown.status == 1
    assert shown.out == f"added ALLOW User:a ALL on topic/{topic}\n"
    assert "ALLOW User:a ALL on topic/: " in shown.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--topic", "t"], "name a principal"),
        (["--allow-principal", "User:a"], "name a resource"),
        (["--allow-principal", "alice", "--topic", "t"], "write TYPE:NAME, such as User:alice"),
        (["--allow-principal", "User:", "--topic", "t"], "write TYPE:NAME, such as User:alice"),
        (["--allow-principal", "bob", "--topic", "t"], "write TYPE:NAME, such as User:bob"),
        (["--allow-principal", "User:a", "--topic", "t", "--operation", "reed"], "did you mean READ?"),
        (["--allow-principal", "User:a", "--group", "g", "--operation", "write"], "WRITE has no meaning for a group"),
        (["--allow-principal", "User:a", "--deny-host", "::1", "--topic", "t"], "--deny-host without --deny-principal"),
        (["--allow-principal", "User:a", "--allow-host", "db1", "--topic", "t"], "'db1' is no IP address"),
        (
            ["--allow-principal", "User:a", "--topic", "t", "--pattern", "match"],
            "'match': write one of literal, prefixed",
        ),
        (["--allow-principal", "User:a", "--consumer", "--topic", "t"], "--consumer needs --group"),
        (["--allow-principal", "User:a", "--producer", "--group", "g"], "need --topic"),
    ],
)
def test_an_incomplete_or_contradictory_call_is_refused(call: Command, words: list[str], problem: str) -> None:
    shown = call("acl", "add", *words)
    assert (shown.status, shown.out) == (2, "")
    assert problem in shown.err


def test_a_cluster_without_an_authorizer_is_explained(barnabas: Command) -> None:
    shown = barnabas("acl", "add", "--allow-principal", "User:a", "--topic", "t")
    assert shown.status == 1
    assert "the cluster has no authorizer" in shown.err
