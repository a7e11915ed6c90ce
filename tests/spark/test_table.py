"""The job `table`: its transforms on small frames; the table of each kind beside a dict, merged twice and resumed."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.errors import JobError, remedy_of
from spark_jobs.io import Destination, destination
from spark_jobs.table import TableOptions, changes, merged, start
from spark_jobs.tables import iceberg_name
from spark_jobs.upserts import KINDS, newest, read_version
from tests.broker_process import BrokerProcess

SCHEMA = "id long, name string"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def options(**changed: Any) -> TableOptions:
    chosen = {"checkpoint": "unused", "to": Destination("delta", "unused"), "schema": SCHEMA}
    return TableOptions(**{**chosen, **changed})


def records(spark: SparkSession, *rows: tuple[bytes | None, bytes | None]) -> DataFrame:
    numbered = [(key, value, 0, offset, NOON) for offset, (key, value) in enumerate(rows)]
    return spark.createDataFrame(numbered, "key binary, value binary, partition int, offset long, timestamp timestamp")


def test_a_null_value_deletes(spark: SparkSession) -> None:
    frame = changes(records(spark, (b"1", b'{"id": 1, "name": "a"}'), (b"1", None)), options())
    first, second = frame.orderBy("_kafka_offset").collect()
    assert (first._deleted, first.id, first.name, first._malformed) == (False, 1, "a", None)
    assert (second._deleted, second._malformed) == (True, None)


@pytest.mark.parametrize("wrap", [lambda change: change, lambda change: {"schema": {}, "payload": change}])
def test_debezium_envelopes_are_opened(spark: SparkSession, wrap: Callable[[object], object]) -> None:
    made = [
        {"op": "r", "before": None, "after": {"id": 1, "name": "a"}},
        {"op": "u", "before": {"id": 1, "name": "a"}, "after": {"id": 1, "name": "b"}},
        {"op": "m", "message": {"prefix": "p"}},
        {"op": "t"},
        {"op": "d", "before": {"id": 1, "name": "b"}, "after": None},
    ]
    values = [json.dumps(wrap(change)).encode() for change in made]
    frame = changes(records(spark, *((b"1", value) for value in values), (b"1", None)), options(envelope="debezium"))
    rows = frame.orderBy("_kafka_offset").collect()
    assert [(row._kafka_offset, row._deleted, row.name) for row in rows] == [
        (0, False, "a"),
        (1, False, "b"),
        (4, True, None),
        (5, True, None),
    ]
    assert {row._malformed for row in rows} == {None}


def test_malformed_records_end_the_job_or_are_left_out(spark: SparkSession) -> None:
    good, bad = (b"1", b'{"id": 1}'), [(b"2", b"{no json"), (b"3", b'{"id": "x"}'), (None, b'{"id": 4}'), (b"5", b"[]")]
    for key, value in bad:
        batch = changes(records(spark, good, (key, value)), options())
        reason = "has no key" if key is None else "does not fit --schema"
        with pytest.raises(JobError, match=f"partition 0, offset 1 {reason}; mend the topic"):
            merged(batch, options())
        assert [row._key for row in merged(batch, options(malformed="skip")).collect()] == ["1"]


def test_the_last_change_of_a_key_counts_by_offset_in_a_partition_and_by_time_among_them(spark: SparkSession) -> None:
    later = NOON + timedelta(hours=1)
    rows = [("1", 0, 5, later), ("1", 0, 6, NOON), ("2", 0, 90, NOON), ("2", 1, 3, later), ("3", 1, 4, NOON)]
    frame = spark.createDataFrame(
        rows, "_key string, _kafka_partition int, _kafka_offset long, _kafka_timestamp timestamp"
    )
    found = newest(frame).orderBy("_key").collect()
    assert [(row._key, row._kafka_partition, row._kafka_offset) for row in found] == [
        ("1", 0, 6),
        ("2", 1, 3),
        ("3", 1, 4),
    ]


class People:
    """A topic of people, and the table that it should be."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.expected: dict[str, str] = {}
        self._producer = Producer({"bootstrap.servers": broker.bootstrap})
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("people", 2, 1)])["people"].result(30)

    def change(self, numbers: range) -> None:
        for number in numbers:
            key, name = str(number % 40), f"name {number}"
            deletes = number % 7 == 0
            self._producer.produce("people", None if deletes else json.dumps({"id": int(key), "name": name}), key)
            if deletes:
                self.expected.pop(key, None)
            else:
                self.expected[key] = name
        self._producer.flush()

    def options(self, to: Destination, checkpoint: Path, **changed: Any) -> TableOptions:
        source = {"brokers": self.broker.bootstrap, "topic": ("people",), "available_now": True}
        return options(**{**source, "to": to, "checkpoint": str(checkpoint), **changed})


