from __future__ import annotations

import json
from typing import Any

from tests.unit.barnabas.commands.token.conftest import As
from tests.unit.barnabas.commands.token.test_create import New


def listed(token: As, user: str, *options: str) -> dict[str, dict[str, Any]]:
    return {row["token"]: row for row in json.loads(token(user, "list", "--json", *options).out)}


def test_owners_renewers_and_super_users_see_a_token(token: As, new: New) -> None:
    created = new("--renewer", "User:bob")
    name = created["token"]
    without_hmac = {key: value for key, value in created.items() if key != "hmac"}
    for user in ("alice", "bob", "carol"):
        assert listed(token, user)[name] == without_hmac
    assert listed(token, "bob", "--hmac")[name] == created
    own = new(user="carol")["token"]
    assert own not in listed(token, "alice")
    assert name not in listed(token, "carol", "--owner", "User:carol")
    assert listed(token, "carol", "--owner", "User:carol", "--owner", "User:bob").keys() >= {name, own}


def test_the_table_has_the_secret_only_on_request(token: As, new: New) -> None:
    created = new()
    assert created["hmac"] not in token("alice", "ls").out
    shown = token("alice", "list", "--hmac")
    assert shown.lines[0].split() == [*("TOKEN", "OWNER", "REQUESTER", "RENEWERS", "ISSUED", "EXPIRES", "MAX", "HMAC")]
    assert created["hmac"] in shown.out
