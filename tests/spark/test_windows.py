"""The job `windows`: its transforms on small frames, and the whole job, killed in the middle, beside plain Python."""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import Row, SparkSession

from spark_jobs.errors import JobError
from spark_jobs.events import as_records, events
from spark_jobs.io import Destination
from spark_jobs.windows import WindowsOptions, start, windowed
from tests.broker_process import BrokerProcess
from tests.spark.streams import KILLS, KilledJob

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RECORDS = 3000

Key = tuple[str, str]
"""The beginning of a window, and a page."""


def options(**changes: object) -> WindowsOptions:
    return WindowsOptions(checkpoint="unused", to=Destination("console", ""), **changes)  # type: ignore[arg-type]


def test_events_are_fields_of_the_value(spark: SparkSession) -> None:
    value = b'{"page": "a", "user": {"id": 7}, "ms": 1.5, "at": "2026-01-01T12:00:00Z"}'
    records = spark.createDataFrame(
        [(b"k", value, NOON + timedelta(days=1)), (None, b"malformed", NOON), (b"k", None, NOON)],
        "key binary, value binary, timestamp timestamp",
    )
    named = events(records, options(key="page,user.id", value="ms", time="at")).collect()
    assert [(row.key, row.value) for row in named] == [("a/7", 1.5), (None, None), (None, None)]
    assert [row.time for row in events(records, options()).select("time").collect()] == [
        row.timestamp for row in records.select("timestamp").collect()
    ]
    assert [row.key for row in events(records, options()).collect()] == ["k", None, "k"]


def test_windows_have_counts_sums_and_percentiles(spark: SparkSession) -> None:
    rows = [("a", NOON + timedelta(seconds=second), float(second)) for second in range(100)]
    frame = spark.createDataFrame([*rows, ("a", NOON, None)], "key string, time timestamp, value double")
    first, second = windowed(frame, options(window="1 minute")).orderBy("start").collect()
    assert (first["count"], first["values"], first["sum"]) == (61, 60, sum(range(60)))
    assert (first["min"], first["max"]) == (0.0, 59.0)
    assert (first.p50, first.p90, first.p99) == (29.0, 53.0, 59.0)
    assert second["count"] == 40


def test_a_record_names_its_window(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", NOON, 2.0)], "key string, time timestamp, value double")
    [record] = as_records(windowed(frame, options())).collect()
    assert bytes(record.key) == b"a@2026-01-01T12:00:00Z"
    assert json.loads(record.value) == {
        "start": "2026-01-01T12:00:00.000Z",
        "end": "2026-01-01T12:01:00.000Z",
        "key": "a",
        "count": 1,
        "values": 1,
        "sum": 2.0,
        "min": 2.0,
        "max": 2.0,
        "p50": 2.0,
        "p90": 2.0,
        "p99": 2.0,
    }


def test_a_directory_of_another_checkpoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.txt").touch()
    wrong = WindowsOptions(
        checkpoint=str(tmp_path / "c"), to=Destination("parquet", str(tmp_path / "out")), topic=("t",)
    )
    with pytest.raises(JobError, match="has files that no job wrote"):
        start(spark, wrong)


def test_late_records_are_not_counted_among_the_results(spark: SparkSession, tmp_path: Path) -> None:
    out = Destination("parquet", str(tmp_path / "out"))
    with pytest.raises(JobError, match="--late would mix with --to: write the numbers of late records elsewhere"):
        start(spark, WindowsOptions(checkpoint=str(tmp_path / "c"), to=out, late=out, topic=("t",)))


def produce(bootstrap: str, topic: str) -> dict[Key, tuple[int, float]]:
    """Write records of ten pages, one a second of event time, some of them late; return each window's figures."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    forever = {"retention.ms": "-1"}  # the event times are of the past
    admin.create_topics([NewTopic(topic, 1, 1, config=forever)])[topic].result(30)
    expected: dict[Key, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        page, at = (
            f"page{number * 7 % 10}",
            NOON + timedelta(seconds=max(0, number - (900 if number % 20 == 19 else 0))),
        )
        value = json.dumps({"page": page, "ms": number % 100})
        producer.produce(topic, value, partition=0, timestamp=int(at.timestamp() * 1000))
        begin = at.replace(second=0).isoformat(), page
        count, total = expected[begin]
        expected[begin] = count + 1, total + number % 100
    closing = NOON + timedelta(days=1)
    producer.produce(topic, json.dumps({"page": "closing"}), partition=0, timestamp=int(closing.timestamp() * 1000))
    producer.flush()
    return dict(expected)


def found(rows: Iterable[Row]) -> list[tuple[Key, tuple[int, float]]]:
    return [((row.start.replace(tzinfo=UTC).isoformat(), row.key), (row["count"], row["sum"])) for row in rows]


def killed_windows(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> Iterator[KilledJob]:
    """Windows are counted once, and the group shows the job's lag."""
    expected = produce(broker.bootstrap, "clicks")
    out = tmp_path / "windows"
    words = [
        *("-b", broker.bootstrap, "-t", "clicks", "--key", "page", "--value", "ms", "--available-now"),
        *("--to", f"parquet:{out}", "--late", f"parquet:{tmp_path}/late"),
    ]
    yield KilledJob(
        "windows", [*words, "--max-offsets-per-trigger", str(RECORDS // (4 * KILLS))], tmp_path / "checkpoint"
    )
    words += ["--checkpoint", str(tmp_path / "checkpoint"), "--max-offsets-per-trigger", "500", "--master", "local[2]"]
    command = [sys.executable, "-m", "spark_jobs.windows", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    read = {name: spark.read.parquet(str(tmp_path / name)).where("key != 'closing'") for name in ("windows", "late")}
    rows = found(read["windows"].collect())
    assert len(rows) == len(dict(rows))
    sums = read["late"].groupBy("start", "key").sum("late").collect()
    late = Counter({(row.start.replace(tzinfo=UTC).isoformat(), row.key): row["sum(late)"] for row in sums})
    assert 0 < late.total() <= RECORDS / 20
    assert {window: (dict(rows).get(window, (0, 0))[0] + late[window]) for window in expected} == {
        window: count for window, (count, _) in expected.items()
    }
    assert {window: total for window, (_, total) in rows if not late[window]} == {
        window: total for window, (_, total) in expected.items() if not late[window]
    }
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(7):
        producer.produce("clicks", b"{}")
    assert producer.flush(30) == 0
    command = [sys.executable, "-m", "barnabas", "group", "describe", "spark-windows", "-b", broker.bootstrap, "--json"]
    [group] = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)
    [shown] = group["partitions"]
    assert (shown["topic"], shown["committed"], shown["end"], shown["lag"]) == ("clicks", RECORDS + 1, RECORDS + 8, 7)
