"""Configurations are altered and described as by Apache Kafka: the same codes, messages, values, sources, synonyms.

Both brokers start with the same settings and receive the same requests. Intended differences are left out: messages
that Kafka wraps in the name of an exception, responses that are exceptions, and rules of features that are not
implemented; documentation; and settings of each broker's own addresses and directories.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from controller.image import ResourceType
from protocol.api import ApiKey
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.broker_process import BrokerProcess
from tests.oracles.kafka_server import KafkaServer
from tests.raw_client import RawClient

TOPIC, BROKER, LOGGER, METRICS, GROUP = sorted(ResourceType)
SET, DELETE, APPEND, SUBTRACT = range(4)

SETTINGS = {
    "log.retention.hours": 100,
    "log.roll.ms": 5_000_000,
    "compression.type": "gzip",
    "group.consumer.session.timeout.ms": 50_000,
    "listener.name.plaintext.max.connections": 99,
    "ssl.key.password": "secret",
    "some.plugin": "value",
    "log.initial.task.delay.ms": 1000,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "node.id": 1,
}

# Addresses and directories; settings that Kafka requires; and settings that are read-only here.
NOT_COMPARED = {
    "advertised.listeners",
    "allow.everyone.if.no.acl.found",
    "controller.listener.names",
    "controller.quorum.voters",
    "listener.security.protocol.map",
    "listeners",
    "log.dirs",
    "node.id",
    "process.roles",
    "super.users",
}

Change = tuple[str, int, str | None]


class Both:
    """The two brokers, with the same requests sent to both."""

    def __init__(self, ours: str, kafkas: str) -> None:
        self.clients = (RawClient(ours), RawClient(kafkas))
        topic = CreateTopicsRequest.Topic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for client in self.clients:
            client.call(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout_ms=30_000, validate_only=False)

    def alter(self, kind: int, name: str, *changes: Change, validate_only: bool = False) -> tuple[int, str | None]:
        """Alter a resource in both; return our response, which must equal Kafka's."""
        Resource = IncrementalAlterConfigsRequest.Resource  # noqa: N806
        configs = [Resource.Config(name=key, config_operation=how, value=value) for key, how, value in changes]
        resource = Resource(resource_type=kind, resource_name=name, configs=configs)
        return self._altered(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resource, validate_only)

    def replace(self, kind: int, name: str, **values: str) -> tuple[int, str | None]:
        """Replace all configurations of a resource in both."""
        Resource = AlterConfigsRequest.Resource  # noqa: N806
        configs = [Resource.Config(name=key.replace("_", "."), value=value) for key, value in values.items()]
        resource = Resource(resource_type=kind, resource_name=name, configs=configs)
        return self._altered(ApiKey.ALTER_CONFIGS, 2, resource, False)

    def _altered(self, key: ApiKey, version: int, resource: Any, validate_only: bool) -> tuple[int, str | None]:
        answers = []
        for client in self.clients:
            [answer] = client.call(key, version, resources=[resource], validate_only=validate_only).responses
            answers.append((answer.error_code, _reason(answer.error_message)))
        assert answers[0] == answers[1]
        return answers[0]

    def describe(self, version: int, kind: int, name: str, keys: list[str] | None = None) -> dict[str, Any]:
        """Return our configurations of a resource, which must equal Kafka's shortly after an alteration."""
        resource = DescribeConfigsRequest.Resource(resource_type=kind, resource_name=name, configuration_keys=keys)
        ours, kafkas = (_described(client, version, resource) for client in self.clients)
        deadline = time.monotonic() + 10
        while kafkas != ours and time.monotonic() < deadline:
            kafkas = _described(self.clients[1], version, resource)
        assert ours == kafkas
        return ours[2]


def _described(
    client: RawClient, version: int, resource: DescribeConfigsRequest.Resource
) -> tuple[int, str | None, dict[str, Any]]:
    [result] = client.call(ApiKey.DESCRIBE_CONFIGS, version, resources=[resource], include_synonyms=True).results
    configs = {
        config.name: (
            config.value,
            config.read_only,
            config.config_source,
            config.is_sensitive,
            [(place.name, place.value, place.source) for place in config.synonyms],
            config.config_type,
            config.documentation,
        )
        for config in result.configs
        if config.name not in NOT_COMPARED and not config.name.startswith("barnabas.")
    }
    return result.error_code, result.error_message, configs


