"""Generated streams for the jobs that copy records: produced to topics, and read back with everything a record has."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from pyspark.sql import DataFrame

from tests.chaos.cluster import wait_until

TIMEOUT_S = 60.0
BEGIN_MS = 1_700_000_000_000
HUGE_BYTES = 1_200_000
FOREVER = {"retention.ms": "-1", "max.message.bytes": "4000000"}  # the timestamps are of the past

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """Everything of a record but its offset."""

    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def generated(number: int, partitions: int = 3, seed: int = 1, huge: int = 2) -> list[Record]:
    """Return late, duplicate, malformed, null, empty, header-only and huge records of a few days, in order of sending.

    The last `huge` of each thousand have more than 1 MB.
    """
    chance = random.Random(seed)
    made: list[Record] = []
    for at in range(number):
        time = BEGIN_MS + at * 60_000 - chance.choice((0, 0, 0, 7_200_000))
        value: bytes | None = b'{"order": %d}' % at
        key: bytes | None = b"key%d" % chance.randrange(50)
        headers: Headers = ()
        kind = chance.randrange(10)
        if kind == 0:
            value = None
        elif kind == 1:
            key = None
        elif kind == 2:
            key, value, headers = None, None, (("only", b"a header"),)
        elif kind == 3:
            key, value = b"", b""
        elif kind == 4:
            value = bytes(chance.randrange(256) for _ in range(20))
        elif kind == 5:
            headers = (("trace", b"1"), ("empty", b""), ("null", None), ("trace", b"2"), ("\u00fc", b"\xff"))
        elif kind == 6 and made:
            key, value, headers = made[-1][2:]
        if at % 1000 >= 1000 - huge:
            value = bytes([at % 256]) * HUGE_BYTES
        made.append(Record(chance.randrange(partitions), time, key, value, headers))
    return made


def create(bootstrap: str, topic: str, partitions: int, **config: str) -> None:
    """Create a topic that deletes nothing."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, 1, config=FOREVER | config)])[topic].result(TIMEOUT_S)


def produce(bootstrap: str, topic: str, records: Iterable[Record]) -> None:
    """Write records in their order."""
    # Batches of a record or a few: the offsets of a partition are fetched in several requests.
    producer = Producer(
        {"bootstrap.servers": bootstrap, "message.max.bytes": 4_000_000, "log_level": 0, "linger.ms": 5}
    )
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            timestamp=record.timestamp,
            headers=list(record.headers),
            on_delivery=delivered,
        )
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    assert not failed, failed[0]


def consumed(bootstrap: str, topic: str) -> list[Record]:
    """Return the committed records of a topic, by partition and offset."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    partitions = list(consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: list[tuple[int, int, Record]] = []
    ended: set[int] = set()
    while len(ended) < len(partitions):
        message: Any = consumer.poll(TIMEOUT_S)
        assert message is not None, "no answer"
        if message.error():
            ended.add(message.partition())
            continue
        headers = tuple((name, value) for name, value in message.headers() or ())
        _, time = message.timestamp()
        record = Record(message.partition(), time, message.key(), message.value(), headers)
        found.append((message.partition(), message.offset(), record))
    consumer.close()
    return [record for _, _, record in sorted(found, key=lambda one: one[:2])]


def by_partition(records: Iterable[Record]) -> list[Record]:
    """Return records in the order of `consumed`."""
    return sorted(records, key=lambda record: record.partition)


def rows(frame: DataFrame) -> Iterator[tuple[int, Record]]:
    """Yield the offset and the record of each row of an archive, by partition and offset."""
    chosen = frame.selectExpr("partition", "offset", "unix_millis(timestamp) AS time", "key", "value", "headers")
    for row in chosen.orderBy("partition", "offset").collect():
        headers = tuple((one.key, None if one.value is None else bytes(one.value)) for one in row.headers or ())
        key, value = (None if one is None else bytes(one) for one in (row.key, row.value))
        yield row.offset, Record(row.partition, row.time, key, value, headers)


def kill_when(command: Sequence[str], condition: Callable[[], bool], what: str) -> None:
    """Run a job, and kill its driver and JVM with SIGKILL once the condition holds; fail if it ends before."""
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True) as job:
        wait_until(lambda: job.poll() is not None or condition(), what, 240)
        ended = job.poll() is not None
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        _, printed = job.communicate()
    assert not ended, printed


def offsets_of(bootstrap: str, topic: str) -> int:
    """Return the number of offsets of a topic, those of open transactions included; 0 if it does not exist."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 0})
    found = consumer.list_topics(timeout=TIMEOUT_S).topics.get(topic)
    partitions = [TopicPartition(topic, partition) for partition in (found.partitions if found else ())]
    ends = sum(consumer.get_watermark_offsets(partition, TIMEOUT_S)[1] for partition in partitions)
    consumer.close()
    return ends


def topic_config(bootstrap: str, topic: str) -> dict[str, str | None]:
    """Return what is set for a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(TIMEOUT_S).values()
    return {entry.name: entry.value for entry in entries if not entry.is_default}
