from __future__ import annotations

from tests.unit.barnabas.commands.token.conftest import As
from tests.unit.barnabas.commands.token.test_create import New, lifetime_s
from tests.unit.barnabas.commands.token.test_list import listed


def test_owner_and_renewer_renew_a_token(token: As, new: New) -> None:
    name = new("--renewer", "User:bob")["token"]
    shown = token("bob", "renew", name, "--period", "1h")
    assert (shown.status, shown.out.startswith(f"renewed {name}: expires 2")) == (0, True)
    assert lifetime_s(listed(token, "alice")[name], "expires") < 3700
    assert token("alice", "renew", name).status == 0
    assert lifetime_s(listed(token, "alice")[name], "expires") > 86_000


def test_a_dry_run_renews_nothing(token: As, new: New) -> None:
    created = new("--max-lifetime", "1d")
    assert token("alice", "renew", created["token"], "--period", "1s", "--dry-run").out == (
        f"would renew {created['token']}\n"
    )
    assert listed(token, "alice")[created["token"]]["expires"] == created["expires"]


def test_other_tokens_are_renewed_although_one_is_not(token: As, new: New) -> None:
    mine, not_mine = new(user="carol")["token"], new()["token"]
    shown = token("carol", "renew", not_mine, mine, "unknown")
    assert shown.status == 1
    assert shown.out.startswith(f"renewed {mine}")
    assert f"{not_mine}: only the owner and the renewers of a token can do this" in shown.err
    assert "unknown: this user sees no such token" in shown.err