def _reason(message: str | None) -> str | None:
    """Return the reason without the text that Java's classes add around it."""
    return message and re.sub(
        r"requirement failed: |Invalid value [\w.]+Exception: | for configuration Invalid dynamic configuration$",
        "",
        message,
    )


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("both")
    kafka = KafkaServer(folder / "kafka", SETTINGS)
    try:
        with BrokerProcess(folder / "ours", SETTINGS) as ours:
            kafka.wait()
            brokers = Both(ours.bootstrap, kafka.bootstrap)
            yield brokers
            for client in brokers.clients:
                client.close()
            ours.check_log()
    finally:
        kafka.stop()


@pytest.mark.parametrize("version", range(1, 5))
def test_unaltered_configs_are_described_equally(both: Both, version: int) -> None:
    for kind, name in ((TOPIC, "t"), (BROKER, "1"), (BROKER, ""), (GROUP, "none"), (METRICS, "none")):
        both.describe(version, kind, name)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (TOPIC, "missing"),
        (TOPIC, ""),
        (TOPIC, "a b"),
        (BROKER, "7"),
        (BROKER, "x"),
        (LOGGER, ""),
        (LOGGER, "7"),
        (LOGGER, "x"),
        (GROUP, ""),
        (METRICS, ""),
    ],
)
def test_describing_missing_resources(both: Both, kind: int, name: str) -> None:
    both.describe(4, kind, name)


def test_single_names(both: Both) -> None:
    for kind, name in ((TOPIC, "t"), (BROKER, "1"), (BROKER, ""), (GROUP, "g"), (METRICS, "m")):
        both.describe(4, kind, name, ["retention.ms", "log.retention.hours", "foo", "match", "some.plugin"])
        both.describe(4, kind, name, [])
    both.alter(LOGGER, "1", ("root", SET, "INFO"))
    assert both.describe(4, LOGGER, "1", ["root", "no.such.logger"]).keys() == {"root"}


ALTERED: list[tuple[int, str, list[Change]]] = [
    (TOPIC, "t", [("retention.ms", SET, " +5 "), ("preallocate", SET, "TRUE")]),
    (TOPIC, "t", [("min.cleanable.dirty.ratio", SET, "1"), ("cleanup.policy", SET, "compact , delete")]),
    (TOPIC, "t", [("internal.segment.bytes", SET, "1000")]),
    (BROKER, "1", [("log.retention.ms", SET, "77"), ("log.roll.ms", SET, "6000000")]),
    (BROKER, "", [("log.retention.ms", SET, "78"), ("log.flush.interval.ms", SET, "5")]),
    (BROKER, "1", [("other.plugin", SET, "a"), ("listener.name.plaintext.max.connections", SET, "55")]),
    (BROKER, "", [("third.plugin", SET, "b"), ("listener.name.plaintext.num.network.threads", SET, "4")]),
    (BROKER, "1", [("leader.replication.throttled.rate", SET, "4"), ("sasl.jaas.config", SET, "secret")]),
    (BROKER, "1", [("log.cleaner.io.max.bytes.per.second", SET, "1e20")]),
    (BROKER, "1", [("producer.id.expiration.ms", SET, "100000"), ("sasl.enabled.mechanisms", APPEND, "PLAIN")]),
    (BROKER, "1", [("metric.reporters", SUBTRACT, "org.apache.kafka.common.metrics.JmxReporter")]),
    (GROUP, "g", [("share.auto.offset.reset", SET, "earliest"), ("consumer.session.timeout.ms", SET, "46000")]),
    (METRICS, "m", [("match", SET, " client_id=b , client_software_name=c"), ("metrics", SET, "x.")]),
]


@pytest.mark.parametrize("version", range(1, 5))
def test_altered_configs_are_described_equally(both: Both, version: int) -> None:
    for kind, name, changes in ALTERED:
        assert both.alter(kind, name, *changes, validate_only=True) == (0, None)
        assert both.alter(kind, name, *changes) == (0, None)
    for kind, name in ((TOPIC, "t"), (BROKER, "1"), (BROKER, ""), (GROUP, "g"), (GROUP, "h"), (METRICS, "m")):
        both.describe(version, kind, name)
    for kind, name, changes in ALTERED:
        assert both.alter(kind, name, *((key, DELETE, None) for key, _, _ in changes)) == (0, None)
    for kind, name in ((TOPIC, "t"), (BROKER, "1"), (BROKER, ""), (GROUP, "g"), (METRICS, "m")):
        both.describe(version, kind, name)


