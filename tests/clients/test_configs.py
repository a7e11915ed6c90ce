"""Configs described and altered by Kafka's own kafka-configs, by kafka-python and by librdkafka, and their effects.

The tests have their own broker, since cluster-wide defaults would affect other tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigSource, NewTopic, ResourceType
from confluent_kafka.admin import ConfigResource as Resource
from kafka import KafkaAdminClient
from kafka.admin import AlterConfigOp, ConfigFilterType, ConfigResource

from tests.broker_process import BrokerProcess
from tests.oracles.apache_kafka import kafka_tool
from tests.setups import run


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("configs"), {"log.retention.hours": 10}) as running:
        yield running
    running.check_log()


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})


@pytest.fixture(scope="module")
def python(broker: BrokerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic(admin: AdminClient, topic: str) -> str:
    (created,) = admin.create_topics([NewTopic(topic, 1, 1)]).values()
    created.result(30)
    return topic


class KafkaConfigs:
    """The command `kafka-configs`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def __call__(self, *arguments: str) -> str:
        return run(*kafka_tool("kafka.admin.ConfigCommand", "--bootstrap-server", self._bootstrap, *arguments))

    def described(self, *arguments: str) -> dict[str, tuple[str, str]]:
        """Return value and synonyms of each config that `--describe` prints."""
        found = re.findall(
            r"^  (\S+?)=(.*) sensitive=\w+ synonyms=\{(.*)\}$", self("--describe", *arguments), re.MULTILINE
        )
        return {name: (value, synonyms) for name, value, synonyms in found}


@pytest.fixture(scope="module")
def kafka_configs(broker: BrokerProcess) -> KafkaConfigs:
    return KafkaConfigs(broker.bootstrap)


class TestKafkaConfigs:
    def test_describe_all_configs_of_broker(self, kafka_configs: KafkaConfigs) -> None:
        client_documentation = kafka_configs.described("--all", "--entity-type", "brokers", "--entity-name", "1")
        assert len(client_documentation) > 340
        assert client_documentation["log.retention.hours"] == (
            "10",
            "STATIC_BROKER_CONFIG:log.retention.hours=10, DEFAULT_CONFIG:log.retention.hours=168",
        )
        assert client_documentation["log.retention.ms"] == ("null", "")

    def test_topic_follows_cluster_wide_defaults(self, kafka_configs: KafkaConfigs, topic: str) -> None:
        of_all = ("--entity-type", "brokers", "--entity-default")
        of_topic = ("--entity-type", "topics", "--entity-name", topic)
        kafka_configs("--alter", *of_all, "--add-config", "log.segment.bytes=2000000")
        assert kafka_configs.described(*of_all) == {
            "log.segment.bytes": ("2000000", "DYNAMIC_DEFAULT_BROKER_CONFIG:log.segment.bytes=2000000"),
            "min.insync.replicas": ("1", "DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1"),
        }
        assert kafka_configs.described("--all", *of_topic)["segment.bytes"][0] == "2000000"
        kafka_configs("--alter", *of_topic, "--add-config", "segment.bytes=3000000,cleanup.policy=[compact,delete]")
        assert kafka_configs.described(*of_topic).keys() == {"segment.bytes", "cleanup.policy"}
        kafka_configs("--alter", *of_topic, "--delete-config", "segment.bytes,cleanup.policy")
        assert kafka_configs.described(*of_topic) == {}
        kafka_configs("--alter", *of_all, "--delete-config", "log.segment.bytes")

    def test_groups_and_client_metrics(self, kafka_configs: KafkaConfigs) -> None:
        for kind, name, setting in (
            ("groups", "of-tool", "consumer.session.timeout.ms=46000"),
            ("client-metrics", "of-tool", "metrics=[org.apache.kafka.producer.]"),
        ):
            entity = ("--entity-type", kind, "--entity-name", name)
            kafka_configs("--alter", *entity, "--add-config", setting)
            key, _, value = setting.partition("=")
            assert kafka_configs.described(*entity)[key][0] == value.strip("[]")

    def test_logger_levels(self, kafka_configs: KafkaConfigs) -> None:
        entity = ("--entity-type", "broker-loggers", "--entity-name", "1")
        kafka_configs("--alter", *entity, "--add-config", "broker.dispatch=DEBUG")
        assert kafka_configs.described(*entity)["broker.dispatch"][0] == "DEBUG"
        kafka_configs("--alter", *entity, "--delete-config", "broker.dispatch")
        assert kafka_configs.described(*entity)["broker.dispatch"][0] == "INFO"


