from __future__ import annotations

import json

from tests.unit.barnabas.conftest import Command


def test_entries_that_cover_a_topic(guarded: Command, topic: str) -> None:
    for name, pattern in ((topic, "literal"), (topic[:-3], "prefixed"), (f"{topic}-2", "literal")):
        guarded("acl", "add", "--allow-principal", "User:a", "--topic", name, "--pattern", pattern)
    wanted = ("acl", "list", "--principal", "User:a", "--topic", topic)
    assert len(guarded(*wanted).lines) == 2
    covering = guarded(*wanted, "--pattern", "match").lines[1:]
    assert [line.split()[:2] for line in covering] == [
        [f"topic/{topic[:-3]}", "prefixed"],
        [f"topic/{topic}", "literal"],
    ]


def test_entries_of_principals(guarded: Command, topic: str) -> None:
    for user in ("a", "b", "c"):
        guarded("acl", "add", "--deny-principal", f"User:{topic}-{user}", "--transactional-id", topic)
    shown = guarded("acl", "list", "--principal", f"User:{topic}-a", "--principal", f"User:{topic}-c", "--json")
    assert [row["principal"] for row in json.loads(shown.out)] == [f"User:{topic}-a", f"User:{topic}-c"]
    assert len(guarded("acl", "list", "--transactional-id", topic).lines) == 4


def test_a_cluster_without_an_authorizer_is_explained(barnabas: Command) -> None:
    shown = barnabas("acl", "list")
    assert (shown.status, shown.out) == (1, "")
    assert "the cluster has no authorizer" in shown.err
