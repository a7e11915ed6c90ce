"""Replay the data set into a broker's topics, continuing where an earlier replay stopped.

Each partition of `flights` gets its flights in order, so the records that it has are a prefix, and its end offset is
the number to skip. After each day the producer flushes: the partitions are never further apart than a day of event
time, which the job's watermark allows.

`python -m spark_jobs.flights.feed` replays everything into a running broker.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from spark_jobs.flights.dataset import CLOSING_MS, DAYS, FLIGHTS, ProducerRecord, departures, reference_tables

PARTITIONS = 3
CLOSING_KEY = b"closing"
KEEP_FOR_EVER = {"retention.ms": "-1"}
COMPACTED = {"cleanup.policy": "compact"}
DEFAULT_REPLICAS = -1  # the default of the brokers


def create_topics(bootstrap: str) -> None:
    """Create the demo's topics if missing, with as many replicas as the cluster's default.

    Nothing is deleted by age, because the timestamps are of 2013; the newest record of a key of `delays` and of the
    reference tables is kept.
    """
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        existing = set(admin.list_topics())
        partitions = {"flights": PARTITIONS, "delays": 1, "planes": 1, "airports": 1, "weather": 1}
        missing = {
            name: {
                "num_partitions": count,
                "replication_factor": DEFAULT_REPLICAS,
                "configs": KEEP_FOR_EVER | ({} if name == "flights" else COMPACTED),
            }
            for name, count in partitions.items()
            if name not in existing
        }
        if missing:
            admin.create_topics(missing)
    finally:
        admin.close()


def load_reference_tables(bootstrap: str) -> dict[str, int]:
    """Write each reference table into its own topic unless it is there; return the number of rows of each."""
    counts = {}
    for topic, records in reference_tables().items():
        present = _end_offsets(bootstrap, topic)[0]
        with _producer(bootstrap) as producer:
            for record in records[present:]:
                _send(producer, topic, record)
        counts[topic] = len(records)
    return counts


def replay_flights(bootstrap: str, *, seconds: float, report: Callable[[int, int], None], days: int = DAYS) -> int:
    """Replay the rest of the year's first days, a year in about `seconds`; return the number of flights sent.

    `report(day of the year, flights sent)` is called after each day.
    """
    present = _end_offsets(bootstrap, "flights")
    if sum(present.values()) >= FLIGHTS:
        return 0
    partition_of = _Partitioner(PARTITIONS)
    sent = 0
    started = time.monotonic()
    with _producer(bootstrap) as producer:
        for number, day in enumerate(departures(days), 1):
            for record in day:
                partition = partition_of[record.key]
                if present[partition] > 0:
                    present[partition] -= 1
                    continue
                _send(producer, "flights", record, partition)
                sent += 1
            producer.flush()
            report(number, sent)
            time.sleep(max(0.0, started + seconds * number / DAYS - time.monotonic()))
    return sent


def send_closing_record(bootstrap: str) -> None:
    """Send a record that only advances the watermark of `flights` readers past the year's last window."""
    with _producer(bootstrap) as producer:
        _send(producer, "flights", ProducerRecord(CLOSING_KEY, None, CLOSING_MS))


class _Partitioner(dict[bytes, int]):
    """The partition that Java producers choose for a key, computed once per key."""

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self.partitions = partitions

    def __missing__(self, key: bytes) -> int:
        from kafka.partitioner import murmur2

        self[key] = (murmur2(key) & 0x7FFFFFFF) % self.partitions
        return self[key]


@contextmanager
def _producer(bootstrap: str) -> Iterator[Any]:
    """Yield an idempotent producer; the end of the block waits until every record is acknowledged."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, linger_ms=5)
    failures: list[BaseException] = []
    producer.failures = failures
    try:
        yield producer
        producer.flush()
    finally:
        producer.close()
    if failures:
        raise failures[0]


def _send(producer: Any, topic: str, record: ProducerRecord, partition: int | None = None) -> None:
    sent = producer.send(topic, record.value, record.key, partition=partition, timestamp_ms=record.timestamp_ms)
    sent.add_errback(producer.failures.append)


def _end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    from kafka import KafkaConsumer, TopicPartition

    consumer: Any = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        partitions = [TopicPartition(topic, index) for index in consumer.partitions_for_topic(topic) or ()]
        return {partition.partition: end for partition, end in consumer.end_offsets(partitions).items()}
    finally:
        consumer.close()


def main() -> None:
    """Create the topics, load the reference tables and replay the year, as far as they are missing."""
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.flights.feed", description=main.__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", metavar="HOST:PORT")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the year takes (default: %(default)s)")
    options = parser.parse_args()
    create_topics(options.bootstrap)
    load_reference_tables(options.bootstrap)
    sent = replay_flights(options.bootstrap, seconds=options.seconds, report=lambda *_: None)
    send_closing_record(options.bootstrap)
    sys.stdout.write(f"topic flights: {sent:,} records sent\n")


if __name__ == "__main__":
    main()
