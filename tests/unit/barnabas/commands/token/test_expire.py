from __future__ import annotations

from base64 import b64decode

import pytest

from protocol.errors import KafkaError
from tests.broker_process import BrokerProcess
from tests.token_client import TokenConnection
from tests.unit.barnabas.commands.token.conftest import As
from tests.unit.barnabas.commands.token.test_create import New, lifetime_s
from tests.unit.barnabas.commands.token.test_list import listed


def test_a_removed_token_is_of_no_use(token: As, new: New, token_broker: BrokerProcess) -> None:
    created = new()
    name = created["token"]
    assert token("alice", "expire", name, "--dry-run").out == f"would remove {name}\n"
    assert name in listed(token, "alice")
    assert token("alice", "expire", name) == (0, f"removed {name}\n", "")
    assert name not in listed(token, "alice")
    with pytest.raises(KafkaError):
        TokenConnection(token_broker.bootstrap, name, b64decode(created["hmac"]))
    assert token("alice", "expire", name).status == 1


def test_a_token_expires_later(token: As, new: New) -> None:
    name = new()["token"]
    shown = token("alice", "expire", name, "--after", "2h")
    assert (shown.status, shown.out.startswith(f"changed {name}: expires 2")) == (0, True)
    assert lifetime_s(listed(token, "alice")[name], "expires") < 7300