@pytest.mark.parametrize(
    ("kind", "name", "changes"),
    [
        (TOPIC, "t", [("cleanup.policy", SET, "foo")]),
        (TOPIC, "t", [("cleanup.policy", APPEND, "foo")]),
        (TOPIC, "t", [("retention.ms", SET, "x")]),
        (TOPIC, "t", [("foo", SET, "1")]),
        (TOPIC, "t", [("foo", DELETE, None)]),
        (TOPIC, "t", [("foo", APPEND, "1")]),
        (TOPIC, "t", [("retention.ms", APPEND, "1")]),
        (TOPIC, "t", [("retention.ms", SET, None), ("segment.ms", APPEND, None)]),
        (TOPIC, "t", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]),
        (TOPIC, "t", [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")]),
        (TOPIC, "t", [("remote.storage.enable", SET, "true")]),
        (TOPIC, "missing", [("retention.ms", SET, "1")]),
        (TOPIC, "missing", [("retention.ms", SET, "x")]),
        (TOPIC, "", [("retention.ms", SET, "1")]),
        (TOPIC, "a b", [("retention.ms", SET, "1")]),
        (BROKER, "1", [("node.id", SET, "5")]),
        (BROKER, "1", [("node.id", DELETE, None)]),
        (BROKER, "", [("log.dirs", SET, "/x")]),
        (BROKER, "", [("log.segment.bytes", SET, "5")]),
        (BROKER, "1", [("log.retention.ms", SET, None)]),
        (BROKER, "1", [("ssl.keystore.type", SET, "PKCS12")]),
        (BROKER, "", [("sasl.enabled.mechanisms", SET, "PLAIN")]),
        (BROKER, "1", [("num.io.threads", SET, "0")]),
        (BROKER, "1", [("num.io.threads", SET, "100")]),
        (BROKER, "1", [("num.io.threads", APPEND, "1")]),
        (BROKER, "1", [("log.roll.ms", SET, "0")]),
        (BROKER, "", [("log.roll.jitter.ms", SET, "-1")]),
        (BROKER, "1", [("log.retention.ms", SET, "0")]),
        (BROKER, "1", [("max.connections.per.ip", SET, "0")]),
        (BROKER, "1", [("listener.name.plaintext.max.connections", SET, "0")]),
        (BROKER, "1", [("max.connection.creation.rate", SET, "0")]),
        (BROKER, "", [("listener.name.plaintext.max.connection.creation.rate", SET, "0")]),
        (BROKER, "1", [("log.cleaner.dedupe.buffer.size", SET, "1048576")]),
        (BROKER, "1", [("cordoned.log.dirs", SET, "/nowhere")]),
        (BROKER, "1", [("cordoned.log.dirs", SET, "*,/nowhere")]),
        (BROKER, "1", [("some.plugin", APPEND, "5")]),
        (BROKER, "1", [("listener.name.plaintext.max.connections", SET, "x")]),
        (BROKER, "", [("listener.name.plaintext.ssl.keystore.location", SET, "/x")]),
        (BROKER, "1", [("group.consumer.assignment.interval.ms", SET, "50000")]),
        (BROKER, "1", [("min.insync.replicas", SET, "1")]),
        (BROKER, "1", [("min.insync.replicas", DELETE, None)]),
        (BROKER, "", [("min.insync.replicas", DELETE, None)]),
        (BROKER, "", [("min.insync.replicas", SET, "0")]),
        (BROKER, "7", [("log.retention.ms", SET, "1")]),
        (BROKER, "x", [("log.retention.ms", SET, "1")]),
        (BROKER, "-1", [("log.retention.ms", SET, "1")]),
        (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")]),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "0")]),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "44000")]),
        (GROUP, "g", [("consumer.heartbeat.interval.ms", SET, "16000")]),
        (GROUP, "g", [("share.record.lock.duration.ms", SET, "61000")]),
        (GROUP, "g", [("share.delivery.count.limit", SET, "11")]),
        (GROUP, "g", [("share.auto.offset.reset", SET, "by_duration:1h")]),
        (GROUP, "g", [("streams.num.standby.replicas", SET, "3")]),
        (GROUP, "g", [("foo", SET, "1")]),
        (GROUP, "g", [("consumer.session.timeout.ms", APPEND, "1")]),
        (METRICS, "", [("interval.ms", SET, "1000")]),
        (METRICS, "m", [("interval.ms", SET, "10")]),
        (METRICS, "m", [("interval.ms", SET, "x")]),
        (METRICS, "m", [("metrics", APPEND, "b")]),
        (METRICS, "m", [("match", SET, "foo=a.*")]),
        (METRICS, "m", [("match", SET, "client_id=[")]),
        (METRICS, "m", [("foo", SET, "1")]),
        (LOGGER, "1", [("root", SET, "INFO")]),
        (LOGGER, "1", [("root", DELETE, None)]),
        (LOGGER, "1", [("root", SET, "info")]),
        (LOGGER, "1", [("root", APPEND, "INFO")]),
        (LOGGER, "1", [("no.such.logger", SET, "INFO")]),
        (LOGGER, "", [("root", SET, "INFO")]),
        (LOGGER, "7", [("root", SET, "INFO")]),
        (LOGGER, "1", [("root", SET, None)]),
        (99, "x", [("log.retention.ms", SET, "1")]),
        (0, "x", [("log.retention.ms", SET, "1")]),
    ],
    ids=str,
)
def test_alterations_are_accepted_or_rejected_equally(both: Both, kind: int, name: str, changes: list[Change]) -> None:
    both.alter(kind, name, *changes)


def test_deletion_that_leaves_invalid_configs_is_rejected_equally(both: Both) -> None:
    overrides = "max.connections.per.ip.overrides"
    none_but_ours = [("max.connections.per.ip", SET, "0"), (overrides, SET, "127.0.0.1:100")]
    assert both.alter(BROKER, "1", *none_but_ours) == (0, None)
    both.describe(4, BROKER, "1", ["max.connections.per.ip", overrides])
    assert both.alter(BROKER, "1", (overrides, DELETE, None))[0] != 0
    assert both.alter(BROKER, "1", *((name, DELETE, None) for name, _, _ in none_but_ours)) == (0, None)


def test_negative_retention_of_the_broker_is_unlimited(both: Both) -> None:
    assert both.alter(BROKER, "", ("log.retention.ms", SET, "-5")) == (0, None)
    assert both.describe(4, TOPIC, "t", ["retention.ms"])["retention.ms"][0] == "-1"
    assert both.alter(BROKER, "", ("log.retention.ms", DELETE, None)) == (0, None)


def test_cluster_default_min_isr(both: Both) -> None:
    assert both.alter(BROKER, "", ("min.insync.replicas", SET, "3")) == (0, None)
    assert both.describe(4, BROKER, "1")["min.insync.replicas"][0] == "3"
    both.replace(BROKER, "", log_retention_ms="5")
    both.describe(4, BROKER, "")
    both.replace(BROKER, "1", min_insync_replicas="5")
    both.replace(BROKER, "", min_insync_replicas="1")


def test_all_settings_replaced(both: Both) -> None:
    assert both.replace(TOPIC, "t", retention_ms="5", segment_ms="6") == (0, None)
    assert both.replace(TOPIC, "t", segment_ms="7") == (0, None)
    assert both.describe(4, TOPIC, "t")["retention.ms"][2] != 1
    both.replace(TOPIC, "t", foo="1")
    both.replace(TOPIC, "t", retention_ms="x")
    both.replace(LOGGER, "1", root="INFO")
    both.replace(GROUP, "g", consumer_session_timeout_ms="47000")
    both.replace(METRICS, "m", interval_ms="1000")
    both.describe(4, GROUP, "g")
    both.describe(4, METRICS, "m")
    for kind, name in ((TOPIC, "t"), (GROUP, "g"), (METRICS, "m")):
        assert both.replace(kind, name) == (0, None)


def test_config_resources_are_listed_equally(both: Both) -> None:
    both.alter(GROUP, "g", ("share.isolation.level", SET, "read_committed"))
    both.alter(METRICS, "m", ("metrics", SET, "*"))
    for version, kinds in ((0, []), (1, []), (1, [TOPIC]), (1, [GROUP, METRICS]), (1, [LOGGER, BROKER]), (1, [99])):
        ours, kafkas = (
            client.call(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=kinds) for client in both.clients
        )
        assert ours.error_code == kafkas.error_code
        assert sorted((one.resource_type, one.resource_name) for one in ours.config_resources) == sorted(
            (one.resource_type, one.resource_name) for one in kafkas.config_resources
        )
