from __future__ import annotations

import json

from tests.unit.barnabas.conftest import Command


def test_users_and_their_mechanisms(add: Command, barnabas: Command, user: str) -> None:
    add("--mechanism", "SCRAM-SHA-512", "--mechanism", "SCRAM-SHA-256")
    assert [line.split(maxsplit=1) for line in barnabas("user", "ls").lines if line.startswith(f"{user} ")] == [
        [user, "SCRAM-SHA-256,SCRAM-SHA-512"]
    ]
    listed = {row["user"]: row["mechanisms"] for row in json.loads(barnabas("user", "list", "--json").out)}
    assert listed[user] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
