"""The job `table`: its transforms on small frames, and the table after inserts, updates and deletes, twice merged."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.table import TableOptions, changes, newest, start
from tests.broker_process import BrokerProcess

SCHEMA = "id long, name string"


def options(**changed: object) -> TableOptions:
    return TableOptions(**{"checkpoint": "unused", "table": "unused", "schema": SCHEMA, **changed})  # type: ignore[arg-type]


def records(spark: SparkSession, *rows: tuple[bytes, bytes | None]) -> DataFrame:
    numbered = [(key, value, 0, offset) for offset, (key, value) in enumerate(rows)]
    return spark.createDataFrame(numbered, "key binary, value binary, partition int, offset long")


def test_a_null_value_deletes(spark: SparkSession) -> None:
    frame = changes(records(spark, (b"1", b'{"id": 1, "name": "a"}'), (b"1", None)), options())
    first, second = frame.orderBy("_offset").collect()
    assert (first._deleted, first.row.asDict()) == (False, {"id": 1, "name": "a"})
    assert second._deleted


@pytest.mark.parametrize("wrap", [lambda change: change, lambda change: {"schema": {}, "payload": change}])
def test_debezium_envelopes_are_opened(spark: SparkSession, wrap: object) -> None:
    assert callable(wrap)
    made = [
        {"op": "c", "before": None, "after": {"id": 1, "name": "a"}},
        {"op": "u", "before": {"id": 1, "name": "a"}, "after": {"id": 1, "name": "b"}},
        {"op": "d", "before": {"id": 1, "name": "b"}, "after": None},
    ]
    values = [json.dumps(wrap(change)).encode() for change in made]
    frame = changes(records(spark, *((b"1", value) for value in values), (b"1", None)), options(envelope="debezium"))
    rows = frame.orderBy("_offset").collect()
    assert [row._deleted for row in rows] == [False, False, True, True]
    assert [row.row and row.row.name for row in rows[:2]] == ["a", "b"]


def test_the_last_change_of_a_key_counts(spark: SparkSession) -> None:
    rows = [(b"1", b'{"id": 1}'), (b"2", b'{"id": 2}'), (b"1", None), (b"2", b'{"id": 3}')]
    found = newest(changes(records(spark, *rows), options())).orderBy("_key").collect()
    assert [(row._key, row._offset, row._deleted) for row in found] == [("1", 2, True), ("2", 3, False)]


def test_the_table_has_the_newest_rows_also_if_it_is_merged_again(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    expected: dict[str, str] = {}
    for number in range(300):
        key, name = str(number % 40), f"name {number}"
        deletes = number % 7 == 0
        producer.produce("people", None if deletes else json.dumps({"id": int(key), "name": name}), key)
        if deletes:
            expected.pop(key, None)
        else:
            expected[key] = name
    producer.flush()
    table = str(tmp_path / "table")
    for checkpoint in ("first", "second"):  # the second begins anew: it merges what the table has already
        chosen = options(
            brokers=broker.bootstrap,
            topic=("people",),
            table=table,
            checkpoint=str(tmp_path / checkpoint),
            available_now=True,
            max_offsets_per_trigger=50,
        )
        assert start(spark, chosen).awaitTermination(240)
        rows = spark.read.format("delta").load(table).collect()
        assert {row._key: row.name for row in rows} == expected
        assert len(rows) == len(expected)
