"""The job `replay`: ranges, the order of sending, and whole replays of topics and archives, killed in the middle."""

import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark_jobs import archive, replay
from spark_jobs.archive import ArchiveOptions
from spark_jobs.cluster import Topic
from spark_jobs.errors import JobError, remedy_of
from spark_jobs.files import claim
from spark_jobs.io import Destination
from spark_jobs.replay import OPEN, Bound, Plan, ReplayOptions, bound, ranges, within
from spark_jobs.sending import to_send
from spark_jobs.targets import connection, copied_config, target_of
from tests.broker_process import QUICK_GROUPS, BrokerProcess
from tests.spark import exact_records
from tests.spark.exact_records import Record, offsets_of
from tests.spark.streams import KILLS

PARTITIONS = st.integers(0, 3).map(str)
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 1000), min_size=1)


def options(broker: str, checkpoint: Path, **changes: object) -> ReplayOptions:
    chosen: dict[str, object] = {"brokers": broker, "checkpoint": str(checkpoint), "to": "{topic}-copy"}
    return ReplayOptions(**chosen | changes)  # type: ignore[arg-type]


def run(spark: SparkSession, chosen: ReplayOptions) -> None:
    """Run the job to its end; raise JobError with its message if it fails."""
    try:
        replay.start(spark, chosen)
    except Exception as error:
        raise JobError(remedy_of(error) or f"unknown: {error}") from error


def test_bounds_are_times_or_offsets() -> None:
    assert bound("earliest", "earliest") == OPEN
    assert bound("2023-11-14T22:13:20", "latest").time_ms == exact_records.BEGIN_MS
    assert bound("2023-11-14T23:13:20+01:00", "latest").time_ms == exact_records.BEGIN_MS
    assert bound("0=100,2=7", "earliest") == Bound(None, {0: 100, 2: 7})
    for wrong in ("latest", "0=", "0:5", "yesterday", "0=1;1=2", ""):
        with pytest.raises(JobError, match="write earliest, a time such as"):
            bound(wrong, "earliest")


@given(
    OFFSETS,
    OFFSETS,
    st.dictionaries(st.integers(0, 3), st.integers(0, 1200)),
    st.dictionaries(st.integers(0, 3), st.integers(0, 1200)),
)
def test_a_range_is_within_what_there_is_and_never_ends_before_it_begins(
    first: dict[str, int], numbers: dict[str, int], start: dict[int, int], end: dict[int, int]
) -> None:
    last = {partition: offset + numbers.get(partition, 0) for partition, offset in first.items()}
    starts, ends = ranges({"t": first}, {"t": last}, Bound(None, start), Bound(None, end))
    for partition, offset in first.items():
        for record in range(offset, last[partition], 97):
            chosen = start.get(int(partition), 0) <= record < end.get(int(partition), record + 1)
            assert chosen is (starts["t"][partition] <= record < ends["t"][partition])
        assert offset <= starts["t"][partition] <= ends["t"][partition] <= last[partition]


@given(OFFSETS, OFFSETS, st.dictionaries(st.integers(0, 3), st.integers(0, 3000)))
def test_what_is_left_begins_at_the_positions_and_a_plan_is_read_back(
    first: dict[str, int], numbers: dict[str, int], reached: dict[int, int]
) -> None:
    last = {partition: offset + numbers.get(partition, 0) for partition, offset in first.items()}
    plan = Plan("id", {"t": Topic("topic id", 4, {"retention.ms": "5"})}, {"t": first}, {"t": last})
    assert Plan.parse(plan.text()) == plan
    left = plan.left({("u", partition): offset for partition, offset in reached.items()}, {"t": "u"})["t"]
    for partition, offset in first.items():
        position = reached.get(int(partition), 0)
        assert left[partition] == min(last[partition], max(offset, position))


def test_names_of_targets_do_not_mix_topics() -> None:
    assert target_of({"a": 1, "b": 2}, "x-{topic}") == {"a": "x-a", "b": "x-b"}
    assert target_of({"a": 1}, "c") == {"a": "c"}
    with pytest.raises(JobError, match="would mix 2 topics"):
        target_of({"a": 1, "b": 2}, "c")


def test_created_topics_keep_timestamps_and_what_the_source_is_set_to() -> None:
    source = {"cleanup.policy": "compact", "retention.ms": "5", "message.timestamp.type": "LogAppendTime"}
    made = copied_config(source | {"min.insync.replicas": "2"}, keep_timestamps=True, forever=True)
    assert {name: made[name] for name in source} == {
        "cleanup.policy": "compact",
        "retention.ms": "-1",
        "message.timestamp.type": "CreateTime",
    }
    assert "min.insync.replicas" not in made
    assert copied_config(source, keep_timestamps=True, forever=False)["retention.ms"] == "5"


