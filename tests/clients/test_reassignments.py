"""A partition that moves to other brokers, by kafka-python's admin client, while librdkafka writes to it.

Apache Kafka's tool moves one within a throttle (KIP-73).
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.structs import TopicPartition as Partition

from tests.chaos.cluster import Cluster, Node, NoGates, wait_until
from tests.oracles.apache_kafka import kafka_tool

TOPIC = "moving"
LOG = f"{TOPIC}-0"
BEFORE = 2_000
IN_FLIGHT = 100
VALUE, VALUES = bytes(500_000), 8
THROTTLE = 1_000_000
CLUSTER = {"default.replication.factor": 1, "leader.imbalance.check.interval.seconds": 1}


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("three"), NoGates(), CLUSTER) as running:
        running.wait_until_whole()
        yield running
        assert [line for node in running.nodes.values() for line in node.complaints()] == []


class Writer:
    """Writes numbered records from a thread until it is stopped, and keeps what was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged = 0
        self.errors: list[KafkaError] = []
        self._stopped = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        assert self._producer.flush(30) == 0

    def _run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            self._producer.produce(TOPIC, str(number), partition=0, on_delivery=self._delivered)
            number += 1
            self._producer.poll(0.01 if number - self.acknowledged > IN_FLIGHT else 0)

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.errors.append(error)


def read(bootstrap: str, count: int) -> list[int]:
    """Return the first `count` values of the partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        found: list[int] = []
        while len(found) < count:
            records = consumer.consume(count - len(found), 30)
            assert records, f"{len(found)} of {count} records within 30 s"
            found += [int(record.value() or b"") for record in records]
        return found
    finally:
        consumer.close()


def logs(node: Node) -> list[Path]:
    """Return the partition's log on a broker, from any of its data directories."""
    return [path for directory in (node.metadata, node.records) if (path := directory / LOG).is_dir()]


def test_partition_moves_to_other_brokers_without_losing_or_repeating_records(cluster: Cluster) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
        admin.create_topics([NewTopic(TOPIC, -1, -1, replica_assignments={0: [1]})])
        with Writer(cluster.bootstrap) as writer:
            wait_until(lambda: writer.acknowledged > BEFORE, "the first records acknowledged")
            admin.alter_partition_reassignments({Partition(TOPIC, 0): [2, 3]})
            cluster.wait_for(
                lambda found: (moved := found.partitions[LOG]).replicas == (2, 3) == tuple(sorted(moved.in_sync)),
                "the partition on brokers 2 and 3",
            )
            moved = writer.acknowledged
            wait_until(lambda: writer.acknowledged > moved + BEFORE, "records acknowledged by the new leader")
        assert writer.errors == []
        assert admin.list_partition_reassignments() == {}
    assert read(cluster.bootstrap, writer.acknowledged) == list(range(writer.acknowledged))
    wait_until(lambda: logs(cluster.nodes[1]) == [], "the former replica's log deleted")
    assert [len(logs(cluster.nodes[node])) for node in (2, 3)] == [1, 1]


def reassign(cluster: Cluster, plan: Path, *arguments: str) -> str:
    """Run kafka-reassign-partitions.sh, and return what it prints."""
    command = kafka_tool(
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        *("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan), *arguments),
    )
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def throttles(cluster: Cluster) -> dict[str, str]:
    """Return the throttles that are set: rates of the brokers, and replicas of the topic."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    resources = [ConfigResource("topic", TOPIC), *(ConfigResource("broker", str(broker)) for broker in (1, 2, 3))]
    return {
        f"{resource.name} {entry.name}": entry.value
        for one in resources  # librdkafka takes one broker a call
        for resource, described in admin.describe_configs([one]).items()
        for entry in described.result(30).values()
        if "throttled" in entry.name and entry.value
    }


def test_apache_kafkas_tool_moves_a_partition_within_a_throttle(cluster: Cluster, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    moves = [{"topic": TOPIC, "partition": 0, "replicas": [2, 3]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
        admin.create_topics([NewTopic(TOPIC, -1, -1, replica_assignments={0: [1]})])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 1_000_000, "log_level": 0})
    for _ in range(VALUES):
        producer.produce(TOPIC, VALUE, partition=0)
        producer.flush(30)
    began_s = time.monotonic()
    assert "Successfully started" in reassign(cluster, plan, "--execute", "--throttle", str(THROTTLE))
    assert throttles(cluster) == {
        f"{TOPIC} leader.replication.throttled.replicas": "0:1",
        f"{TOPIC} follower.replication.throttled.replicas": "0:2,0:3",
        **{
            f"{broker} {side}.replication.throttled.rate": str(THROTTLE)
            for broker in (1, 2, 3)
            for side in ("leader", "follower")
        },
    }
    cluster.wait_for(
        lambda found: (moved := found.partitions[LOG]).replicas == (2, 3) == tuple(sorted(moved.in_sync)),
        "the partition on brokers 2 and 3",
    )
    # Both fetch from broker 1; the first bytes come at once.
    assert time.monotonic() - began_s > (2 * VALUES - 4) * len(VALUE) / THROTTLE
    assert "is completed" in reassign(cluster, plan, "--verify")
    assert throttles(cluster) == {}
