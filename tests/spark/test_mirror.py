"""The job `mirror`: two clusters, a job that is killed, partitions that are added, and a consumer that moves."""

import shutil
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from spark_jobs import mirror
from spark_jobs.errors import JobError, remedy_of
from spark_jobs.mirror import MirrorOptions, StoredOffsets
from spark_jobs.offset_map import NumberedRun, PartitionOffsetMap
from spark_jobs.sending import OffsetRun
from tests.broker_process import QUICK_GROUPS, BrokerProcess, free_address
from tests.spark import exact_records
from tests.spark.exact_records import TIMEOUT_S, Record, offsets_of
from tests.spark.streams import KILLS

SETTINGS = QUICK_GROUPS | {
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "offsets.topic.num.partitions": 4,
}


def test_a_topic_that_grew_amid_a_batch_has_a_remedy() -> None:
    text = "Kafka data source should provide the same topic partitions in pre-fetched offset to end offset"
    assert "start the job without --available-now until" in (remedy_of(Exception(text)) or "")


def test_offsets_are_not_translated_while_a_run_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    translated = threading.Event()

    def translate() -> None:
        stored.translate(("orders", 0), 1)
        translated.set()

    class Watched(PartitionOffsetMap):
        """A map that another thread translates by while a run is added."""

        def add(self, source: int, target: int, records: int) -> tuple[NumberedRun, list[NumberedRun]]:
            listener.start()
            assert not translated.wait(0.2)
            return super().add(source, target, records)

    listener = threading.Thread(target=translate)
    stored = StoredOffsets("unused", {"bootstrap.servers": free_address()}, [])
    stored._maps["orders", 0] = Watched()
    monkeypatch.setattr(mirror, "FLUSH_S", 0)
    with pytest.raises(JobError, match="the offset map was not written to unused"):
        stored.add([OffsetRun("orders", 0, 0, 0, 9)])
    listener.join()
    assert translated.is_set()


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The addresses of two brokers, which are two clusters."""
    with BrokerProcess(tmp_path / "source", SETTINGS) as source, BrokerProcess(tmp_path / "target", SETTINGS) as target:
        yield source.bootstrap, target.bootstrap
    source.check_log()
    target.check_log()


def run(spark: SparkSession, clusters: tuple[str, str], folder: Path, **changes: object) -> None:
    """Copy what the topics have; raise JobError with the job's message if it fails."""
    chosen: dict[str, object] = {
        "brokers": clusters[0],
        "to_brokers": clusters[1],
        "topic": ("orders",),
        "checkpoint": str(folder / "checkpoint"),
        "available_now": True,
    }
    options = MirrorOptions(**chosen | changes)  # type: ignore[arg-type]
    try:
        assert mirror.start(spark, options).awaitTermination(240)
    except Exception as error:
        raise JobError(remedy_of(error) or f"unknown: {error}") from error


