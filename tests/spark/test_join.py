"""The job `join`: pairs and rows beside plain Python on a real broker, and the bounds of its state."""

import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.errors import JobError
from spark_jobs.io import Destination
from spark_jobs.join import JoinOptions, as_records, start
from spark_jobs.options import KafkaOptions
from spark_jobs.topic_table import TopicTable
from tests.broker_process import BrokerProcess

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
NOON_MS = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp() * 1000)
FOREVER = {"retention.ms": "-1"}

Event = tuple[str, int, str]
"""A key, a time in ms, and an id."""


def options(broker: BrokerProcess, folder: Path, **changed: Any) -> JoinOptions:
    chosen: dict[str, Any] = {
        "brokers": broker.bootstrap,
        "topic": ("orders",),
        "checkpoint": str(folder / "c"),
        "to": Destination("parquet", str(folder / "out")),
        "available_now": True,
    }
    return JoinOptions(**{**chosen, **changed})


def create(broker: BrokerProcess, *topics: NewTopic) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics(list(topics)).values():
        made.result(30)


def produce(broker: BrokerProcess, topic: str, events: Iterable[Event]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for key, time_ms, name in events:
        producer.produce(topic, json.dumps({"id": name}), key, timestamp=time_ms)
    producer.flush()


def ended(query: StreamingQuery) -> StreamingQuery:
    assert query.awaitTermination(240)
    return query


def pair(row: Row) -> tuple[str, str | None]:
    return json.loads(row.value)["id"], json.loads(row.joined_value)["id"] if row.joined_value else None


def test_orders_and_payments_within_an_hour_are_pairs_and_the_state_stays_small(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create(broker, NewTopic("orders", 2, 1, config=FOREVER), NewTopic("payments", 2, 1, config=FOREVER))
    rng = random.Random(7)
    orders = [(f"customer{rng.randrange(30)}", NOON_MS + number * MINUTE_MS, f"o{number}") for number in range(1200)]
    payments = [
        (key, time_ms + rng.randrange(3 * HOUR_MS), f"p{number}")
        for number, (key, time_ms, _) in enumerate(orders)
        if number % 3
    ]
    payments.sort(key=lambda payment: payment[1])
    closing = [(f"closing{number}", NOON_MS + 1000 * HOUR_MS, "closing") for number in range(8)]
    produce(broker, "orders", [*orders, *closing])
    produce(broker, "payments", [*payments, *closing])
    chosen = options(broker, tmp_path, with_="payments", outer=True, lateness="10 minutes", max_offsets_per_trigger=400)
    query = ended(start(spark, chosen))
    pairs = {
        (order, payment)
        for customer, ordered_ms, order in orders
        for payer, paid_ms, payment in payments
        if payer == customer and ordered_ms <= paid_ms <= ordered_ms + HOUR_MS
    }
    matched = {order for order, _ in pairs}
    found = [pair(row) for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    expected = pairs | {(order, None) for _, _, order in orders if order not in matched}
    assert {one for one in found if one[0] != "closing"} == expected
    assert len([one for one in found if one[0] != "closing"]) == len(expected)
    rows = [sum(state.numRowsTotal for state in progress.stateOperators) for progress in query.recentProgress]
    assert max(rows) < 0.6 * (len(orders) + len(payments))
    assert rows[-1] <= 2 * len(closing)


def test_records_are_joined_with_the_newest_row_of_a_table_that_is_refreshed(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create(broker, NewTopic("orders", 1, 1), NewTopic("customers", 2, 1, config={"cleanup.policy": "compact"}))
    producer = Producer({"bootstrap.servers": broker.bootstrap})

    def put(topic: str, key: str, value: dict[str, Any] | None) -> None:
        producer.produce(topic, None if value is None else json.dumps(value), key)
        producer.flush()

    put("customers", "a", {"id": "old"})
    put("customers", "a", {"id": "a1"})
    put("customers", "b", {"id": "b1"})
    chosen = options(
        broker, tmp_path, table="customers", outer=True, refresh=1, available_now=False, trigger="0 seconds"
    )
    query = start(spark, chosen)
    put("orders", "a", {"id": "o1"})
    put("orders", "c", {"id": "o2"})
    query.processAllAvailable()
    put("customers", "a", {"id": "a2"})
    put("customers", "b", None)
    put("customers", "c", {"id": "c1"})
    for key, name in (("a", "o3"), ("b", "o4"), ("c", "o5")):
        put("orders", key, {"id": name})
    query.processAllAvailable()
    query.stop()
    found = sorted(pair(row) for row in spark.read.parquet(str(tmp_path / "out")).collect())
    assert found == [("o1", "a1"), ("o2", None), ("o3", "a2"), ("o4", None), ("o5", "c1")]


def test_a_table_is_read_again_only_after_its_interval_and_follows_a_grown_topic(
    spark: SparkSession, broker: BrokerProcess
) -> None:
    create(broker, NewTopic("planes", 1, 1))
    produce(broker, "planes", [("a", NOON_MS, "1"), ("b", NOON_MS, "1")])
    now_s = 100.0
    table = TopicTable(spark, KafkaOptions(brokers=broker.bootstrap), "planes", 10, lambda: now_s)

    def rows() -> dict[str, str]:
        return {bytes(row.key).decode(): json.loads(row.value)["id"] for row in table.rows().collect()}

    assert rows() == {"a": "1", "b": "1"}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions("planes", 3)])["planes"].result(30)
    produce(broker, "planes", [(key, NOON_MS, "2") for key in "cdefgh"])
    produce(broker, "planes", [("a", NOON_MS, "2")])
    assert rows() == {"a": "1", "b": "1"}
    now_s += 10
    assert {key: name for key, name in rows().items() if key != "a"} == {"b": "1", **dict.fromkeys("cdefgh", "2")}
    assert table.count == 8


def test_the_table_has_no_records_of_aborted_transactions(spark: SparkSession, broker: BrokerProcess) -> None:
    create(broker, NewTopic("planes", 1, 1))
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "planes"})
    producer.init_transactions(60)
    for value, end in (("1", producer.commit_transaction), ("2", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("planes", value, "a")
        producer.flush(60)  # an aborted record must have reached the broker
        end(60)
    table = TopicTable(spark, KafkaOptions(brokers=broker.bootstrap), "planes", 10)
    assert [bytes(row.value) for row in table.rows().collect()] == [b"1"]


def test_a_record_has_both_values_as_they_are(spark: SparkSession) -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    frame = spark.createDataFrame(
        [("k", time, '{"a": [1, {"b": null}]}', time, "no JSON"), ("k", time, "1", None, None)],
        "key string, time timestamp, value string, joined_time timestamp, joined_value string",
    )
    first, second = (json.loads(bytes(row.value)) for row in as_records(frame).collect())
    assert (first["value"], first["joined"]) == ({"a": [1, {"b": None}]}, "no JSON")
    assert (second["value"], second.get("joined")) == (1, None)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({}, "name the other stream by --with TOPIC, or the table by --table TOPIC"),
        ({"with_": "a", "table": "b"}, "choose --with TOPIC or --table TOPIC: a job joins with one of them"),
    ],
)
def test_one_side_is_named(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, named: dict[str, str], message: str
) -> None:
    with pytest.raises(JobError, match=message):
        start(spark, options(broker, tmp_path, **named))
