"""Topics of the applications: created, filled, and read as a read_committed consumer sees them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.cluster import ClusterError

TIMEOUT_S = 120.0


class Record(NamedTuple):
    """A record as a consumer returns it."""

    partition: int
    offset: int
    key: str | None
    value: str | None


def create_topics(bootstrap: str, names: Iterable[str], partitions: int = 1, **config: str) -> None:
    """Create topics with the default replication factor, and return when they can be used."""
    new = [NewTopic(name, partitions, config=config) for name in names]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics(new).values():
        created.result(30)


def produce(bootstrap: str, topic: str, records: Iterable[tuple[str | None, str | None]]) -> None:
    """Produce pairs of key and value, each exactly once."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not failed, failed[0]


class Reader:
    """A consumer of all partitions of some topics, read_committed by default; keeps what it has read, by topic."""

    def __init__(self, bootstrap: str, *topics: str, isolation: str = "read_committed") -> None:
        self.records: dict[str, list[Record]] = {topic: [] for topic in topics}
        self.check: Callable[[], None] = lambda: None
        """Called while records are waited for: fails if the application that writes them has ended."""
        settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": isolation}
        own = {
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "log_level": 0,
        }
        self._consumer = Consumer(settings | own)
        known = self._consumer.list_topics(timeout=30).topics
        self._positions = {(topic, index): 0 for topic in topics for index in known[topic].partitions}
        self._ended: set[tuple[str, int]] = set()
        self._assign()

    def read_until(
        self, condition: Callable[[dict[str, list[Record]]], bool], what: str, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Return once the condition holds for the records; raise ClusterError after the timeout."""
        deadline = time.monotonic() + timeout_s
        while not condition(self.records):
            self._poll()
            self.check()
            if time.monotonic() > deadline:
                counts = {topic: len(records) for topic, records in self.records.items()}
                raise ClusterError(f"not within {timeout_s:g} s: {what}; read {counts}")

    def read_more(self, topic: str, what: str) -> None:
        """Return once a topic has a record that was not read yet."""
        before = len(self.records[topic])
        self.read_until(lambda records: len(records[topic]) > before, what)

    def read_to_end(self, timeout_s: float = TIMEOUT_S) -> dict[str, list[Record]]:
        """Read all that is committed now, and return the records."""
        deadline = time.monotonic() + timeout_s
        self._ended.clear()
        # A consumer that waits at the end of a partition reports it again only if it is assigned again.
        self._assign()
        while self._ended != self._positions.keys():
            self._poll()
            if time.monotonic() > deadline:
                raise ClusterError(f"the ends of {self._positions.keys() - self._ended} not reached")
        return self.records

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _assign(self) -> None:
        self._consumer.assign([TopicPartition(*partition, offset) for partition, offset in self._positions.items()])

    def _poll(self) -> None:
        for message in self._consumer.consume(500, 0.1):
            topic, partition, offset, error = message.topic(), message.partition(), message.offset(), message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                continue  # librdkafka retries
            assert topic is not None
            assert partition is not None
            assert offset is not None
            if error is not None:
                self._positions[topic, partition] = offset
                self._ended.add((topic, partition))
            else:
                self._positions[topic, partition] = offset + 1
                self.records[topic].append(Record(partition, offset, _text(message.key()), _text(message.value())))


def committed_offsets(bootstrap: str, group: str, topic: str, partitions: int = 1) -> list[int]:
    """Return the offset that a group has committed in each partition, 0 where there is none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        found = consumer.committed([TopicPartition(topic, index) for index in range(partitions)], timeout=30)
    finally:
        consumer.close()
    assert not any(partition.error for partition in found), found
    return [max(partition.offset, 0) for partition in found]


def _text(value: str | bytes | None) -> str | None:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