def test_the_connection_of_java_s_client_is_librdkafka_s() -> None:
    kafka = {
        "kafka.bootstrap.servers": "a:1",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": 'org.PlainLoginModule required username="me" password="a\\"b";',
        "kafka.ssl.truststore.location": "/ca.pem",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.isolation.level": "read_uncommitted",
        "failOnDataLoss": "false",
    }
    assert connection(kafka) == {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": 'a"b',
        "ssl.ca.location": "/ca.pem",
    }


RECORDS = """
    SELECT * FROM VALUES
        ('a', 0, 0L, 1000), ('a', 0, 1L, 5000), ('a', 0, 2L, 2000), ('a', 1, 0L, 3000), ('b', 0, 0L, 4000)
    AS (topic, partition, offset, ms)
"""


def test_records_are_chosen_by_offsets_and_times_and_paced_in_order_of_time(spark: SparkSession) -> None:
    records = spark.sql(RECORDS).selectExpr(
        *("topic", "partition", "offset", "timestamp_millis(ms) AS timestamp", "X'00' AS key", "X'00' AS value"),
        "CAST(NULL AS array<struct<key: string, value: binary>>) AS headers",
    )
    end = {"a": {"0": 3, "1": 1}}
    chosen = within(records, {"a": {"0": 1, "1": 0}}, end, OPEN, Bound(5000, {}))
    assert {(row.partition, row.offset) for row in chosen.collect()} == {(0, 2), (1, 0)}
    chosen = within(records, {"a": {"0": 0, "1": 0}}, end, Bound(2000, {}), OPEN)
    assert {(row.partition, row.offset) for row in chosen.collect()} == {(0, 1), (0, 2), (1, 0)}
    paced = to_send(records, {"a": "x", "b": "y"}, paced=True, ordered=False)
    assert [(row.topic, row.partition, row.offset, row.release) for row in paced.collect()] == [
        ("x", 0, 0, 1000),
        ("x", 1, 0, 3000),
        ("y", 0, 0, 4000),
        ("x", 0, 1, 5000),
        ("x", 0, 2, 5000),
    ]


@pytest.fixture
def broker(tmp_path: Path) -> object:
    one_replica = {"transaction.state.log.replication.factor": 1, "transaction.state.log.min.isr": 1}
    few = {"transaction.state.log.num.partitions": 4, "offsets.topic.num.partitions": 4}
    with BrokerProcess(tmp_path / "broker", QUICK_GROUPS | one_replica | few) as running:
        yield running
    running.check_log()


