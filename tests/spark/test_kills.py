"""Jobs that are killed (kill -9 of driver and JVM) in the middle of batches and started again, beside plain Python.

A case prepares topics, yields the job to kill, and finishes it and compares its results with plain Python. The jobs
are killed together, in one process, when all have written results that the next start will write again; in
`make prove` each three times at any moment of a batch. The modules of other jobs kill theirs.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs import join, table
from spark_jobs.job import Job
from tests.broker_process import BrokerProcess
from tests.spark.several_jobs import start
from tests.spark.streams import KILLS, KilledJob, StreamRecord, create, finished, run_killed, run_killed_together, write
from tests.spark.test_metrics import killed_roll_ups_and_alerts
from tests.spark.test_quality import killed_reports
from tests.spark.test_sessions import killed_sessions
from tests.spark.test_validate import killed_validation_and_redrive
from tests.spark.test_windows import killed_windows

NOON_MS = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()) * 1000
MINUTE_MS = 60_000


def resumed(spark: SparkSession, job: Job[Any], killed: KilledJob, most: int) -> None:
    """Run a killed job to its end, in batches of `most` records."""
    words = [*killed.words, "--checkpoint", str(killed.checkpoint), "--max-offsets-per-trigger", str(most)]
    finished(start(spark, job, job.parsed(words)))


def killed_join(spark: SparkSession, broker: BrokerProcess, folder: Path) -> Iterator[KilledJob]:
    """Each pair is joined once."""
    create(broker.bootstrap, "orders", "payments")
    orders = [(number % 50, NOON_MS + number * MINUTE_MS, number) for number in range(1500)]
    payments = [(key, at + number * 7919 % (120 * MINUTE_MS), number) for key, at, number in orders if number % 4]
    payments.sort(key=lambda payment: payment[1])
    for topic, events in (("orders", orders), ("payments", payments)):
        write(
            broker.bootstrap,
            topic,
            [StreamRecord(str(key).encode(), json.dumps({"id": name}).encode(), at) for key, at, name in events],
        )
    words = ["-b", broker.bootstrap, "-t", "orders", "--with", "payments", "--lateness", "3 hours", "--available-now"]
    words += ["--to", f"parquet:{folder}/out", "--max-offsets-per-trigger", str(650 // KILLS)]
    job = KilledJob("join", words, folder / "c")
    yield job
    resumed(spark, join.JOB, job, 1000)
    expected = sorted(
        (order, payment)
        for key, ordered, order in orders
        for payer, paid, payment in payments
        if key == payer and ordered <= paid <= ordered + 60 * MINUTE_MS
    )
    out = spark.read.parquet(f"{folder}/out").collect()
    assert sorted((json.loads(row.value)["id"], json.loads(row.joined_value)["id"]) for row in out) == expected


def killed_table(spark: SparkSession, broker: BrokerProcess, folder: Path) -> Iterator[KilledJob]:
    """The table has the newest rows."""
    create(broker.bootstrap, "people")
    changes = [
        StreamRecord(
            str(number % 97).encode(), None if number % 11 == 3 else json.dumps({"n": number}).encode(), NOON_MS
        )
        for number in range(2000)
    ]
    write(broker.bootstrap, "people", changes)
    words = ["-b", broker.bootstrap, "-t", "people", "--schema", "n long", "--to", f"delta:{folder}/out"]
    words += ["--available-now", "--max-offsets-per-trigger", str(500 // KILLS)]
    job = KilledJob("table", words, folder / "c")
    yield job
    resumed(spark, table.JOB, job, 1000)
    last = {(record.key or b"").decode(): record.value for record in changes}
    expected = {key: json.loads(value)["n"] for key, value in last.items() if value is not None}
    out = spark.read.format("delta").load(f"{folder}/out").collect()
    assert len(out) == len(expected)
    assert {row._key: row.n for row in out} == expected


Case = Callable[[SparkSession, BrokerProcess, Path], Iterator[KilledJob]]
CASES: dict[str, Case] = {
    "join": killed_join,
    "metrics": killed_roll_ups_and_alerts,
    "quality": killed_reports,
    "sessions": killed_sessions,
    "table": killed_table,
    "validate": killed_validation_and_redrive,
    "windows": killed_windows,
}


@pytest.fixture(scope="module")
def killed(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Iterator[KilledJob]]]:
    """The cases, whose jobs have been killed; each has a broker of its own."""
    folders = {name: tmp_path_factory.mktemp(name) for name in CASES}
    brokers = {name: BrokerProcess(folders[name] / "broker").start() for name in CASES}
    try:
        cases = {name: case(spark, brokers[name], folders[name]) for name, case in CASES.items()}
        jobs = [next(case) for case in cases.values()]
        if KILLS == 1:
            run_killed_together(jobs, tmp_path_factory.mktemp("held"))
        else:
            for job in jobs:
                run_killed(job)
        yield cases
    finally:
        for broker in brokers.values():
            broker.stop()
    for broker in brokers.values():
        broker.check_log()


@pytest.mark.parametrize("name", CASES)
def test_a_killed_job_goes_on(killed: Mapping[str, Iterator[KilledJob]], name: str) -> None:
    assert next(killed[name], None) is None
