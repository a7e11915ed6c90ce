"""The job `metrics`: its transforms on small frames, and the whole job, killed in the middle, beside plain Python."""

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_jobs import metrics_picture
from spark_jobs.alerts import Alerts, RollUp, Totals, rules_of
from spark_jobs.errors import JobError
from spark_jobs.io import Destination, destination
from spark_jobs.metrics import (
    MetricsOptions,
    as_records,
    finish,
    granularities,
    measurements,
    rolled_up,
    start,
    upsert,
    windows,
    write_roll_ups,
)
from tests.broker_process import BrokerProcess
from tests.spark.streams import (
    DAY_MS,
    KILLS,
    KilledJob,
    StreamRecord,
    create,
    finished,
    flights,
    read,
    with_oddities,
    write,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RULES = """
rules:
  - {name: late, metric: dep_delay, every: 1 day, when: mean > 15, severity: page}
  - {name: quiet, metric: dep_delay, labels: {origin: LGA}, every: 1 hour, when: count < 1, for: 3}
"""

Rollup = tuple[str, int, str, str]
"""A granularity, the begin of a window in seconds since 1970, a metric, and the origin."""


def options(**changes: object) -> MetricsOptions:
    return MetricsOptions(**{"checkpoint": "unused", "to": Destination("console", ""), **changes})  # type: ignore[arg-type]


def records(spark: SparkSession, *values: object, apart: timedelta = timedelta(seconds=30)) -> DataFrame:
    """Return records with values as JSON, bytes as they are, at and after noon."""
    rows = [
        (value if isinstance(value, bytes | None) else json.dumps(value).encode(), NOON + number * apart)
        for number, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, "value binary, timestamp timestamp")


def test_measurements_are_numbers_of_the_fields(spark: SparkSession) -> None:
    frame = records(
        spark, {"ms": 1.5, "bytes": 7, "host": "a", "dc": {"id": 2}}, {"ms": "x", "bytes": "8"}, b"{", None, {"ms": 2}
    )
    rows = measurements(frame, options(value="ms, bytes", by="host,dc.id")).collect()
    assert [(row["name"], row["labels"], row["value"]) for row in rows] == [
        ("ms", ["a", "2"], 1.5),
        ("bytes", ["a", "2"], 7.0),
        ("bytes", [None, None], 8.0),
        ("ms", [None, None], 2.0),
    ]
    assert [row["time"] for row in rows] == [
        NOON.astimezone().replace(tzinfo=None) + timedelta(seconds=30 * at) for at in (0, 0, 1, 4)
    ]


def test_names_and_times_are_fields_too(spark: SparkSession) -> None:
    frame = records(spark, {"metric": "cpu", "value": 1, "at": "2026-01-01T00:00:00Z"}, {"value": 2, "at": "yesterday"})
    first, second = measurements(frame, options(name="metric", value="value", time="at")).collect()
    assert (first["name"], first["time"].astimezone(UTC)) == ("cpu", datetime(2026, 1, 1, tzinfo=UTC))
    assert (second["name"], second["time"]) == ("", None)


def test_text_logs_are_counted_by_the_groups_of_a_pattern(spark: SparkSession) -> None:
    frame = records(spark, b"12:00 ERROR db: gone", b"12:01 INFO web: up", b"12:01 ERROR web: down", b"?")
    chosen = options(pattern=r"\S+ (?<level>[A-Z]+) (?<service>\w+): .*", by="level", granularities="1 hour")
    rows = rolled_up(measurements(frame, chosen), chosen).collect()
    assert {row["labels"]["level"]: (row["name"], row["count"], row["sum"]) for row in rows} == {
        "ERROR": ("records", 2, None),
        "INFO": ("records", 1, None),
        None: ("records", 1, None),
    }


def test_coarser_roll_ups_are_the_sums_of_the_finer_ones(spark: SparkSession) -> None:
    frame = records(spark, *({"ms": number, "host": "ab"[number % 2]} for number in range(400)))
    chosen = options(value="ms", by="host")
    rows = rolled_up(measurements(frame, chosen), chosen).collect()
    assert {row["granularity"] for row in rows} == {"1 minute", "5 minutes", "1 hour"}
    for coarse in rows:
        inside = [
            row
            for row in rows
            if row["granularity"] == "1 minute"
            and row["labels"] == coarse["labels"]
            and coarse["start"] <= row["start"] < coarse["end"]
        ]
        assert coarse["count"] == sum(row["count"] for row in inside)
        assert coarse["sum"] == sum(row["sum"] for row in inside)
        assert (coarse["min"], coarse["max"]) == (min(r["min"] for r in inside), max(r["max"] for r in inside))
        assert coarse["mean"] == coarse["sum"] / coarse["count"]


def test_a_record_has_a_key_of_its_window_and_series(spark: SparkSession) -> None:
    chosen = options(value="ms", by="host,zone", granularities="1 minute")
    [record] = as_records(rolled_up(measurements(records(spark, {"ms": 2, "host": "a"}), chosen), chosen)).collect()
    assert bytes(record["key"]) == b"ms/a/@1 minute@2026-01-01T12:00:00Z"
    assert json.loads(record["value"]) == {
        "granularity": "1 minute",
        "start": "2026-01-01T12:00:00.000Z",
        "end": "2026-01-01T12:01:00.000Z",
        "name": "ms",
        "labels": {"host": "a"} | {"zone": None},
        "count": 1,
        "sum": 2.0,
        "min": 2.0,
        "max": 2.0,
        "mean": 2.0,
    }


def test_a_late_measurement_is_in_all_granularities_or_in_none(spark: SparkSession, tmp_path: Path) -> None:
    """The second batch is late for its minute but not for its hour, the last one for its hour too."""
    chosen = options(value="ms", lateness="1 minute")
    found: dict[str, int] = {}
    for at, seconds in enumerate([[0, 3000], [5], [3700], [3701], [6]]):
        rows = [(b'{"ms": 1}', NOON + timedelta(seconds=second)) for second in seconds]
        frame = spark.createDataFrame(rows, "value binary, timestamp timestamp").coalesce(1)
        frame.write.parquet(str(tmp_path / f"in/part={at}"))
    stream = spark.readStream.schema("value binary, timestamp timestamp, part int").option("maxFilesPerTrigger", 1)
    changed = rolled_up(measurements(stream.parquet(str(tmp_path / "in")), chosen), chosen)

    def note(batch: DataFrame, _: int) -> None:
        found.update({row["key"]: row["count"] for row in batch.collect()})

    writer = changed.writeStream.outputMode("update").foreachBatch(note)
    finished(writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start())
    assert found == {
        "ms@1 minute@2026-01-01T12:00:00Z": 2,
        "ms@5 minutes@2026-01-01T12:00:00Z": 2,
        "ms@1 minute@2026-01-01T12:50:00Z": 1,
        "ms@5 minutes@2026-01-01T12:50:00Z": 1,
        "ms@1 hour@2026-01-01T12:00:00Z": 3,
        "ms@1 minute@2026-01-01T13:01:00Z": 2,
        "ms@5 minutes@2026-01-01T13:00:00Z": 2,
        "ms@1 hour@2026-01-01T13:00:00Z": 2,
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"granularities": "5 minutes, 12 minutes"}, "12 minutes is not a multiple of 5 minutes"),
        ({"granularities": "1min"}, "--granularities: '1min': write an interval such as '5 minutes'"),
        ({"rules": "rules.yaml"}, "alerts need both --rules FILE and --alerts TOPIC"),
        ({"rules": "absent.yaml", "alerts": "t"}, "the rules absent.yaml cannot be read: .*No such file"),
        (
            {"picture": "p.png"},
            r"--picture is drawn from the destination: write --to topic:NAME, delta:DIR or parquet:DIR",
        ),
        ({"picture": "p.jpeg", "to": Destination("topic", "x")}, "--picture p.jpeg: write a name that ends in .png or"),
        (
            {"picture": "/absent/p.png", "to": Destination("topic", "x")},
            "the directory of --picture does not exist: /ab",
        ),
        ({"pattern": "(?<a>.)", "by": "b"}, "--pattern has no group 'b'"),
    ],
)
def test_bad_options_are_named(spark: SparkSession, changes: dict[str, object], message: str) -> None:
    with pytest.raises(JobError, match=message):
        start(spark, options(topic=("t",), **changes))


