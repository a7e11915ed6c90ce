"""Clients push their own metrics if a subscription matches (KIP-714), and log no error if none does."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from protocol.api import ApiKey
from protocol.compression import Compression
from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.broker_process import BrokerProcess
from tests.oracles.apache_kafka import kafka_tool
from tests.raw_client import RawClient
from tests.setups import run

BROKER_LOGGER, CLIENT_METRICS = 8, 16
INTERVAL_MS = 100
PUSHED = re.compile(r"(\S+) at 127\.0\.0\.1 pushed (\d+) bytes of metrics, (\d+) unpacked")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path) as running:
        yield running
    running.check_log()


def configure(broker: BrokerProcess, resource_type: int, name: str, /, **settings: str) -> None:
    Resource = IncrementalAlterConfigsRequest.Resource  # noqa: N806
    configs = [
        Resource.Config(name=key.replace("_", "."), config_operation=0, value=value) for key, value in settings.items()
    ]
    client = RawClient(broker.bootstrap)
    resource = Resource(resource_type=resource_type, resource_name=name, configs=configs)
    response = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    client.close()
    assert [answer.error_message for answer in response.responses] == [None]


def subscribe(broker: BrokerProcess, **settings: str) -> None:
    configure(broker, CLIENT_METRICS, "all", interval_ms=str(INTERVAL_MS), **settings)
    configure(broker, BROKER_LOGGER, "1", broker="DEBUG")


def pushes(broker: BrokerProcess) -> dict[str, list[tuple[int, int]]]:
    """Return the pushes of each client in the broker's log: compressed and uncompressed bytes."""
    found: dict[str, list[tuple[int, int]]] = {}
    for client, packed, unpacked in PUSHED.findall(broker.log.read_text()):
        found.setdefault(client, []).append((int(packed), int(unpacked)))
    return found


def java_producer(broker: BrokerProcess, records: int) -> None:
    """Produce some 20 records a second."""
    run(
        *kafka_tool("org.apache.kafka.tools.ProducerPerformance"),
        *("--topic", "t", "--num-records", str(records), "--record-size", "10", "--throughput", "20"),
        *("--command-property", f"bootstrap.servers={broker.bootstrap}", "client.id=java"),
        timeout_s=60,
    )


def test_java_client_pushes_subscribed_metrics(broker: BrokerProcess) -> None:
    subscribe(broker, metrics="org.apache.kafka.producer.")
    java_producer(broker, 60)
    found = pushes(broker)["java"]
    assert all(0 < packed < unpacked for packed, unpacked in found)  # it compresses with an offered codec
    assert "Refused" not in broker.log.read_text()


def test_java_client_without_subscription_pushes_nothing(broker: BrokerProcess) -> None:
    configure(broker, BROKER_LOGGER, "1", broker="DEBUG")
    java_producer(broker, 5)
    assert pushes(broker) == {}
    assert "Refused" not in broker.log.read_text()


@pytest.mark.parametrize(
    ("match", "meant"), [("client_software_name=librdkafka|.*confluent.*", True), ("client_id=other", False)]
)
def test_librdkafka_pushes_if_subscription_matches(broker: BrokerProcess, match: str, meant: bool) -> None:
    subscribe(broker, metrics="*", match=match)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "rdkafka", "log_level": 0})
    until = time.monotonic() + (60 if meant else 1)
    while time.monotonic() < until and not pushes(broker):
        producer.produce("t", b"value")
        producer.poll(0.1)
    producer.flush(30)
    del producer
    assert set(pushes(broker)) == ({"rdkafka"} if meant else set())


def test_push_must_match_its_subscription_and_interval(broker: BrokerProcess) -> None:
    configure(broker, CLIENT_METRICS, "all", metrics="m.", interval_ms="60000")
    client = RawClient(broker.bootstrap)
    requested = client.call(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=bytes(16))
    assert (requested.requested_metrics, requested.push_interval_ms) == (["m."], 60_000)
    assert Compression.ZSTD in requested.accepted_compression_types

    def push(subscription_id: int, *, metrics: bytes = b"metrics", terminating: bool = False) -> ErrorCode:
        response = client.call(
            ApiKey.PUSH_TELEMETRY,
            0,
            client_instance_id=requested.client_instance_id,
            subscription_id=subscription_id,
            terminating=terminating,
            compression_type=0,
            metrics=metrics,
        )
        return ErrorCode(response.error_code)

    assert push(requested.subscription_id) is ErrorCode.NONE
    assert push(requested.subscription_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(requested.subscription_id, terminating=True) is ErrorCode.NONE
    assert push(requested.subscription_id) is ErrorCode.INVALID_REQUEST
    client.close()
