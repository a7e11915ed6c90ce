"""Spark reads a compacted topic with aborted and open transactions: committed records, each once, across the gaps."""

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from tests.applications.topics import Reader
from tests.broker_process import QUICK_GROUPS, BrokerProcess

SETTINGS = {
    "log.cleaner.backoff.ms": 100,
    "log.initial.task.delay.ms": 100,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
TOPIC = {"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01"}
KEYS = 50
TIMEOUT_S = 60.0

Row = tuple[str, str, int, int]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker", QUICK_GROUPS | SETTINGS) as running:
        yield running
    running.check_log()


class Transactions:
    """A transactional producer, which commits and aborts the records of numbered transactions."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": 600_000}
        )
        self._producer.init_transactions(TIMEOUT_S)

    def send(self, number: int, outcome: str) -> None:
        """Write a record of each key in both partitions, and end the transaction unless it is to stay open."""
        self._producer.begin_transaction()
        for key in range(KEYS):
            for partition in (0, 1):
                self._producer.produce("events", f"{outcome} {number}", f"key{key}", partition)
        self._producer.flush(TIMEOUT_S)
        self.end(outcome)

    def end(self, outcome: str) -> None:
        if outcome == "committed":
            self._producer.commit_transaction(TIMEOUT_S)
        elif outcome == "aborted":
            self._producer.abort_transaction(TIMEOUT_S)


def committed(bootstrap: str) -> list[Row]:
    """Return the committed records as librdkafka reads them."""
    with Reader(bootstrap, "events") as reader:
        records = reader.read_to_end()["events"]
    return sorted((record.key or "", record.value or "", record.partition, record.offset) for record in records)


def rows(frame: DataFrame) -> list[Row]:
    chosen = frame.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "partition", "offset")
    return sorted((row[0], row[1], row[2], row[3]) for row in chosen.collect())


def options(bootstrap: str) -> dict[str, str]:
    read_committed = {"kafka.isolation.level": "read_committed", "startingOffsets": "earliest"}
    return {"kafka.bootstrap.servers": bootstrap, "subscribe": "events", **read_committed}


def stream(spark: SparkSession, bootstrap: str, folder: Path) -> list[Row]:
    """Run the stream over what there is, in small batches; return all rows that it has written so far."""
    frame = spark.readStream.format("kafka").options(**options(bootstrap), maxOffsetsPerTrigger="1000").load()
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.option("path", str(folder / "rows")).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return rows(spark.read.parquet(str(folder / "rows")))


def test_batches_and_streams_read_committed_records_across_the_gaps(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    bootstrap = broker.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("events", 2, 1, config=TOPIC)])["events"].result(30)
    transactions, deadline = Transactions(bootstrap, "events"), time.monotonic() + TIMEOUT_S
    for number in count():
        transactions.send(2 * number, "committed")
        transactions.send(2 * number + 1, "aborted")
        if number % 10 == 9 and len(committed(bootstrap)) < number * KEYS:
            break
        assert time.monotonic() < deadline, "nothing was compacted"
    transactions.send(1000, "aborted")
    transactions.send(1001, "committed")
    in_the_way = Transactions(bootstrap, "open")
    in_the_way.send(1002, "open")
    transactions.send(1003, "committed")

    def batch() -> list[Row]:
        return rows(spark.read.format("kafka").options(**options(bootstrap)).load())

    for read in (batch, lambda: stream(spark, bootstrap, tmp_path)):
        before, found, after = committed(bootstrap), read(), committed(bootstrap)
        assert {value.split()[0] for _, value, _, _ in before} == {"committed"}
        assert max(int(value.split()[1]) for _, value, _, _ in before) == 1001
        assert len(found) == len(set(found))
        # Compaction goes on: what it removes in between may be in the rows or not.
        assert set(after) <= set(found) <= set(before)
