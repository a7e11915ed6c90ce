"""A broker whose users are alice, bob and carol, and commands as one of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker_process import BrokerProcess
from tests.unit.barnabas.conftest import Command, Shown

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = ("alice", "bob", "carol")

As = Callable[..., Shown]
"""Type of fixture `token`: runs `barnabas token ...` as the user that is its first argument."""


@pytest.fixture(scope="session")
def token_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    users = " ".join(f'user_{user}="{user}"' for user in USERS)
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,INSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{PLAIN} {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:carol",
        "delegation.token.secret.key": "secret",
    }
    with BrokerProcess(tmp_path_factory.mktemp("tokens"), settings) as running:
        yield running
    assert "Traceback" not in running.log.read_text()


@pytest.fixture
def token(call: Command, token_broker: BrokerProcess, tmp_path: Path) -> As:
    def run(user: str, *words: str) -> Shown:
        config = tmp_path / f"{user}.properties"
        config.write_text(
            f"bootstrap.servers={token_broker.bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={PLAIN} username="{user}" password="{user}";\n'
        )
        return call("token", *words, "--command-config", str(config))

    return run


@pytest.fixture
def new(token: As) -> Callable[..., dict[str, Any]]:
    """Return a function that creates a token of alice with options, and returns it."""

    def create(*options: str, user: str = "alice") -> dict[str, Any]:
        shown = token(user, "create", "--json", *options)
        assert shown.status == 0, shown.err
        found: dict[str, Any] = json.loads(shown.out)
        return found

    return create
