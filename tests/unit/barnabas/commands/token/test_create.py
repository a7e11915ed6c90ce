from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import KafkaError
from tests.broker_process import BrokerProcess
from tests.token_client import TokenConnection
from tests.unit.barnabas.commands.token.conftest import As
from tests.unit.barnabas.conftest import Command

New = Callable[..., dict[str, Any]]


def lifetime_s(token: dict[str, Any], until: str) -> float:
    return (datetime.fromisoformat(token[until]) - datetime.fromisoformat(token["issued"])).total_seconds()


def test_the_bearer_of_a_new_token_logs_in_with_what_is_printed(token: As, token_broker: BrokerProcess) -> None:
    from base64 import b64decode

    shown = token("alice", "create", "--renewer", "User:bob")
    facts = dict(line.split(maxsplit=1) for line in shown.lines)
    assert (facts["OWNER"], facts["REQUESTER"], facts["RENEWERS"]) == ("User:alice", "User:alice", "User:bob")
    login = f'username="{facts["TOKEN"]}" password="{facts["HMAC"]}" tokenauth="true";'
    assert facts["LOGIN"].endswith(login)
    with TokenConnection(token_broker.bootstrap, facts["TOKEN"], b64decode(facts["HMAC"])) as connection:
        assert connection.session_ms > 0
    with pytest.raises(KafkaError):
        TokenConnection(token_broker.bootstrap, facts["TOKEN"], b"guess")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_commands_log_in_with_the_line_that_is_printed(
    call: Command, token: As, token_broker: BrokerProcess, tmp_path: Path, mechanism: str
) -> None:
    facts = dict(line.split(maxsplit=1) for line in token("alice", "create").lines)
    path = tmp_path / "bearer.properties"
    path.write_text(
        f"bootstrap.servers={token_broker.bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism={mechanism}\n{facts['LOGIN']}\n"
    )
    as_bearer = ("--command-config", str(path))
    assert call("topic", "list", *as_bearer).status == 0
    again = call("token", "create", *as_bearer)  # the bearer is alice, but not by her password
    assert "tokens are for clients that authenticate, and not by a token" in again.err
    path.write_text(path.read_text().replace(' tokenauth="true"', ""))
    assert f"login of user {facts['TOKEN']} by {mechanism} refused" in call("topic", "list", *as_bearer).err


def test_lifetimes_are_the_brokers_or_shorter(new: New) -> None:
    assert lifetime_s(new(), "max") == 7 * 86_400
    assert lifetime_s(new("--max-lifetime", "1h30m"), "max") == 5400
    assert lifetime_s(new("--max-lifetime", "100d"), "expires") == 86_400


def test_a_token_for_another_user_needs_an_entry(token: As, new: New) -> None:
    refused = token("alice", "create", "--owner", "User:bob")
    assert refused.status == 1
    assert "this user may not request tokens for that owner: it needs CREATE_TOKENS on it" in refused.err
    created = new("--owner", "User:bob", user="carol")
    assert (created["owner"], created["requester"]) == ("User:bob", "User:carol")


def test_a_dry_run_creates_nothing(token: As) -> None:
    before = token("alice", "list").out
    assert token("alice", "create", "--dry-run") == (0, "would create a token of the user\n", "")
    assert token("alice", "list").out == before


def test_a_client_without_a_password_is_told_why_it_gets_none(barnabas: Command) -> None:
    shown = barnabas("token", "create")
    assert shown.status == 1
    assert "tokens are for clients that authenticate, and not by a token: see --command-config" in shown.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--owner", "alice"), "'alice': write TYPE:NAME, such as User:alice"),
        (("--max-lifetime", "0s"), "'0s': the least is 1s"),
        (("--max-lifetime", "soon"), "write a duration as 90s"),
    ],
)
def test_invalid_options_are_refused(call: Command, options: tuple[str, ...], message: str) -> None:
    shown = call("token", "create", *options)
    assert shown.status == 2
    assert message in shown.err
