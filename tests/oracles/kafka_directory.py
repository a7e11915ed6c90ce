"""The records that Apache Kafka writes into a data directory, covering everything that a log can contain.

Topics, of one partition each, in segments of a few kilobytes:

    codecs      five idempotent producers, one for each codec, with headers, null keys and null values
    stamped     LogAppendTime
    compacted   compacted by Kafka's cleaner, with tombstones
    deleted     records below an offset deleted, in the middle of a segment
    decided     committed and aborted transactions, one within another and over several segments
    open        the same, and some transactions left open
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TRANSACTIONAL = ("decided", "open")
TOPICS: dict[str, dict[str, str]] = {
    "codecs": {},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "deleted": {},
    **{topic: {} for topic in TRANSACTIONAL},
}
SETTINGS = {
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.max.timeout.ms": 3_600_000,
    "log.cleaner.backoff.ms": 200,
    "log.initial.task.delay.ms": 200,
}
# Features that Barnabas lacks, disabled so that it can open the directory.
FEATURES = dict.fromkeys(("group.version", "share.version", "streams.version", "transaction.version"), 0)
SEGMENTS = {"internal.segment.bytes": "4096", "index.interval.bytes": "512"}
TIMEOUT_S = 60

DELETED_BELOW = 33

# Steps of `Writer.transactions`.
DECIDED = "a+ a! b+ b~ a+ b+ a+ a~ b+ b~ " + "a+ b+ " * 7 + "a~ b+ b! " + "a+ " * 6 + "c+ c~ c+ c! a~ " + "b+ b~ a+ a! "
OPEN = "a+ b+ a+ a! " + "a+ b+ " * 9 + "a~ a+ b~ c+ b+ b~ a+ "
LATER = "b+ b~ b+ b! "


def create_topics(bootstrap: str, topics: Mapping[str, Mapping[str, str]]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [NewTopic(topic, 1, 1, config={**SEGMENTS, **config}) for topic, config in topics.items()]
    for created in admin.create_topics(wanted).values():
        created.result(TIMEOUT_S)


def write(bootstrap: str, data_dir: Path) -> None:
    """Fill the topics, and let Kafka compact and delete."""
    writer = Writer(bootstrap)
    writer.plain(60)
    writer.transactions("decided", DECIDED)
    writer.transactions("open", OPEN)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for deleted in admin.delete_records([TopicPartition("deleted", 0, DELETED_BELOW)]).values():
        deleted.result(TIMEOUT_S)
    _until(lambda: _is_clean(data_dir))


def write_more(bootstrap: str) -> None:
    """Write a few records to every topic, in another leader epoch."""
    writer = Writer(bootstrap)
    writer.plain(10)
    for topic in TRANSACTIONAL:
        writer.transactions(topic, LATER)
    writer.transactions("open", "d+ ")


class Writer:
    """Writes to the topics through librdkafka. Transactions open at the end stay open."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producers = {codec: self._producer({"compression.type": codec}) for codec in CODECS}
        self._transactional: dict[str, Producer] = {}

    def _producer(self, more: dict[str, object]) -> Producer:
        common = {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "log_level": 0}
        return Producer({**common, **more})

    def plain(self, batches: int) -> None:
        """Write to the topics without transactions, one batch at a time, by each producer in turn."""
        headers = [("first", b"1"), ("null", None)]
        for number in range(batches):
            producer = self._producers[CODECS[number % len(CODECS)]]
            for topic in ("codecs", "stamped", "deleted"):
                for record in range(number % 3 + 1):
                    key, value = f"key-{number}" if record else None, f"{number}-{record} " * 20
                    producer.produce(topic, None if record == 2 else value, key, headers=headers)  # type: ignore[arg-type]  # only this comes here
            for kept in range(number, number + 3):
                producer.produce("compacted", f"{number}-{kept} " * 10 if kept % 5 else None, f"key-{kept % 20}")
            producer.flush(TIMEOUT_S)

    def transactions(self, topic: str, steps: str) -> None:
        """Run steps such as `a+ b+ a! b~`: write in a transaction of that producer, commit it, abort it."""
        for step in steps.split():
            name, action = tuple(step)
            producer = self._transactional.get(topic + name) or self._begin(topic + name)
            if action == "+":
                for record in range(3):
                    producer.produce(topic, b"%d " % record * 50)
                producer.flush(TIMEOUT_S)
            else:
                (producer.commit_transaction if action == "!" else producer.abort_transaction)(TIMEOUT_S)
                producer.begin_transaction()

    def _begin(self, name: str) -> Producer:
        producer = self._producer({"transactional.id": name, "transaction.timeout.ms": 3_600_000})
        self._transactional[name] = producer
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        return producer


def _is_clean(data_dir: Path) -> bool:
    """Return whether Kafka has compacted every segment but the active one."""
    active = max(int(path.stem) for path in (data_dir / "compacted-0").glob("*.log"))
    return f"compacted 0 {active}" in (data_dir / "cleaner-offset-checkpoint").read_text().splitlines()


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("Apache Kafka does not do what this waits for")
        time.sleep(0.1)
