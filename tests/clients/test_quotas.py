"""Quotas: set, described by Apache Kafka's own `kafka-configs`, present after a crash, and effective for a client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from protocol.messages.create_topics import CreateTopicsRequest
from tests.broker_process import BrokerProcess, free_address
from tests.oracles.apache_kafka import kafka_tool
from tests.raw_client import RawClient
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


def set_quota(broker: BrokerProcess, client_id: str, key: str, value: float) -> None:
    """Set a quota of a client id."""
    entry = AlterClientQuotasRequest.Entry
    quota = entry(
        entity=[entry.Entity(entity_type="client-id", entity_name=client_id)],
        ops=[entry.Op(key=key, value=value, remove=False)],
    )
    client = RawClient(broker.bootstrap)
    client.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[quota], validate_only=False)
    client.close()


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


def test_a_client_above_its_quota_is_throttled_and_another_is_not(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, {"quota.window.num": 2}) as running:
        set_quota(running, "noisy", "producer_byte_rate", 20_000.0)
        throttled: dict[str, list[float]] = {"noisy": [], "quiet": []}
        for name, times in throttled.items():
            settings = {"bootstrap.servers": running.bootstrap, "client.id": name, "linger.ms": 0, "log_level": 0}
            producer = Producer(
                {**settings, "throttle_cb": lambda event, times=times: times.append(event.throttle_time)}
            )
            for _ in range(3):
                producer.produce("t", bytes(20_000))
                assert producer.flush(60) == 0
            producer.poll(0)
        running.check_log()
    assert len(throttled["noisy"]) >= 2
    assert sum(throttled["noisy"]) > 1
    assert throttled["quiet"] == []


def test_connections_of_an_address_above_its_quota_wait_for_their_turn(broker: BrokerProcess) -> None:
    address = ("--entity-type", "ips", "--entity-name", "127.0.0.1")
    kafka_configs(broker, "--alter", "--add-config", "connection_creation_rate=5", *address)
    described = kafka_configs(broker, "--describe", *address)
    assert described == "Quota configs for ip '127.0.0.1' are connection_creation_rate=5.0"
    begun_at = time.monotonic()
    for _ in range(65):  # a burst has 55
        client = RawClient(broker.bootstrap)
        client.call(ApiKey.API_VERSIONS, 0)
        client.close()
    assert time.monotonic() - begun_at > 1


def test_a_newer_admin_client_is_refused_above_a_quota_of_mutations_and_an_older_one_waits(
    broker: BrokerProcess,
) -> None:
    limit = "controller_mutation_rate=0.01"
    kafka_configs(broker, "--alter", "--add-config", limit, "--entity-type", "clients", "--entity-default")
    set_quota(broker, "librdkafka", "controller_mutation_rate", 2.0)
    topics = ("--bootstrap-server", broker.bootstrap, "--create", "--partitions", "3", "--topic")
    run(*kafka_tool("org.apache.kafka.tools.TopicCommand", *topics, "first"), timeout_s=60)
    with pytest.raises(RuntimeError, match=r"The throttling quota has been exceeded"):
        run(*kafka_tool("org.apache.kafka.tools.TopicCommand", *topics, "second"), timeout_s=60)

    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "client.id": "librdkafka", "log_level": 0})
    admin.create_topics([NewTopic("third", 26, 1)])["third"].result(30)  # 4 more than a burst: 2 s
    answered_at = time.monotonic()
    admin.create_topics([NewTopic("fourth", 1, 1)])["fourth"].result(30)
    assert time.monotonic() - answered_at > 1


def test_a_client_of_a_controller_listener_is_muted_above_its_quota_of_mutations(tmp_path: Path) -> None:
    controller = free_address()
    listeners = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://{controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    topic = partial(CreateTopicsRequest.Topic, replication_factor=1, assignments=[], configs=[])
    with BrokerProcess(tmp_path, listeners) as running:
        set_quota(running, "raw", "controller_mutation_rate", 2.0)
        client = RawClient(controller)
        create = partial(client.call, ApiKey.CREATE_TOPICS, 7, timeout_ms=10_000, validate_only=False)
        answer = create(topics=[topic(name="first", num_partitions=26)])  # 4 more than a burst
        assert answer.throttle_time_ms == 0
        answer = create(topics=[topic(name="second", num_partitions=1)])
        answered_at = time.monotonic()
        assert answer.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert answer.throttle_time_ms > 1000
        client.call(ApiKey.API_VERSIONS, 0)
        assert time.monotonic() - answered_at > 1
        client.close()
