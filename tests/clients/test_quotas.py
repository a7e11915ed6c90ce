"""Quotas through Apache Kafka's own `kafka-configs`: set, described, and present after a crash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.oracles.apache_kafka import kafka_tool
from tests.setups import run


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path) as running:
        yield running
    running.check_log()


def kafka_configs(broker: BrokerProcess, *arguments: str) -> str:
    """Run the tool; return its output."""
    command = kafka_tool("kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, *arguments)
    return run(*command, timeout_s=60).strip()


def test_kafka_configs_sets_and_describes_quotas_of_users_and_clients(broker: BrokerProcess) -> None:
    user, client = ("--entity-type", "users", "--entity-name", "u"), ("--entity-type", "clients", "--entity-default")
    kafka_configs(broker, "--alter", "--add-config", "producer_byte_rate=1024,request_percentage=50", *user)
    kafka_configs(broker, "--alter", "--add-config", "consumer_byte_rate=99", *client)
    broker.kill()
    broker.start()
    reported = kafka_configs(broker, "--describe", *user)
    assert "Quota configs for user-principal 'u' are" in reported
    assert "producer_byte_rate=1024.0" in reported
    reported = kafka_configs(broker, "--describe", *client)
    assert reported == "Quota configs for the default client-id are consumer_byte_rate=99.0"
    kafka_configs(broker, "--alter", "--delete-config", "consumer_byte_rate", *client)
    assert kafka_configs(broker, "--describe", *client) == ""