def test_an_archive_is_replayed_record_by_record_and_once_though_the_job_is_killed(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    records = exact_records.generated(1000)
    exact_records.create(broker.bootstrap, "orders", 3, **{"segment.ms": "3600000"})
    exact_records.produce(broker.bootstrap, "orders", records)
    table = f"parquet:{tmp_path}/archive"
    archived = ArchiveOptions(
        brokers=broker.bootstrap,
        topic=("orders",),
        checkpoint=str(tmp_path / "archiving"),
        to=Destination("parquet", str(tmp_path / "archive")),
        available_now=True,
    )
    assert archive.start(spark, archived).awaitTermination(240)
    command = [
        *(sys.executable, "-m", "spark_jobs.replay", "-b", broker.bootstrap, "--archive", table),
        *("--to", "{topic}-copy", "--checkpoint", str(tmp_path / "replaying"), "--transaction", "20"),
        *("--master", "local[2]", "--spark-conf", "spark.sql.shuffle.partitions=3"),
    ]

    def sends(least: int) -> bool:
        return offsets_of(broker.bootstrap, "orders-copy") > least

    for _ in range(KILLS):
        sent = offsets_of(broker.bootstrap, "orders-copy")
        exact_records.kill_when(command, partial(sends, sent + 30), "the job sends")
        assert len(exact_records.consumed(broker.bootstrap, "orders-copy")) < len(records)
    chosen = options(
        broker.bootstrap,
        tmp_path / "replaying",
        archive=Destination("parquet", str(tmp_path / "archive")),
        transaction=20,
    )
    run(spark, chosen)
    assert exact_records.consumed(broker.bootstrap, "orders-copy") == exact_records.by_partition(records)
    assert exact_records.topic_config(broker.bootstrap, "orders-copy")["segment.ms"] == "3600000"
    ends = offsets_of(broker.bootstrap, "orders-copy")
    run(spark, chosen)
    assert offsets_of(broker.bootstrap, "orders-copy") == ends


def test_ranges_of_topics_are_replayed_at_a_pace_and_with_new_timestamps(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap = broker.bootstrap
    records = [
        Record(partition, exact_records.BEGIN_MS + 100 * at, b"key", b"%d" % at, (("h", None),))
        for at in range(20)
        for partition in (0, 1)
    ]
    exact_records.create(bootstrap, "orders", 2)
    exact_records.produce(bootstrap, "orders", records)

    begin = datetime.fromtimestamp(exact_records.BEGIN_MS / 1000 + 1, UTC).isoformat()
    by_time = options(bootstrap, tmp_path / "time", topic=("orders",), start=begin, pace=4.0)
    before = datetime.now(UTC)
    run(spark, by_time)
    # The last record is 0.9 s after the first: at four times the pace, 0.225 s.
    assert (datetime.now(UTC) - before).total_seconds() > 0.225
    expected = [record for record in records if record.timestamp >= exact_records.BEGIN_MS + 1000]
    assert exact_records.consumed(bootstrap, "orders-copy") == exact_records.by_partition(expected)
    assert "replay: 20 records sent to orders-copy" in capsys.readouterr().err

    by_offset = options(
        bootstrap, tmp_path / "offset", topic=("orders",), start="0=18", end="1=2", to="some", timestamps="now"
    )
    run(spark, by_offset)
    found = exact_records.consumed(bootstrap, "some")
    assert [(record.partition, record.value) for record in found] == [(0, b"18"), (0, b"19"), (1, b"0"), (1, b"1")]
    assert min(record.timestamp for record in found) >= before.timestamp() * 1000

    # Each partition is read by three tasks at once.
    divided = options(bootstrap, tmp_path / "divided", topic=("orders",), to="whole", kafka=(("minPartitions", "6"),))
    run(spark, divided)
    assert exact_records.consumed(bootstrap, "whole") == exact_records.by_partition(records)


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_an_archive_without_records_is_replayed_once_it_has_some(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    exact_records.create(broker.bootstrap, "orders", 1)
    to = Destination(kind, str(tmp_path / "archive"))
    archived = ArchiveOptions(
        brokers=broker.bootstrap, topic=("orders",), checkpoint=str(tmp_path / "a"), to=to, available_now=True
    )
    chosen = options(broker.bootstrap, tmp_path / "replaying", archive=to)
    assert archive.start(spark, archived).awaitTermination(240)
    run(spark, chosen)
    assert capsys.readouterr().err == f"replay: {to} has no records yet; nothing was sent\n"
    if kind == "delta":
        return  # what follows does not depend on the table
    records = [Record(0, exact_records.BEGIN_MS, b"key", b"value", ())]
    exact_records.produce(broker.bootstrap, "orders", records)
    assert archive.start(spark, archived).awaitTermination(240)
    run(spark, chosen)
    assert exact_records.consumed(broker.bootstrap, "orders-copy") == records


def test_what_a_replay_refuses(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> None:
    bootstrap = broker.bootstrap

    def message(name: str, **changes: object) -> str:
        with pytest.raises(JobError) as raised:
            run(spark, options(bootstrap, tmp_path / name, **{"topic": ("orders",)} | changes))
        return str(raised.value)

    assert "the topic orders does not exist" in message("absent")
    exact_records.create(bootstrap, "orders", 2)
    huge = Record(0, exact_records.BEGIN_MS, None, bytes(exact_records.HUGE_BYTES), ())
    exact_records.produce(bootstrap, "orders", [*exact_records.generated(10, partitions=2), huge])
    assert "orders would be replayed into itself" in message("loop", to="{topic}")
    assert "choose --rate or --pace" in message("both", rate=5, pace=1.0)
    for kind in ("parquet", "delta"):
        assert "has no archive" in message(kind, archive=Destination(kind, str(tmp_path / "none")))
    claim(spark, str(tmp_path / "others"), "windows", str(tmp_path / "w"))
    assert "has no archive" in message("other", archive=Destination("parquet", str(tmp_path / "others")))
    exact_records.create(bootstrap, "narrow", 1)
    assert "narrow has 1 partitions, orders has 2" in message("narrow", to="narrow")
    exact_records.create(bootstrap, "restamped", 2, **{"message.timestamp.type": "LogAppendTime"})
    assert "would lose the timestamps" in message("restamped", to="restamped")
    exact_records.create(bootstrap, "small", 2, **{"max.message.bytes": "100000"})
    assert "large" in message("small", to="small")
    # The record behind the refused one finds the transaction aborted.
    exact_records.create(bootstrap, "huge", 1)
    exact_records.produce(bootstrap, "huge", [huge, *[huge._replace(value=b"small")] * 4])
    assert "large" in message("paced", to="small", topic=("huge",), rate=5)
    run(spark, options(bootstrap, tmp_path / "done", topic=("orders",)))
    assert "was begun with --to" in message("done", to="other")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics(["orders"])["orders"].result(30)
    exact_records.create(bootstrap, "orders", 2)
    assert "the topic orders was deleted and created again: choose another" in message("done")