def rows_of(spark: SparkSession, to: Destination) -> list[tuple[str, str]]:
    if to.kind == "delta":
        frame = spark.read.format("delta").load(to.target)
    elif to.kind == "iceberg":
        frame = spark.table(iceberg_name(spark, to.target))
    elif to.kind == "jdbc":
        url, _, name = to.target.rpartition("#")
        read = spark.read.format("jdbc").options(url=f"jdbc:{url}", dbtable=name, driver="org.postgresql.Driver")
        frame = read.load()
    else:
        version = read_version(spark, to.target)
        assert version is not None
        frame = version
    return sorted((row._key, row.name) for row in frame.collect())


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_has_the_newest_rows_resumed_and_merged_again(
    spark: SparkSession, broker: BrokerProcess, database: str, tmp_path: Path, kind: str
) -> None:
    people = People(broker)
    to = destination(f"jdbc:{database}#people" if kind == "jdbc" else f"{kind}:{tmp_path}/table")
    people.change(range(150))
    # The third starts anew: its first batch merges what the table has already.
    for checkpoint, more in (("first", range(150, 300)), ("first", range(0)), ("second", range(0))):
        chosen = people.options(to, tmp_path / checkpoint, max_offsets_per_trigger=200)
        assert start(spark, chosen).awaitTermination(240)
        assert rows_of(spark, to) == sorted(people.expected.items())
        people.change(more)


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_another_checkpoint_goes_on_with_the_rows_of_the_table(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, kind: str
) -> None:
    people, to = People(broker), destination(f"{kind}:{tmp_path}/table")
    people.change(range(20))
    assert start(spark, people.options(to, tmp_path / "first")).awaitTermination(240)
    begun_at = datetime.now(UTC) + timedelta(milliseconds=2)
    while datetime.now(UTC) < begun_at:
        pass
    people.change(range(20, 25))
    later = people.options(to, tmp_path / "second", start=begun_at.isoformat())
    assert start(spark, later).awaitTermination(240)
    assert rows_of(spark, to) == sorted(people.expected.items())


def test_a_rebuilt_table_has_no_rows_that_the_topic_lost(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    # Spark takes a Delta table in a statement by its absolute path only; jobs take a relative one too.
    people, to = People(broker), destination(f"delta:{os.path.relpath(tmp_path)}/table")
    people.change(range(20))
    assert start(spark, people.options(to, tmp_path / "c")).awaitTermination(240)
    spark.sql(f"UPDATE delta.`{tmp_path}/table` SET _key = 'ghost' WHERE _key = '1'")
    added = people.options(to, tmp_path / "c", rebuild=True, schema=f"{SCHEMA}, age int")
    assert start(spark, added).awaitTermination(240)
    assert rows_of(spark, to) == sorted(people.expected.items())
    assert "age" in spark.read.format("delta").load(to.target).columns


def test_a_malformed_record_ends_the_job_with_its_position(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("people", b"{", b"1")
    producer.flush()
    chosen = options(
        brokers=broker.bootstrap,
        topic=("people",),
        available_now=True,
        to=destination(f"delta:{tmp_path}/t"),
        checkpoint=str(tmp_path / "c"),
    )
    with pytest.raises(Exception, match="JobError") as error:
        start(spark, chosen).awaitTermination(240)
    assert str(remedy_of(error.value)).startswith("the record at partition 0, offset 0 does not fit --schema; mend")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"topic": ("a", "b")}, "a table is of one topic: name it by --topic NAME"),
        ({"topic_pattern": "b"}, "a table is of one topic: name it by --topic NAME"),
    ],
)
def test_what_is_no_table_is_refused(spark: SparkSession, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message):
        start(spark, options(**{"topic": ("a",), **changed}))
