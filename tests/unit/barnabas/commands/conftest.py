"""A broker with an authorizer, which tests of commands share: it allows everyone what no entry is about."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker_process import BrokerProcess
from tests.unit.barnabas.conftest import Command

SETTINGS: dict[str, object] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": True,
    "group.initial.rebalance.delay.ms": 0,
}


@pytest.fixture(scope="session")
def guarded_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("guarded"), SETTINGS) as running:
        yield running
    assert "Traceback" not in running.log.read_text()


@pytest.fixture
def guarded(call: Command, guarded_broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return a function that runs a command with the broker that has an authorizer."""
    monkeypatch.setenv("BARNABAS_BROKERS", guarded_broker.bootstrap)
    return call
