from __future__ import annotations

import json

from tests.unit.barnabas.conftest import Command


def test_mechanisms_and_iterations_of_a_user(add: Command, barnabas: Command, user: str) -> None:
    add("--mechanism", "SCRAM-SHA-256", "--mechanism", "SCRAM-SHA-512", "--iterations", "5000")
    header, *rows = barnabas("user", "describe", user).lines
    assert header.split() == ["USER", "MECHANISM", "ITERATIONS"]
    assert [row.split() for row in rows] == [[user, "SCRAM-SHA-256", "5000"], [user, "SCRAM-SHA-512", "5000"]]
    assert {"user": user, "mechanism": "SCRAM-SHA-256", "iterations": 5000} in json.loads(
        barnabas("user", "describe", "--json").out
    )


def test_an_unknown_user_is_named_with_a_similar_one(add: Command, barnabas: Command, user: str) -> None:
    add()
    shown = barnabas("user", "describe", user, f"{user}x")
    assert shown.status == 1
    assert shown.lines[1].split()[0] == user
    assert shown.err == f"barnabas user describe: {user}x: there is no such SCRAM user; did you mean {user}?\n"
