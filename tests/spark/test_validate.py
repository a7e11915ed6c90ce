"""The jobs `validate` and `redrive`: their transforms on small frames, and both killed in the middle."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from spark_jobs import redrive, validate
from spark_jobs.cluster import Cluster, close_all
from spark_jobs.dead_letters import ATTEMPTS, MESSAGE, OFFSET, PARTITION, PREFIX, TIMESTAMP, TOPIC, due_ms
from spark_jobs.errors import JobError
from spark_jobs.formats import SchemaFile, load
from spark_jobs.redrive import RedriveOptions, RedrivePlan, letters, outgoing
from spark_jobs.validate import TargetTopics, ValidateOptions, judged, outcomes
from tests.broker_process import BrokerProcess, free_address
from tests.spark.streams import (
    KILLS,
    Header,
    KilledJob,
    StreamRecord,
    create,
    finished,
    flights,
    read,
    run_killed,
    with_oddities,
    write,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp()) * 1000
RECORD = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)
SCHEMA = {
    "type": "object",
    "properties": {"carrier": {"type": "string"}, "dep_delay": {"type": "integer"}},
    "required": ["carrier", "dep_delay"],
}


def records(spark: SparkSession, *made: StreamRecord) -> DataFrame:
    """Return records of the topic orders, with offsets from 100 on."""
    rows = [
        (
            record.key,
            record.value,
            "orders",
            record.partition,
            100 + number,
            datetime.fromtimestamp(record.timestamp_ms / 1000, UTC),
            list(record.headers) or None,
        )
        for number, record in enumerate(made)
    ]
    return spark.createDataFrame(rows, RECORD)


def headers(row: Row) -> tuple[Header, ...]:
    pairs = [(one["key"], one["value"]) for one in row["headers"] or ()]
    return tuple((name, None if value is None else bytes(value)) for name, value in pairs)


def options(**changes: Any) -> ValidateOptions:
    return ValidateOptions(**{"checkpoint": "unused", "topic": ("orders",), **changes})


def validated(frame: DataFrame, **changes: Any) -> list[Row]:
    chosen = options(**changes)
    rows = outcomes(judged(frame, load(chosen), null_values=chosen.null_values), chosen)
    return rows.orderBy("offset").collect()


def test_good_records_and_dead_letters_go_to_topics_of_their_own(spark: SparkSession) -> None:
    own = (("trace", b"\x00\xff"), ("empty", None), ("trace", b"2"))
    good, bad = StreamRecord(b"k", b"{}", NOON_MS, own, 3), StreamRecord(None, b"{", NOON_MS + 1, own, 4)
    first, second = validated(records(spark, good, bad))
    assert (first["topic"], first["partition"], first["offset"], first["time"]) == ("orders.valid", 3, 100, NOON_MS)
    assert (bytes(first["key"]), bytes(first["value"]), headers(first)) == (b"k", b"{}", own)
    assert (second["topic"], second["partition"], second["time"]) == ("orders.dead-letters", 4, None)
    assert (second["key"], bytes(second["value"])) == (None, b"{")
    assert headers(second)[:3] == own
    assert dict(headers(second)[3:]) == {
        MESSAGE: b"invalid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        TOPIC: b"orders",
        PARTITION: b"4",
        OFFSET: b"101",
        TIMESTAMP: str(NOON_MS + 1).encode(),
        ATTEMPTS: b"1",
    }


def test_another_attempt_is_counted_and_a_good_one_leaves_no_trace(spark: SparkSession) -> None:
    tried = (("own", b"1"), (ATTEMPTS, b"4"))
    rows = validated(records(spark, StreamRecord(None, b"{", 0, tried), StreamRecord(None, b"{}", 0, tried)))
    assert dict(headers(rows[0]))[ATTEMPTS] == b"5"
    assert [name for name, _ in headers(rows[0])].count(ATTEMPTS) == 1
    assert headers(rows[1]) == (("own", b"1"),)
    [only] = validated(records(spark, StreamRecord(None, b"{}", 0, ((ATTEMPTS, b"many"),))))
    assert headers(only) == ()


def test_null_values_are_good_unless_they_are_rejected(spark: SparkSession) -> None:
    frame = records(spark, StreamRecord(b"k", None, 0), StreamRecord(None, None, 0, (("only", b"headers"),)))
    assert [row["topic"] for row in validated(frame)] == ["orders.valid"] * 2
    rejected = validated(frame, null_values="reject")
    assert [row["topic"] for row in rejected] == ["orders.dead-letters"] * 2
    assert dict(headers(rejected[1]))[MESSAGE] == b"the value is null"


PLAN = RedrivePlan(NOON_MS, 3, 60, 2.0, 300, {"orders": 2})


def letter(attempts: int | None, *own: Header, origin: str = "orders", partition: int = 1) -> StreamRecord:
    """Return a dead letter, or with None a record that is none, of noon."""
    errors: dict[str, object] = {MESSAGE: "why", TOPIC: origin, PARTITION: partition, OFFSET: 7, TIMESTAMP: 55}
    errors[ATTEMPTS] = attempts
    added = [(name, str(value).encode()) for name, value in errors.items()] if attempts is not None else []
    return StreamRecord(b"k", b"v", NOON_MS, (*own, *added), 5)


def test_delays_grow_with_each_attempt_up_to_the_longest(spark: SparkSession) -> None:
    frame = records(spark, *(letter(attempts) for attempts in (1, 2, 3, 4, 10**6)))
    rows = frame.orderBy("offset").select(due_ms(60, 2.0, 300)).collect()
    assert [(row[0] - NOON_MS) // 1000 for row in rows] == [60, 120, 240, 300, 300]


def test_letters_over_the_limit_are_due_at_once(spark: SparkSession) -> None:
    frame = records(spark, letter(3), letter(4), letter(None))
    rows = letters(frame, PLAN).orderBy("offset").collect()
    assert [row["due"] for row in rows] == [NOON_MS + 240_000, None, None]


def test_a_letter_is_sent_back_as_it_was_or_parked_as_it_is(spark: SparkSession) -> None:
    own = (("a", b"1"), ("b", None))
    made = [letter(2, *own), letter(9), letter(None, *own), letter(1, origin="gone"), letter(1, partition=2), letter(1)]
    rows = outgoing(letters(records(spark, *made), PLAN), 3, PLAN.partitions, "{topic}.parked").collect()
    back = sorted((row for row in rows if row["topic"] == "orders"), key=lambda row: row["offset"])
    assert [(row["partition"], row["offset"], row["time"]) for row in back] == [
        (1, 3 * 2**32 + 1, 55),
        (1, 3 * 2**32 + 2, 55),
    ]
    assert [headers(row) for row in back] == [(*own, (ATTEMPTS, b"2")), ((ATTEMPTS, b"1"),)]
    parked = sorted((row for row in rows if row["topic"] != "orders"), key=lambda row: row["offset"])
    assert {(row["topic"], row["partition"], row["time"]) for row in parked} == {("orders.parked", 5, NOON_MS)}
    assert [row["offset"] - 3 * 2**32 for row in parked] == [1, 2, 3, 4]
    assert [headers(row) for row in parked] == [one.headers for one in made[1:5]]


names = st.text(max_size=8).filter(lambda name: not name.startswith(PREFIX))
any_records = st.builds(
    StreamRecord,
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=20),
    st.integers(0, 4_000_000_000_000),
    st.lists(st.tuples(names, st.none() | st.binary(max_size=8)), max_size=3).map(tuple),
    st.integers(0, 9),
)


# Each example is a run of Spark: it has many records, and is not reduced.
@settings(max_examples=2, deadline=None, phases=(Phase.reuse, Phase.generate))
@given(st.lists(any_records, min_size=30, max_size=60))
def test_a_refused_record_comes_back_with_nothing_but_its_attempts(
    spark: SparkSession, made: list[StreamRecord]
) -> None:
    frame = records(spark, *made).withColumn("reason", f.lit("why"))
    for attempts in (b"1", b"2"):
        dead = outcomes(frame, options()).withColumn("timestamp", f.lit(NOON))
        rows = outgoing(letters(dead, PLAN), 0, {"orders": 10}, "parked")
        back = rows.withColumn("timestamp", f.timestamp_millis("time")).drop("time", "release")
        found = back.collect()
        assert {row["topic"] for row in found} == {"orders"}
        expected = sorted(
            (
                one.partition,
                one.timestamp_ms,
                repr(one.key),
                repr(one.value),
                repr((*one.headers, (ATTEMPTS, attempts))),
            )
            for one in made
        )
        assert sorted(map(shape, found)) == expected
        frame = back.withColumn("reason", f.lit("why again"))


def shape(row: Row) -> tuple[int, int, str, str, str]:
    key, value = (None if row[name] is None else bytes(row[name]) for name in ("key", "value"))
    time_ms = round(row["timestamp"].astimezone(UTC).timestamp() * 1000)
    return row["partition"], time_ms, repr(key), repr(value), repr(headers(row))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "avro"}, "avro needs a schema"),
        ({"schema": (SchemaFile("absent.json"),)}, "absent.json cannot be read"),
        ({"topic": ()}, "name the topics by --topic NAME"),
    ],
)
def test_bad_options_are_named(spark: SparkSession, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message):
        validate.start(spark, options(**changes))


def test_parked_letters_are_not_read_again(spark: SparkSession) -> None:
    chosen = RedriveOptions(checkpoint="unused", brokers=free_address(), topic=("dead", "dead.parked"))
    with pytest.raises(JobError, match=r"the job would read the parked letters of dead\.parked: park them elsewhere"):
        redrive.start(spark, chosen)
    close_all()


def test_topics_that_a_pattern_matches_are_not_written_and_those_created_again_are_noticed(
    spark: SparkSession, tmp_path: Path
) -> None:
    with BrokerProcess(tmp_path / "broker") as broker:
        address = {"kafka.bootstrap.servers": broker.bootstrap}
        create(broker.bootstrap, "orders", "orders.dead-letters", partitions=1)
        cluster = Cluster(spark, address)
        offsets = {"orders": {"0": 0}}
        matching = options(brokers=broker.bootstrap, topic=(), topic_pattern="orders.*")
        with pytest.raises(JobError, match=r"the job would read orders\.valid, which it writes"):
            TargetTopics(spark, cluster, cluster, matching).ensure(offsets)
        parking = RedriveOptions(checkpoint="unused", brokers=broker.bootstrap, topic_pattern="orders.dead-letters.*")
        with pytest.raises(JobError, match=r"the parked letters of orders\.dead-letters\.parked: park them elsewhere"):
            redrive.start(spark, parking)

        topics = TargetTopics(spark, cluster, cluster, options(brokers=broker.bootstrap))
        topics.ensure(offsets)
        former = dict(topics.origins)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_topics(["orders"])["orders"].result(30)
        create(broker.bootstrap, "orders", partitions=1)
        topics.ensure(offsets)
        assert topics.origins.keys() == former.keys() == {"orders.valid", "orders.dead-letters"}
        assert not set(topics.origins.values()) & set(former.values())

        # The partition is read by four tasks at once.
        stream = [StreamRecord(b"key", b"%d" % number, NOON_MS + number) for number in range(40)]
        write(broker.bootstrap, "orders", stream)
        divided = options(
            brokers=broker.bootstrap, checkpoint=str(tmp_path / "c"), min_partitions=4, available_now=True, to="good"
        )
        finished(validate.start(spark, divided))
        assert [one.value for one in read(broker.bootstrap, "good")] == [one.value for one in stream]
        close_all()


def is_good(record: StreamRecord) -> bool:
    """Return whether a record is of SCHEMA, in plain Python."""
    if record.value is None:
        return True
    try:
        value = json.loads(record.value.decode())
    except ValueError:
        return False
    is_flight = isinstance(value, dict) and isinstance(value.get("carrier"), str)
    return is_flight and isinstance(value.get("dep_delay"), int)


def by_partition(stream: list[StreamRecord]) -> list[StreamRecord]:
    return sorted(stream, key=lambda record: record.partition)


def killed_validation_and_redrive(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> Iterator[KilledJob]:
    """Records are judged, sent back and parked once.

    Flights without a delay, which were cancelled, are malformed by the schema, and so are the odd records.
    """
    stream = [record._replace(partition=at % 2) for at, record in enumerate(with_oddities(flights(6)))]
    good, bad = ([one for one in stream if is_good(one) is verdict] for verdict in (True, False))
    assert len(bad) > 50
    begun_ms = time.time_ns() // 1_000_000
    schema = tmp_path / "flight.json"
    schema.write_text(json.dumps(SCHEMA))
    create(broker.bootstrap, "flights", partitions=2)
    write(broker.bootstrap, "flights", stream)

    batch = len(stream) // (4 * KILLS)
    words = ["-b", broker.bootstrap, "-t", "flights", "--schema", str(schema), "--available-now"]
    yield KilledJob("validate", [*words, "--max-offsets-per-trigger", str(batch)], tmp_path / "validate")
    chosen = options(
        brokers=broker.bootstrap,
        topic=("flights",),
        schema=(SchemaFile(str(schema)),),
        checkpoint=str(tmp_path / "validate"),
        available_now=True,
    )
    finished(validate.start(spark, chosen))
    assert read(broker.bootstrap, "flights.valid") == by_partition(good)
    dead = read(broker.bootstrap, "flights.dead-letters")
    assert [(one.key, one.value, one.partition) for one in dead] == [
        (one.key, one.value, one.partition) for one in by_partition(bad)
    ]
    assert min(one.timestamp_ms for one in dead) >= begun_ms
    for letter_of, record in zip(dead, by_partition(bad), strict=True):
        own, errors = letter_of.headers[:-6], dict(letter_of.headers[-6:])
        assert own == record.headers
        assert (errors[TOPIC], errors[TIMESTAMP]) == (b"flights", str(record.timestamp_ms).encode())
        assert errors[ATTEMPTS] == b"1"

    words = ["-b", broker.bootstrap, "-t", "flights.dead-letters", "--attempts", "1", "--delay", "1 second"]
    limit = len(dead) // (KILLS + 2)
    words += ["--max-offsets-per-trigger", str(limit), "--available-now"]
    run_killed(KilledJob("redrive", words, tmp_path / "redrive"))
    again = RedriveOptions(
        brokers=broker.bootstrap,
        topic=("flights.dead-letters",),
        attempts=1,
        delay=1,
        longest_delay=1,
        checkpoint=str(tmp_path / "redrive"),
        available_now=True,
    )
    sent_back = [one._replace(headers=(*one.headers, (ATTEMPTS, b"1"))) for one in bad]
    await_records(spark, broker, again, "flights", len(stream) + len(bad))
    assert read(broker.bootstrap, "flights") == by_partition([*stream, *sent_back])

    finished(validate.start(spark, chosen))
    refused = [dict(one.headers)[ATTEMPTS] or b"" for one in read(broker.bootstrap, "flights.dead-letters")]
    assert sorted(refused) == [b"1"] * len(bad) + [b"2"] * len(bad)
    await_records(spark, broker, again, "flights.dead-letters.parked", len(bad))
    parked = read(broker.bootstrap, "flights.dead-letters.parked")
    assert {dict(one.headers)[ATTEMPTS] for one in parked} == {b"2"}
    assert len(read(broker.bootstrap, "flights")) == len(stream) + len(bad)
    assert len(read(broker.bootstrap, "flights.valid")) == len(good)


def await_records(spark: SparkSession, broker: BrokerProcess, options: RedriveOptions, topic: str, number: int) -> None:
    """Run `redrive` until a topic has so many records; letters that are not due wait for the next run."""
    for _ in range(5):
        finished(redrive.start(spark, options))
        if len(read(broker.bootstrap, topic)) >= number:
            return