def consume(bootstrap: str, group: str, number: int) -> list[Record]:
    """Consume so many records of `orders` as a member of a group, or all that are left; commit behind them."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    partitions = [TopicPartition("orders", partition) for partition in range(2)]
    positions = consumer.committed(partitions, TIMEOUT_S)
    consumer.assign([TopicPartition("orders", one.partition, max(0, one.offset)) for one in positions])
    found: list[Record] = []
    ended: set[int | None] = set()
    while len(found) < number and len(ended) < 2:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, "no answer"
        if message.error():
            ended.add(message.partition())
        else:
            found.append(Record(message.partition() or 0, message.timestamp()[1], message.key(), message.value(), ()))
    if found:
        consumer.commit(offsets=consumer.position(partitions), asynchronous=False)
    consumer.close()
    return found


def test_a_killed_mirror_copies_every_record_once_and_follows_new_partitions(
    spark: SparkSession, clusters: tuple[str, str], tmp_path: Path
) -> None:
    source, target = clusters
    records = exact_records.generated(600, partitions=2)
    exact_records.create(source, "orders", 2, **{"segment.ms": "3600000", "message.timestamp.type": "CreateTime"})
    exact_records.produce(source, "orders", records)
    command = [
        *(sys.executable, "-m", "spark_jobs.mirror", "-b", source, "-t", "orders", "--to-brokers", target),
        *("--checkpoint", str(tmp_path / "checkpoint"), "--transaction", "20", "--max-offsets-per-trigger", "300"),
        *("--available-now", "--master", "local[2]"),
    ]

    def copies(least: int) -> bool:
        return offsets_of(target, "orders") > least

    for _ in range(KILLS):
        exact_records.kill_when(command, partial(copies, offsets_of(target, "orders") + 30), "the job copies")
    run(spark, clusters, tmp_path, transaction=20)
    assert exact_records.consumed(target, "orders") == exact_records.by_partition(records)
    assert exact_records.topic_config(target, "orders")["segment.ms"] == "3600000"

    admin = AdminClient({"bootstrap.servers": source})
    admin.create_partitions([NewPartitions("orders", 3)])["orders"].result(30)
    more = [*records[:10], *(record._replace(partition=2) for record in records[:50])]
    exact_records.produce(source, "orders", more)
    shutil.rmtree(tmp_path / "checkpoint")
    run(spark, clusters, tmp_path)
    assert exact_records.consumed(target, "orders") == exact_records.by_partition([*records, *more])


def test_a_consumer_that_moves_to_the_other_cluster_goes_on_where_it_was(
    spark: SparkSession, clusters: tuple[str, str], tmp_path: Path
) -> None:
    source, target = clusters
    records = [Record(at % 2, exact_records.BEGIN_MS + at, None, b"%d" % at, ()) for at in range(400)]
    exact_records.create(source, "orders", 2)
    exact_records.produce(source, "orders", records[:300])
    seen = consume(source, "readers", 120)
    run(spark, clusters, tmp_path, groups="read.*", transaction=10)
    seen += consume(source, "readers", 50)
    exact_records.produce(source, "orders", records[300:])
    run(spark, clusters, tmp_path, groups="read.*", transaction=10)
    assert sorted(seen + consume(target, "readers", 10_000)) == sorted(records)
    run(spark, clusters, tmp_path, groups="read.*")
    assert consume(target, "readers", 10_000) == [], "the group went back"

    # The target has the new partition with its first record.
    admin = AdminClient({"bootstrap.servers": source})
    admin.create_partitions([NewPartitions("orders", 3)])["orders"].result(30)
    moved = ConsumerGroupTopicPartitions("readers", [TopicPartition("orders", 2, 0)])
    admin.alter_consumer_group_offsets([moved])["readers"].result(30)
    exact_records.produce(source, "orders", [Record(2, exact_records.BEGIN_MS, None, b"new", ())])
    run(spark, clusters, tmp_path, groups="read.*")
    assert exact_records.consumed(target, "orders")[-1].value == b"new"


def test_what_a_mirror_refuses(spark: SparkSession, clusters: tuple[str, str], tmp_path: Path) -> None:
    source, target = clusters
    exact_records.create(source, "orders", 1)
    records = [record._replace(partition=0) for record in exact_records.generated(20, huge=0)]
    exact_records.produce(source, "orders", records)
    with pytest.raises(JobError, match="orders would be copied into itself"):
        run(spark, (source, source), tmp_path)
    with pytest.raises(JobError, match="the job would read orders-copy, which it writes"):
        run(spark, (source, source), tmp_path, topic=(), topic_pattern="orders.*", to="{topic}-copy")
    exact_records.create(target, "restamped", 1, **{"message.timestamp.type": "LogAppendTime"})
    with pytest.raises(JobError, match="restamped would lose the timestamps"):
        run(spark, clusters, tmp_path / "restamped", to="restamped")
    run(spark, clusters, tmp_path)
    # The partition is read by four tasks at once.
    run(spark, clusters, tmp_path / "divided", to="divided", kafka=(("minPartitions", "4"),))
    assert exact_records.consumed(target, "divided") == records

    admin = AdminClient({"bootstrap.servers": source})
    admin.delete_topics(["orders"])["orders"].result(30)
    exact_records.create(source, "orders", 1)
    exact_records.produce(source, "orders", [*records, *records])
    with pytest.raises(JobError, match="was deleted and created again: delete orders too"):
        run(spark, clusters, tmp_path)
    assert exact_records.consumed(target, "orders") == records