class TestKafkaPython:
    def client_documentation(
        self, python: KafkaAdminClient, kind: str, name: str, how: ConfigFilterType
    ) -> dict[str, Any]:
        found: dict[str, Any] = python.describe_configs([ConfigResource(kind, name)], config_filter=how)
        return dict(found[kind.lower()][name])

    def test_topic_configs(self, python: KafkaAdminClient, topic: str) -> None:
        change = {"retention.ms": "5000", "cleanup.policy": (AlterConfigOp.APPEND, "compact")}
        python.alter_configs([ConfigResource("TOPIC", topic, change)])
        modified = self.client_documentation(python, "TOPIC", topic, ConfigFilterType.MODIFIED)
        assert {name: one["value"] for name, one in modified.items()} == {
            "retention.ms": "5000",
            "cleanup.policy": "delete,compact",
        }
        python.reset_configs([ConfigResource("TOPIC", topic, {"retention.ms": None, "cleanup.policy": None})])
        assert "retention.ms" not in self.client_documentation(python, "TOPIC", topic, ConfigFilterType.MODIFIED)

    def test_what_cannot_be_set(self, python: KafkaAdminClient, topic: str) -> None:
        client_documentation = python.alter_configs([ConfigResource("TOPIC", topic, {"retention.ms": "soon"})])
        assert (
            "Invalid value soon for configuration retention.ms: Not a number of type LONG"
            in client_documentation["topic"][topic]
        )
        client_documentation = python.alter_configs(
            [ConfigResource("BROKER", "1", {"node.id": "5"})], raise_on_unknown=False
        )
        assert "Cannot update these configs dynamically: [node.id]" in client_documentation["broker"]["1"]

    def test_resources_with_configs(self, python: KafkaAdminClient, topic: str) -> None:
        python.alter_configs([ConfigResource("GROUP", "of-python", {"share.auto.offset.reset": "earliest"})])
        listed = python.list_config_resources()
        assert topic in listed["topic"]
        assert "of-python" in listed["group"]
        assert listed["broker"] == ["1"]


class TestLibrdkafka:
    def describe(self, admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
        (described,) = admin.describe_configs([Resource(kind, name)]).values()
        found: dict[str, ConfigEntry] = described.result(30)
        return found

    def alter(self, admin: AdminClient, kind: ResourceType, name: str, key: str, value: str | None) -> None:
        how = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(key, value, incremental_operation=how)
        (altered,) = admin.incremental_alter_configs([Resource(kind, name, incremental_configs=[entry])]).values()
        altered.result(30)

    def test_sources_and_synonyms(self, admin: AdminClient, topic: str) -> None:
        self.alter(admin, ResourceType.TOPIC, topic, "compression.type", "lz4")
        found = self.describe(admin, ResourceType.TOPIC, topic)["compression.type"]
        assert (found.value, ConfigSource(found.source)) == ("lz4", ConfigSource.DYNAMIC_TOPIC_CONFIG)
        assert {ConfigSource(one.source) for one in found.synonyms.values()} >= {ConfigSource.DEFAULT_CONFIG}
        brokers = self.describe(admin, ResourceType.BROKER, "1")
        assert brokers["node.id"].is_read_only
        assert brokers["ssl.key.password"].is_sensitive

    def test_altered_config_holds_for_next_record(self, admin: AdminClient, broker: BrokerProcess, topic: str) -> None:
        produced = self.producing(broker, topic)
        assert produced(b"x" * 2000) is None
        self.alter(admin, ResourceType.BROKER, "1", "message.max.bytes", "1000")
        assert produced(b"x" * 2000) == KafkaError.MSG_SIZE_TOO_LARGE
        self.alter(admin, ResourceType.TOPIC, topic, "max.message.bytes", "3000")
        assert produced(b"x" * 2000) is None
        self.alter(admin, ResourceType.TOPIC, topic, "max.message.bytes", None)
        assert produced(b"x" * 2000) == KafkaError.MSG_SIZE_TOO_LARGE
        self.alter(admin, ResourceType.BROKER, "1", "message.max.bytes", None)
        assert produced(b"x" * 2000) is None

    def producing(self, broker: BrokerProcess, topic: str) -> Callable[[bytes], int | None]:
        """Return a function that produces a value, and returns the error code if there was one."""
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "retries": 0, "log_level": 0})

        def produced(value: bytes) -> int | None:
            reports: list[KafkaError | None] = []
            producer.produce(topic, value, on_delivery=lambda error, _: reports.append(error))
            producer.flush(30)
            [error] = reports
            return None if error is None else error.code()

        return produced
