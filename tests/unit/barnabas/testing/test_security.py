"""Clusters with `secure=True`, with clients that use `client_config`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaProducer

from barnabas.commands._command_config import read_command_config
from barnabas.testing import Cluster, ClusterError


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, secure=True) as running:
        yield running


def read(cluster: Cluster, topic: str, count: int, user: str = "admin") -> list[bytes | None]:
    settings = {"group.id": topic, "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer(cluster.client_config(user=user) | settings)
    try:
        consumer.subscribe([topic])
        return [message.value() for message in consumer.consume(count, timeout=30)]
    finally:
        consumer.close()


def write(cluster: Cluster, topic: str, value: bytes, user: str) -> KafkaError | None:
    """Write a record with librdkafka; return its error."""
    errors: list[KafkaError | None] = []
    producer = Producer(cluster.client_config(user=user) | {"log_level": 0})
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    return errors[0]


def test_each_library_writes_and_reads_with_its_settings(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=3)
    assert write(cluster, topic.name, b"librdkafka", "admin") is None
    with KafkaProducer(**cluster.client_config("kafka-python")) as producer:
        producer.send(topic.name, b"kafka-python").get(30)

    async def aiokafka() -> bytes | None:
        async with AIOKafkaProducer(**cluster.aio.client_config()) as producer:
            await producer.send_and_wait(topic.name, b"aiokafka", partition=0)
        async with AIOKafkaConsumer(
            topic.name, **cluster.aio.client_config(), auto_offset_reset="earliest"
        ) as consumer:
            record = await asyncio.wait_for(consumer.getone(), 30)
            value: bytes | None = record.value
            return value

    assert asyncio.run(aiokafka()) in (b"librdkafka", b"kafka-python", b"aiokafka")
    assert sorted(filter(None, read(cluster, topic.name, 3))) == [b"aiokafka", b"kafka-python", b"librdkafka"]
    assert len(topic.expect(3)) == 3


def test_settings_for_java_are_those_of_the_file(cluster: Cluster) -> None:
    environment = cluster.environment
    file = read_command_config(environment["BARNABAS_COMMAND_CONFIG"], pytest.fail)
    java = cluster.client_config("java")
    assert file.bootstrap_servers == java["bootstrap.servers"] == cluster.bootstrap
    assert environment["KAFKA_SASL_PASSWORD"] in java["sasl.jaas.config"]
    assert dict(file.settings)["sasl_plain_password"] == environment["KAFKA_SASL_PASSWORD"]
    assert Path(environment["KAFKA_SSL_CA_LOCATION"]) == Path(environment["KAFKA_CLIENT_FILES"]) / "ca.pem"


def test_user_client_may_do_what_acls_allow(cluster: Cluster) -> None:
    topic = cluster.topic()
    refused = write(cluster, topic.name, b"refused", "client")
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    resource = (ResourceType.TOPIC, topic.name, ResourcePatternType.LITERAL)
    allow = AclBinding(*resource, "User:client", "*", AclOperation.WRITE, AclPermissionType.ALLOW)
    admin = AdminClient(cluster.client_config())
    admin.create_acls([allow])[allow].result(30)
    assert write(cluster, topic.name, b"allowed", "client") is None
    assert [record.value for record in topic.records()] == [b"allowed"]


def test_wrong_password_is_refused(cluster: Cluster) -> None:
    errors: list[KafkaError] = []
    settings = {"sasl.password": "wrong", "error_cb": errors.append, "log_level": 0}
    admin = AdminClient(cluster.client_config() | settings)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)
    admin.poll(10)
    assert KafkaError._AUTHENTICATION in [error.code() for error in errors]


def test_brokers_that_start_again_have_the_same_users(cluster: Cluster) -> None:
    topic = cluster.topic()
    before = cluster.client_config()
    for broker in cluster.brokers:
        broker.restart()
    assert cluster.client_config() == before
    assert write(cluster, topic.name, b"after", "admin") is None


def test_a_given_directory_keeps_its_users_and_others_cannot_read_their_passwords(tmp_path: Path) -> None:
    with Cluster(secure=True, directory=tmp_path) as first:
        password = first.client_config()["sasl.password"]
        first.topic("orders").produce(["one"])
    with Cluster(secure=True, directory=tmp_path) as again:
        assert again.client_config()["sasl.password"] == password
        assert read(again, "orders", 1) == [b"one"]
    assert not any(path.stat().st_mode & 0o077 for path in tmp_path.glob("security/*") if path.name != "ca.pem")
    with pytest.raises(ClusterError, match=f"^{tmp_path} has a cluster with secure=True: start it with that"):
        Cluster(directory=tmp_path).start()


def test_only_this_user_can_enter_the_directories_of_a_cluster_a_restored_one_too(tmp_path: Path) -> None:
    def modes(folder: Path) -> list[int]:
        return [path.stat().st_mode & 0o777 for path in (folder, folder / "1")]

    with Cluster(secure=True, directory=tmp_path / "first") as first:
        first.topic("orders").produce(["one"])
        assert modes(tmp_path / "first") == [0o700] * 2
        saved = first.snapshot(tmp_path / "saved")
        first.restore(saved)
        assert modes(tmp_path / "first") == [0o700] * 2
        assert (tmp_path / "saved" / "1").stat().st_mode & 0o777 == 0o700
        (tmp_path / "saved" / "1").chmod(0o755)
        first.snapshot(tmp_path / "saved.tar.gz")
        assert (tmp_path / "saved.tar.gz").stat().st_mode & 0o777 == 0o600
    with Cluster(secure=True, directory=tmp_path / "second", snapshot=tmp_path / "saved"):
        assert modes(tmp_path / "second") == [0o700] * 2
    with Cluster(secure=True, directory=tmp_path / "third", snapshot=tmp_path / "saved.tar.gz"):
        assert modes(tmp_path / "third") == [0o700] * 2


def test_a_cluster_without_security_has_its_addresses_only() -> None:
    with Cluster() as cluster:
        assert cluster.client_config("kafka-python") == {"bootstrap_servers": cluster.bootstrap}
        assert cluster.client_config("java") == {"bootstrap.servers": cluster.bootstrap}
        assert "KAFKA_SASL_USERNAME" not in cluster.environment


def test_unknown_libraries_and_users_are_refused(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="library='sarama': choose librdkafka, kafka-python, aiokafka, java"):
        cluster.client_config("sarama")
    with pytest.raises(ValueError, match="user='bob': the cluster has admin, client"):
        cluster.client_config(user="bob")


def test_damaged_files_refuse_the_start(tmp_path: Path) -> None:
    (tmp_path / "security").mkdir()
    (tmp_path / "security" / "users.properties").write_text("no password\n")
    with pytest.raises(ClusterError, match=r"users\.properties, line 1: it has no =; write it as USER=PASSWORD"):
        Cluster(secure=True, directory=tmp_path).start()
