"""Transactional clients: each test of `test_transactions.py` runs with confluent-kafka and with kafka-python.

Errors are raised; the producers retry what a producer must retry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple, Protocol

import confluent_kafka
import kafka

TIMEOUT_S = 60.0
SILENT = {"log_level": 0}


class Stored(NamedTuple):
    """A record as a consumer reads it."""

    partition: int
    offset: int
    value: str


class TransactionalProducer(Protocol):
    """What the tests do with a producer."""

    def begin(self) -> None: ...

    def send(self, topic: str, partition: int, values: Iterable[str]) -> None:
        """Send records and wait until all are acknowledged."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class ConfluentProducer:
    """confluent-kafka (librdkafka)."""

    def __init__(self, bootstrap: str, transactional_id: str, **config: Any) -> None:
        self._bootstrap = bootstrap
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 60_000,
                **SILENT,
                **config,
            }
        )
        self._producer.init_transactions(TIMEOUT_S)
        self.begin = self._producer.begin_transaction

    def send(self, topic: str, partition: int, values: Iterable[str]) -> None:
        failed: list[Any] = []

        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                failed.append(error)

        for value in values:
            self._producer.produce(topic, value.encode(), partition=partition, on_delivery=delivered)
        assert self._producer.flush(TIMEOUT_S) == 0
        if failed:
            raise confluent_kafka.KafkaException(failed[0])

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        """Commit an offset of partition 0 in the transaction."""
        where = confluent_kafka.TopicPartition(topic, 0, offset)
        settings = {"bootstrap.servers": self._bootstrap, "group.id": group, **SILENT}
        with closing(confluent_kafka.Consumer(settings)) as member:
            self._producer.send_offsets_to_transaction([where], member.consumer_group_metadata(), TIMEOUT_S)

    def commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)


class KafkaPythonProducer:
    """kafka-python."""

    def __init__(self, bootstrap: str, transactional_id: str, **config: Any) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=60_000, **config
        )
        self._producer.init_transactions()
        self.begin = self._producer.begin_transaction
        self.commit = self._producer.commit_transaction
        self.abort = self._producer.abort_transaction

    def send(self, topic: str, partition: int, values: Iterable[str]) -> None:
        for sent in [self._producer.send(topic, value.encode(), partition=partition) for value in values]:
            sent.get(TIMEOUT_S)

    def close(self) -> None:
        self._producer.close(TIMEOUT_S)


PRODUCERS = {"confluent": ConfluentProducer, "kafka-python": KafkaPythonProducer}


@contextmanager
def producing(client: str, bootstrap: str, transactional_id: str) -> Iterator[TransactionalProducer]:
    """Yield an initialized producer of a client library."""
    if client == "confluent":
        yield ConfluentProducer(bootstrap, transactional_id)
        return
    with closing(KafkaPythonProducer(bootstrap, transactional_id)) as producer:
        yield producer


def read(bootstrap: str, topic: str, partitions: int = 1, *, committed: bool = True) -> list[Stored]:
    """Return all records that a consumer of this isolation can read now, by partition."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **SILENT,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(partitions)])
        found: list[Stored] = []
        ended: set[int] = set()
        while len(ended) < partitions:
            message: Any = consumer.poll(TIMEOUT_S)
            assert message is not None, "no record and no end of partition"
            if message.error() is None:
                found.append(Stored(message.partition(), message.offset(), message.value().decode()))
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise confluent_kafka.KafkaException(message.error())
        return sorted(found)
    finally:
        consumer.close()


def values(stored: Iterable[Stored]) -> list[str]:
    return [one.value for one in stored]