def test_roll_ups_go_to_a_database(spark: SparkSession, database: str, tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id": "0b4a8f4e-0000-4000-8000-000000000000"}')
    to = destination(f"jdbc:{database}#roll_ups")
    chosen = options(value="ms", by="host", granularities="1 hour", to=to, checkpoint=str(tmp_path))
    frame = records(spark, {"ms": 1, "host": "a"}, {"ms": 2})
    write_roll_ups(rolled_up(measurements(frame, chosen), chosen), 0, chosen)
    read = spark.read.format("jdbc").options(url=f"jdbc:{database}", driver="org.postgresql.Driver")
    found = read.option("dbtable", "roll_ups").load().orderBy("sum").collect()
    assert [(row["sum"], json.loads(row["labels"])) for row in found] == [(1.0, {"host": "a"}), (2.0, {"host": None})]


def test_roll_ups_are_printed_on_the_console_before_they_are_complete(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with BrokerProcess(tmp_path / "broker") as broker:
        create(broker.bootstrap, "requests")
        write(broker.bootstrap, "requests", [StreamRecord(None, b'{"ms": 7.25}', int(NOON.timestamp()) * 1000)])
        chosen = options(brokers=broker.bootstrap, topic=("requests",), value="ms", granularities="1 hour")
        finished(start(spark, replace(chosen, checkpoint=str(tmp_path / "c"), available_now=True)))
    assert "7.25" in capsys.readouterr().out


def test_alerts_have_a_topic_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULES)
    chosen = {"rules": str(tmp_path / "rules.yaml"), "granularities": "1 hour, 1 day", "topic": ("requests",)}
    with pytest.raises(JobError, match="--alerts would mix with --to: name another topic by --alerts"):
        start(spark, options(**chosen, alerts="both", to=Destination("topic", "both")))
    with pytest.raises(JobError, match="the job would read its own results from requests"):
        start(spark, options(**chosen, alerts="requests", to=Destination("topic", "roll-ups")))
    matching = chosen | {"topic": (), "topic_pattern": "a.*"}
    with pytest.raises(JobError, match="the job would read its own results from alerts"):
        start(spark, options(**matching, alerts="alerts", to=Destination("topic", "roll-ups")))


def test_a_directory_of_something_else_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.txt").touch()
    to = Destination("parquet", str(tmp_path / "out"))
    with pytest.raises(JobError, match="has files that no job wrote"):
        start(spark, options(topic=("t",), to=to, checkpoint=str(tmp_path / "c")))


def test_granularities_are_ordered() -> None:
    assert list(granularities(options(granularities="1 hour,1 minute, 30 minutes")).items()) == [
        ("1 minute", 60),
        ("30 minutes", 1800),
        ("1 hour", 3600),
    ]


def expected(stream: list[StreamRecord]) -> dict[Rollup, list[int]]:
    """Return the delays in each window, computed in plain Python."""
    found: dict[Rollup, list[int]] = defaultdict(list)
    for record in stream:
        try:
            flight = json.loads(record.value or b"")
        except ValueError:
            continue
        if isinstance(flight, dict) and isinstance(delay := flight.get("dep_delay"), int):
            for name, length in (("1 hour", 3600), ("1 day", 86_400)):
                start_s = record.timestamp_ms // 1000 // length * length
                found[name, start_s, "dep_delay", flight["origin"]].append(delay)
    return dict(found)


def begin(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def killed_roll_ups_and_alerts(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> Iterator[KilledJob]:
    """The topic ends with measurements that are too late: every hour that they belong to was complete before."""
    stream = with_oddities(flights(10))
    last = stream[-1].timestamp_ms
    too_late = [record._replace(timestamp_ms=last - 8 * DAY_MS) for record in flights(1)[:50]]
    create(broker.bootstrap, "flights", "roll-ups", "alerts")
    write(broker.bootstrap, "flights", [*stream, *too_late])
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    words = [
        *("-b", broker.bootstrap, "-t", "flights", "--value", "dep_delay", "--by", "origin"),
        *("--granularities", "1 hour, 1 day", "--lateness", "1 day", "--to", "topic:roll-ups"),
        *(
            "--rules",
            str(rules),
            "--alerts",
            "alerts",
            "--max-offsets-per-trigger",
            str(len(stream) // (4 * KILLS)),
            "--available-now",
        ),
    ]
    yield KilledJob("metrics", words, tmp_path / "checkpoint")
    chosen = options(
        brokers=broker.bootstrap,
        topic=("flights",),
        checkpoint=str(tmp_path / "checkpoint"),
        value="dep_delay",
        by="origin",
        granularities="1 hour, 1 day",
        lateness="1 day",
        to=Destination("topic", "roll-ups"),
        rules=str(rules),
        alerts="alerts",
        max_offsets_per_trigger=len(stream) // 3,
        available_now=True,
        picture=str(tmp_path / "delays.png"),
    )
    finished(start(spark, chosen))
    finish(spark, chosen)

    right = expected(stream)
    newest = {record.key: json.loads(record.value or b"") for record in read(broker.bootstrap, "roll-ups")}
    rows = {
        (row["granularity"], begin(row["start"]), row["name"], row["labels"]["origin"]): row for row in newest.values()
    }
    assert len(rows) == len(newest)
    assert {key: (row["count"], row["sum"], row["min"], row["max"]) for key, row in rows.items()} == {
        key: (len(delays), sum(delays), min(delays), max(delays)) for key, delays in right.items()
    }

    windows = [
        RollUp(f"{name}/{origin}", name, {"origin": origin}, granularity, at, Totals(len(d), sum(d), min(d), max(d)))
        for (granularity, at, name, origin), d in right.items()
    ]
    until = max(record.timestamp_ms for record in stream) // 1000 - 86_400
    alerts = Alerts(rules_of(RULES, granularities(chosen))).update(windows, until)
    written = {
        (record.key, record.value): json.loads(record.value or b"") for record in read(broker.bootstrap, "alerts")
    }
    assert sorted(
        (one["rule"], one["state"], one["labels"]["origin"], begin(one["start"])) for one in written.values()
    ) == sorted((alert.rule.name, alert.state, alert.labels["origin"], alert.start) for alert in alerts)
    assert {alert.rule.name for alert in alerts} == {"late", "quiet"}
    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")


def test_the_axes_of_the_picture_are_named(spark: SparkSession, tmp_path: Path) -> None:
    chosen = options(value="ms", granularities="1 hour")
    of_values = rolled_up(measurements(records(spark, {"ms": 5}), chosen), chosen)
    counted = options(granularities="1 hour")
    of_counts = rolled_up(measurements(records(spark, {"ms": 5}), counted), counted)
    for name, rows, label in (
        ("values", of_values, "mean of ms"),
        ("counts", of_counts, "records"),
        ("both", of_values.union(of_counts), "mean of ms or records"),
        ("two", of_values.union(of_values.withColumn("name", f.lit("bytes"))), "mean"),
    ):
        path = tmp_path / f"{name}.svg"
        with mpl.rc_context({"svg.fonttype": "none"}):
            metrics_picture.draw(rows, [], granularities(chosen), str(path))
        assert re.search(rf">\s*{label}\s*</text>", path.read_text())


@pytest.fixture
def example(spark: SparkSession) -> Figure:
    """The picture of the example in docs/SPARK.md."""
    chosen = options(value="ms", by="service", time="at")
    values = [
        {"at": f"2026-01-01T12:{minute:02}:00Z", "service": "web", "ms": ms}
        for minute, ms in ((0, 12), (1, 15), (2, 900), (9, 10))
    ]
    rows = rolled_up(measurements(records(spark, *values), chosen), chosen)
    rules = rules_of("rules: [{name: slow, metric: ms, every: 1 minute, when: mean > 100}]", granularities(chosen))
    alerts = Alerts(rules).update(windows(rows, rules), int(NOON.timestamp()) + 540)
    firing = metrics_picture.firing_of((alert.key, alert.value()) for alert in alerts)
    return metrics_picture.figure_of(rows, firing, granularities(chosen))


def minutes(days: float) -> float:
    """Return matplotlib's days since 1970 as minutes since noon."""
    return round(days * 1440 - NOON.timestamp() / 60, 3)


def spans(panel: Axes, label: str) -> list[tuple[float, float]]:
    found = [patch for patch in panel.patches if patch.get_label() == label and isinstance(patch, Rectangle)]
    return [(minutes(patch.get_x()), minutes(patch.get_x() + patch.get_width())) for patch in found]


def test_a_panel_shows_its_windows_from_begin_to_end(example: Figure) -> None:
    for panel, title, end in zip(example.axes, ("1 hour", "5 minutes", "1 minute"), (60, 10, 10), strict=True):
        [line] = panel.get_lines()
        assert panel.get_title("left") == f"every {title}"
        times, values = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert [minutes(times[0]), minutes(times[-1])] == [0, end]
        left, right = panel.get_xlim()
        assert minutes(left) < 0 < end < minutes(right)
        assert line.get_drawstyle() == "steps-post"
    assert [minutes(time) for time in times] == [0, 1, 2, 3, 9, 10]
    np.testing.assert_equal(values, [12, 15, 900, np.nan, 10, 10])


def test_the_red_part_of_a_panel_is_the_breach(example: Figure) -> None:
    assert [spans(panel, "alert") for panel in example.axes] == [[], [], [(2, 3)]]


def test_the_grey_part_of_a_panel_is_that_of_the_next_and_in_the_legend(example: Figure) -> None:
    below = "what the panel below shows"
    assert [spans(panel, below) for panel in example.axes] == [[(0, 10)], [], []]
    [legend] = example.legends
    assert [text.get_text() for text in legend.get_texts()] == ["ms web", "alert", below]


def test_a_delta_table_has_the_newest_state_of_each_window(spark: SparkSession, tmp_path: Path) -> None:
    chosen, table = options(value="ms", granularities="1 hour"), os.path.relpath(tmp_path / "table")
    for values in ([{"ms": 5}], [{"ms": 5}, {"ms": 7}]):
        upsert(rolled_up(measurements(records(spark, *values), chosen), chosen), table)
    [row] = spark.read.format("delta").load(table).collect()
    assert (row["key"], row["count"], row["sum"]) == ("ms@1 hour@2026-01-01T12:00:00Z", 2, 12.0)
