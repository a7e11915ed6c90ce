"""Topics for the tests of jobs: real flights, and records that jobs must survive; and jobs that are killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.flights.dataset import departures
from tests.chaos.cluster import wait_until

# Of each job.
KILLS = int(os.environ.get("BARNABAS_TEST_JOB_KILLS", "1"))
DAY_MS = 86_400_000
HUGE = 700_000
FOREVER = {"retention.ms": "-1"}  # the timestamps are of the past

Header = tuple[str, bytes | None]


class StreamRecord(NamedTuple):
    """A record to write, or one that was read."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[Header, ...] = ()
    partition: int = 0


@cache
def flights(days: int) -> tuple[StreamRecord, ...]:
    """Return the flights of the first days of 2013, in the order of their departures."""
    return tuple(
        StreamRecord(record.key, record.value, record.timestamp_ms or 0) for day in departures(days) for record in day
    )


def with_oddities(records: Sequence[StreamRecord]) -> list[StreamRecord]:
    """Return the records with late and duplicate ones, and with malformed, huge, null and header-only values between.

    Late ones are up to half a day behind their place.
    """
    made: list[StreamRecord] = []
    for number, record in enumerate(records):
        made.append(record)
        if number % 500 == 100:
            made.append(records[number - 50]._replace(timestamp_ms=record.timestamp_ms - DAY_MS // 2))
        if number % 700 == 200:
            made.append(record)
        if number % 900 == 300:
            made += odd_records(record.timestamp_ms)
    return made


def odd_records(timestamp_ms: int) -> list[StreamRecord]:
    """Return a record of each odd kind."""
    huge = json.dumps({"carrier": "UA", "note": "x" * HUGE}).encode()
    values = [
        b'{"carrier": "UA", ',
        b"\xff\xfe\x00",
        b"[1, 2]",
        b"",
        b'{"carrier": 7, "dep_delay": "late"}',
        huge,
        None,
    ]
    odd = [StreamRecord(b"odd", value, timestamp_ms, (("trace", b"\x00\xff"), ("empty", None))) for value in values]
    return [*odd, StreamRecord(None, None, timestamp_ms, (("only", b"headers"),))]


def create(bootstrap: str, *topics: str, partitions: int = 1) -> None:
    made = [NewTopic(topic, partitions, 1, config=FOREVER) for topic in topics]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics(made).values():
        created.result(30)


def write(bootstrap: str, topic: str, records: Iterable[StreamRecord]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 200_000})
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            timestamp=record.timestamp_ms,
            headers=list(record.headers) or None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0


def read(bootstrap: str, topic: str) -> list[StreamRecord]:
    """Return all committed records of a topic, partition by partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True})
    try:
        found: list[StreamRecord] = []
        for partition in sorted(consumer.list_topics(topic, 30).topics[topic].partitions):
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            while (message := consumer.poll(30)) is not None and message.error() is None:
                kind, timestamp_ms = message.timestamp()
                assert kind == TIMESTAMP_CREATE_TIME
                headers: Any = message.headers() or ()
                found.append(StreamRecord(message.key(), message.value(), timestamp_ms, tuple(headers), partition))
            assert message is not None, f"{topic}-{partition} does not end"
            error = message.error()
            assert error is not None
            assert error.code() == KafkaError._PARTITION_EOF
        return found
    finally:
        consumer.close()


class KilledJob(NamedTuple):
    """A streaming job to kill, with the arguments of `barnabas spark run` but its checkpoint."""

    name: str
    words: Sequence[str]
    checkpoint: Path

    def number(self, log: str) -> int:
        """Return the number of batches in a log: `offsets` when they begin, `commits` when they end."""
        return len(list((self.checkpoint / log).glob("[0-9]*")))

    def is_amid(self, begun: int) -> bool:
        """Return whether a batch runs, and another one ended since so many had."""
        return self.number("offsets") > self.number("commits") > begun


def run_killed(job: KilledJob) -> None:
    """Run a job, and kill its driver and JVM in the middle of a batch; as often as the figures say."""
    for _ in range(KILLS):
        begun = job.number("commits")
        _kill_when(partial(job.is_amid, begun), [job])


def run_killed_together(jobs: Sequence[KilledJob], folder: Path) -> None:
    """Run jobs in one process; kill it and its JVM when each has written the results of a batch, but not its end."""
    _kill_when(lambda: len(list(folder.iterdir())) == len(jobs), jobs, str(folder))
    assert all(job.is_amid(0) for job in jobs)


def _kill_when(condition: Callable[[], bool], jobs: Sequence[KilledJob], *words: str) -> None:
    arguments = [[job.name, [*job.words, "--checkpoint", str(job.checkpoint)]] for job in jobs]
    command = [sys.executable, "-m", "tests.spark.several_jobs", json.dumps(arguments), *words]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True) as running:
        wait_until(lambda: running.poll() is not None or condition(), "a batch of each job runs", 240)
        ended = running.poll() is not None
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        _, printed = running.communicate()
    assert not ended, printed


def finished(query: StreamingQuery | None) -> None:
    """Wait until a query that reads what is available has ended."""
    assert query is not None
    assert query.awaitTermination(240)
