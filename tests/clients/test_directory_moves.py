"""A partition that moves between the log directories of its broker, by kafka-python, while librdkafka writes to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient
from kafka.structs import TopicPartitionReplica

from tests.broker_process import BrokerProcess

TOPIC = "moving"
BODY = b"v" * 1000


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    return [tmp_path / "first", tmp_path / "second"]


@pytest.fixture
def jbod(tmp_path: Path, directories: list[Path]) -> Iterator[BrokerProcess]:
    """A broker with two data directories and a topic of one partition."""
    broker = BrokerProcess(tmp_path / "broker")
    broker.data_dir = Path(",".join(map(str, directories)))
    with broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        [created] = admin.create_topics([NewTopic(TOPIC, 1, 1)]).values()
        created.result(30)
        yield broker
    broker.check_log()


class Writer:
    """Writes numbered records, and counts the acknowledged ones."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.sent = 0
        self.acknowledged = 0
        self.failed: list[Any] = []
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "queue.buffering.max.messages": 20_000,
            }
        )

    def write(self, count: int) -> None:
        for _ in range(count):
            while True:
                try:
                    self._producer.produce(TOPIC, BODY, str(self.sent), 0, on_delivery=self._delivered)
                    break
                except BufferError:
                    self._producer.poll(0.01)
            self.sent += 1
        self._producer.poll(0)

    def finish(self) -> None:
        assert self._producer.flush(60) == 0

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed.append(error)


def read_all(broker: BrokerProcess, count: int) -> list[int]:
    """Return the numbers of the partition's first `count` records."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    numbers: list[int] = []
    deadline = time.monotonic() + 60
    while len(numbers) < count and time.monotonic() < deadline:
        numbers += [int(message.key() or b"") for message in consumer.consume(count - len(numbers), 1.0)]
    consumer.close()
    return numbers


class Admin:
    """Describes and moves the partition's log."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def places(self) -> dict[str, bool]:
        """Return the directories of the partition's logs, each with whether it is a future replica."""
        [answer] = self._client.describe_log_dirs({TOPIC: [0]})
        return {
            directory["log_dir"]: partition["is_future_key"]
            for directory in answer["log_dirs"]
            for topic in directory["topics"]
            for partition in topic["partitions"]
        }

    def home(self) -> set[str]:
        """Return the directory of the current log."""
        return {path for path, is_copy in self.places().items() if not is_copy}

    def move(self) -> str:
        """Move the partition to the directory that does not have its current log, and return that directory."""
        [answer] = self._client.describe_log_dirs({TOPIC: [0]})
        [to] = {directory["log_dir"] for directory in answer["log_dirs"]} - self.home()
        replica = TopicPartitionReplica(TOPIC, 0, 1)
        result = self._client.alter_replica_log_dirs({replica: to})
        assert result[replica].errno == 0
        moved_to: str = to
        return moved_to


def write_until_moved(writer: Writer, admin: Admin, target: str) -> None:
    deadline = time.monotonic() + 60
    while admin.places() != {target: False}:
        assert time.monotonic() < deadline
        writer.write(500)


def test_directory_moves_under_load_keep_every_record(jbod: BrokerProcess, directories: list[Path]) -> None:
    writer = Writer(jbod)
    writer.write(20_000)
    with Admin(jbod) as admin:
        for _ in range(3):
            target = admin.move()
            write_until_moved(writer, admin, target)
    writer.write(500)
    writer.finish()
    assert (writer.failed, writer.acknowledged) == ([], writer.sent)
    assert read_all(jbod, writer.sent) == list(range(writer.sent))
    assert jbod.stop() == 0
    assert [path for folder in directories for path in folder.glob(f"{TOPIC}-0")] == [Path(target) / f"{TOPIC}-0"]


def test_killed_broker_keeps_every_record_once_and_continues_moving(jbod: BrokerProcess) -> None:
    writer = Writer(jbod)
    writer.write(20_000)
    writer.finish()
    for writes in (0, 1, 3):
        with Admin(jbod) as admin:
            target = admin.move()
            for _ in range(writes):
                writer.write(500)
        jbod.kill()
        jbod.start()
    with Admin(jbod) as admin:
        write_until_moved(writer, admin, target)
    writer.finish()
    assert (writer.failed, writer.acknowledged) == ([], writer.sent)
    assert read_all(jbod, writer.sent) == list(range(writer.sent))
