"""What the jobs' source reads: many partitions, grown topics, patterns, both kinds of timestamps, starts by time."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from barnabas.testing import Cluster
from spark_jobs import cluster, io, table, windows
from spark_jobs.errors import JobError, remedy_of
from spark_jobs.io import Destination, check_topic_ids, read_batch, read_stream
from spark_jobs.job import absent_topics, writer
from spark_jobs.options import SourceOptions, StreamOptions
from tests.broker_process import BrokerProcess, free_address

NOON_MS = 1_767_268_800_000
PARTITIONS = int(os.environ.get("BARNABAS_TEST_WIDE_TOPIC", "30"))
# The client gives up soon, so that the tests need not wait a minute.
IMPATIENT = (
    ("kafka.default.api.timeout.ms", "3000"),
    ("kafka.request.timeout.ms", "2000"),
    ("fetchOffset.numRetries", "1"),
)


@pytest.fixture
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def create(admin: AdminClient, *topics: NewTopic) -> None:
    for made in admin.create_topics(list(topics)).values():
        made.result(60)


def put(broker: BrokerProcess, topic: str, values: range, **more: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, str(value), **{"partition": more["partition"](value)} if "partition" in more else {})
    producer.flush()


class Collected:
    """A streaming query that collects the values of its records, by batch."""

    def __init__(self, spark: SparkSession, options: StreamOptions) -> None:
        self.values: list[str] = []
        self.query: StreamingQuery = writer(read_stream(spark, options), "collected", options, self._write).start()

    def _write(self, batch: DataFrame, _: int) -> None:
        self.values += [bytes(row.value).decode() for row in batch.select("value").collect()]


@pytest.fixture
def collect(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> Iterator[Callable[..., Collected]]:
    running: list[Collected] = []

    def started(**options: Any) -> Collected:
        chosen = {"brokers": broker.bootstrap, "checkpoint": str(tmp_path / "c"), "trigger": "0 seconds", **options}
        running.append(Collected(spark, StreamOptions(**chosen)))
        return running[-1]

    yield started
    for one in running:
        one.query.stop()


def test_a_topic_of_many_partitions_is_read_whole(
    spark: SparkSession, broker: BrokerProcess, admin: AdminClient
) -> None:
    create(admin, NewTopic("wide", PARTITIONS, 1))
    put(broker, "wide", range(3 * PARTITIONS), partition=lambda value: value % PARTITIONS)
    frame = read_batch(spark, SourceOptions(brokers=broker.bootstrap, topic=("wide",)))
    found = frame.selectExpr("partition", "CAST(CAST(value AS STRING) AS INT) AS value").collect()
    assert sorted(row.value for row in found) == list(range(3 * PARTITIONS))
    assert {row.value % PARTITIONS == row.partition for row in found} == {True}


def test_partitions_and_topics_that_come_while_a_pattern_is_read_are_read_from_their_start(
    broker: BrokerProcess, admin: AdminClient, collect: Callable[..., Collected]
) -> None:
    create(admin, NewTopic("events-a", 1, 1), NewTopic("other", 1, 1))
    put(broker, "events-a", range(10))
    put(broker, "other", range(1000, 1010))
    one = collect(topic_pattern="events-.*")
    one.query.processAllAvailable()
    admin.create_partitions([NewPartitions("events-a", 3)])["events-a"].result(30)
    create(admin, NewTopic("events-b", 2, 1))
    put(broker, "events-a", range(10, 40), partition=lambda value: value % 3)
    put(broker, "events-b", range(40, 50))
    one.query.processAllAvailable()
    assert sorted(map(int, one.values)) == list(range(50))


def test_no_task_waits_long_behind_the_last_record(spark: SparkSession) -> None:
    with Cluster() as cluster:
        topic = cluster.topic()
        topic.produce(["a", "b"])
        assert read_batch(spark, SourceOptions(brokers=cluster.bootstrap, topic=(topic.name,))).count() == 2
        fetches = [sent["request"] for sent in cluster.requests(api="Fetch", topic=topic)]
    assert {(fetch["max_wait_ms"], fetch["isolation_level"]) for fetch in fetches} == {(10, 1)}


def test_both_kinds_of_timestamps_are_read_and_a_start_by_time_finds_them(
    spark: SparkSession, broker: BrokerProcess, admin: AdminClient
) -> None:
    by_broker = {"message.timestamp.type": "LogAppendTime"}
    create(
        admin, NewTopic("created", 2, 1, config={"retention.ms": "-1"}), NewTopic("appended", 1, 1, config=by_broker)
    )
    producer, begun_ms = Producer({"bootstrap.servers": broker.bootstrap}), int(time.time() * 1000)
    for minute in range(20):
        for topic in ("created", "appended"):
            producer.produce(
                topic, str(minute), partition=minute % 2 * (topic == "created"), timestamp=NOON_MS + minute * 60_000
            )
    producer.flush()

    def read(topic: str, start: str) -> list[tuple[int, int, int]]:
        options = SourceOptions(brokers=broker.bootstrap, topic=(topic,), start=start)
        chosen = read_batch(spark, options).selectExpr(
            "CAST(CAST(value AS STRING) AS INT)", "unix_millis(timestamp)", "timestampType"
        )
        return sorted((row[0], row[1], row[2]) for row in chosen.collect())

    assert read("created", "earliest") == [(minute, NOON_MS + minute * 60_000, 0) for minute in range(20)]
    assert [minute for minute, _, _ in read("created", "2026-01-01T12:15")] == [15, 16, 17, 18, 19]
    assert [minute for minute, _, _ in read("created", "2026-01-01T14:15:30+02:00")] == [16, 17, 18, 19]
    assert read("created", "2026-01-02") == []
    appended = read("appended", "2026-01-01T12:15")
    assert [minute for minute, _, _ in appended] == list(range(20))
    assert {kind for _, _, kind in appended} == {1}
    assert min(at for _, at, _ in appended) >= begun_ms


def failed(query: StreamingQuery) -> str:
    """Return the sentence about the error that ends a query."""
    with pytest.raises(Exception) as error:  # noqa: PT011 - Spark's, of any class
        query.awaitTermination(120)
    remedy = remedy_of(error.value)
    assert remedy is not None, str(error.value)
    return remedy


def test_a_topic_that_does_not_exist_ends_in_a_sentence(collect: Callable[..., Collected]) -> None:
    assert failed(collect(topic=("absent",)).query) == "a topic does not exist: create it, or correct its name"


def test_topics_that_do_not_exist_are_named(spark: SparkSession, broker: BrokerProcess, admin: AdminClient) -> None:
    create(admin, NewTopic("events", 1, 1))
    of_kafka = Exception("UnknownTopicOrPartitionException: This server does not host this topic-partition.")
    options = StreamOptions(checkpoint="unused", brokers=broker.bootstrap, topic=("events", "absent"))
    assert absent_topics(of_kafka, spark, options) == ["absent"]
    assert absent_topics(Exception("another"), spark, options) == []
    away = StreamOptions(checkpoint="unused", brokers=free_address(), topic=("absent",), kafka=IMPATIENT)
    assert absent_topics(of_kafka, spark, away) == []


def test_a_broker_that_is_away_at_the_start_ends_in_a_sentence(collect: Callable[..., Collected]) -> None:
    one = collect(topic=("events",), brokers=free_address(), kafka=IMPATIENT)
    assert failed(one.query).startswith("no broker answers at the address of --brokers")


def test_a_broker_that_goes_away_ends_the_job_and_a_restart_goes_on(
    broker: BrokerProcess, admin: AdminClient, collect: Callable[..., Collected]
) -> None:
    create(admin, NewTopic("events", 1, 1))
    put(broker, "events", range(10))
    one = collect(topic=("events",), kafka=IMPATIENT)
    one.query.processAllAvailable()
    broker.kill()
    assert failed(one.query).startswith("no broker answers at the address of --brokers")
    broker.start()
    put(broker, "events", range(10, 20))
    other = collect(topic=("events",), kafka=IMPATIENT, available_now=True)
    assert other.query.awaitTermination(120)
    assert sorted(map(int, one.values + other.values)) == list(range(20))


def test_records_that_were_deleted_unread_end_the_job_unless_that_is_allowed(
    broker: BrokerProcess, admin: AdminClient, collect: Callable[..., Collected]
) -> None:
    create(admin, NewTopic("events", 1, 1))
    put(broker, "events", range(10))
    assert collect(topic=("events",), available_now=True).query.awaitTermination(120)
    admin.delete_topics(["events"])["events"].result(30)
    create(admin, NewTopic("events", 1, 1))
    put(broker, "events", range(100, 105))
    assert failed(collect(topic=("events",), available_now=True).query).startswith(
        "records were deleted before they were"
    )
    allowed = collect(topic=("events",), available_now=True, kafka=(("failOnDataLoss", "false"),))
    assert allowed.query.awaitTermination(120)


def test_a_topic_that_was_created_again_is_noticed_though_it_has_as_many_records(
    spark: SparkSession, broker: BrokerProcess, admin: AdminClient, tmp_path: Path
) -> None:
    create(admin, NewTopic("events", 1, 1), NewTopic("events-b", 1, 1))
    named = StreamOptions(checkpoint=str(tmp_path / "named"), brokers=broker.bootstrap, topic=("events", "absent"))
    matched = StreamOptions(checkpoint=str(tmp_path / "matched"), brokers=broker.bootstrap, topic_pattern="events.*")
    for options in (named, matched) * 2:
        check_topic_ids(spark, options)
    admin.delete_topics(["events"])["events"].result(30)
    create(admin, NewTopic("events", 1, 1), NewTopic("events-c", 1, 1))
    for options in (named, matched):
        with pytest.raises(JobError, match=r"the topic events was deleted and created again since the last start with"):
            check_topic_ids(spark, options)
        check_topic_ids(spark, replace(options, kafka=(("FailOnDataLoss", "false"),)))
        check_topic_ids(spark, options)


def test_a_job_checks_the_ids_of_its_topics_unless_it_begins_anew(
    spark: SparkSession, broker: BrokerProcess, admin: AdminClient, tmp_path: Path
) -> None:
    create(admin, NewTopic("events", 1, 1))
    words = ["-b", broker.bootstrap, "-t", "events", "--checkpoint"]
    counting = windows.JOB.parsed([*words, str(tmp_path / "windows"), "--to", "console"])
    keeping = [*words, str(tmp_path / "table"), "--to", f"delta:{tmp_path}/out", "--schema", "id long"]
    windows.JOB.claim(spark, counting)
    table.JOB.claim(spark, table.JOB.parsed(keeping))
    admin.delete_topics(["events"])["events"].result(30)
    create(admin, NewTopic("events", 1, 1))
    for job, options in ((windows.JOB, counting), (table.JOB, table.JOB.parsed(keeping))):
        with pytest.raises(JobError, match="the topic events was deleted and created again"):
            job.claim(spark, options)
    table.JOB.claim(spark, table.JOB.parsed([*keeping, "--rebuild"]))


def test_clients_that_queries_have_used_are_closed_with_the_session(spark: SparkSession, broker: BrokerProcess) -> None:
    one, other = (cluster.Cluster(spark, {"kafka.bootstrap.servers": broker.bootstrap}) for _ in range(2))
    assert one.id() == other.id()
    other.close()
    cluster.close_all()
    with pytest.raises(Exception, match=r"(?i)clos"):
        one.id()


def test_a_directory_of_another_job_is_refused_before_anything_is_read(spark: SparkSession, tmp_path: Path) -> None:
    io.claim_destination(spark, Destination("parquet", str(tmp_path / "out")), "archive", str(tmp_path / "a"))
    wrong = windows.WindowsOptions(
        checkpoint=str(tmp_path / "c"), to=Destination("parquet", str(tmp_path / "out")), topic=("t",)
    )
    with pytest.raises(JobError, match=r"is written by archive with the checkpoint .*/a; choose another directory"):
        windows.start(spark, wrong)
