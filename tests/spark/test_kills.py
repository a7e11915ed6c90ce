"""Jobs that are killed (kill -9 of driver and JVM) in the middle of batches and started again, beside plain Python.

Part of `make prove`; the tests of the other jobs kill theirs by the same figure.
"""

import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs import join, sessions, table
from spark_jobs.job import Job
from spark_jobs.options import StreamOptions, parse, parser_of
from tests.broker_process import BrokerProcess
from tests.spark.streams import KILLS, StreamRecord, create, finished, run_killed, write

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE_MS = 60_000


def ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def run_with_kills(
    spark: SparkSession, job: Job[Any], broker: BrokerProcess, folder: Path, words: list[str], most: int
) -> None:
    """Run a job over what its topics have, in batches of `most` records, killed and at last undisturbed."""
    words = ["-b", broker.bootstrap, *words, "--available-now", "--max-offsets-per-trigger", str(most)]
    run_killed(job.name, words, folder / "c")
    rest = [*words, "--checkpoint", str(folder / "c")]
    options: StreamOptions = parse(job.options, parser_of(job.options, job.name, "", ""), rest, {})
    settings = dict(job.conf)
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        finished(job.start(spark, options))
    finally:
        for key in settings:
            spark.conf.unset(key)


def sessions_are_found_once(spark: SparkSession, broker: BrokerProcess, folder: Path) -> None:
    create(broker.bootstrap, "visits")
    records = [
        StreamRecord(
            f"user{number * 3 % 20}".encode(), b"{}", ms(NOON) + number * number * 37 % 1_000_000 + number * 60_000
        )
        for number in range(1200)
    ]
    records.append(StreamRecord(b"closing", b"{}", ms(NOON + timedelta(days=30))))
    write(broker.bootstrap, "visits", records)
    words = ["-t", "visits", "--gap", "21 minutes", "--lateness", "1 hour", "--to", f"parquet:{folder}/out"]
    run_with_kills(spark, sessions.JOB, broker, folder, words, 150)
    expected = []
    for key in {record.key for record in records} - {b"closing"}:
        times = sorted(record.timestamp_ms for record in records if record.key == key)
        cuts = [0, *(at for at in range(1, len(times)) if times[at] - times[at - 1] >= 21 * MINUTE_MS), len(times)]
        expected += [
            ((key or b"").decode(), times[begin], times[end - 1], end - begin)
            for begin, end in itertools.pairwise(cuts)
        ]
    out = spark.read.parquet(f"{folder}/out").collect()
    assert sorted(
        (row.key, ms(row.start.astimezone(UTC)), ms(row.end.astimezone(UTC)), row["count"]) for row in out
    ) == sorted(expected)


def pairs_are_joined_once(spark: SparkSession, broker: BrokerProcess, folder: Path) -> None:
    create(broker.bootstrap, "orders", "payments")
    orders = [(number % 50, ms(NOON) + number * MINUTE_MS, number) for number in range(1500)]
    payments = [(key, at + number * 7919 % (120 * MINUTE_MS), number) for key, at, number in orders if number % 4]
    payments.sort(key=lambda payment: payment[1])
    for topic, events in (("orders", orders), ("payments", payments)):
        write(
            broker.bootstrap,
            topic,
            [StreamRecord(str(key).encode(), json.dumps({"id": name}).encode(), at) for key, at, name in events],
        )
    words = ["-t", "orders", "--with", "payments", "--lateness", "3 hours", "--to", f"parquet:{folder}/out"]
    run_with_kills(spark, join.JOB, broker, folder, words, 150)
    expected = sorted(
        (order, payment)
        for key, ordered, order in orders
        for payer, paid, payment in payments
        if key == payer and ordered <= paid <= ordered + 60 * MINUTE_MS
    )
    out = spark.read.parquet(f"{folder}/out").collect()
    assert sorted((json.loads(row.value)["id"], json.loads(row.joined_value)["id"]) for row in out) == expected


def the_table_has_the_newest_rows(spark: SparkSession, broker: BrokerProcess, folder: Path) -> None:
    create(broker.bootstrap, "people")
    changes = [
        StreamRecord(
            str(number % 97).encode(), None if number % 11 == 3 else json.dumps({"n": number}).encode(), ms(NOON)
        )
        for number in range(2000)
    ]
    write(broker.bootstrap, "people", changes)
    words = ["-t", "people", "--schema", "n long", "--to", f"delta:{folder}/out"]
    run_with_kills(spark, table.JOB, broker, folder, words, 200)
    last = {(record.key or b"").decode(): record.value for record in changes}
    expected = {key: json.loads(value)["n"] for key, value in last.items() if value is not None}
    out = spark.read.format("delta").load(f"{folder}/out").collect()
    assert len(out) == len(expected)
    assert {row._key: row.n for row in out} == expected


@pytest.mark.skipif(KILLS == 0, reason="starts of Spark for each job: part of make prove")
@pytest.mark.parametrize("case", [sessions_are_found_once, pairs_are_joined_once, the_table_has_the_newest_rows])
def test_killed_jobs_go_on(spark: SparkSession, broker: BrokerProcess, tmp_path: Path, case: Any) -> None:
    case(spark, broker, tmp_path)
