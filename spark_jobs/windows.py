"""Counts, sums and percentiles of JSON records per key and window of event time, with late records counted apart.

    records -> events (key, time, value) -> windowed (one row per key and window) -> --to
                                         -> late (records per key and window)     -> --late

The key and the value are fields of the JSON value, the event time a field or the record's timestamp. A window's row is
written when the watermark has passed its end: `--lateness` behind the latest event time. Records whose window was
written before are in no window. `--late` counts them, by key and window: the batch's records are then read again, with
the watermark by which Spark drops them (`checkpoint.py`).

Delivery: tables have each window once, also after a restart. A topic is written at least once: a batch that is repeated
after a crash writes its windows again, with the same key and value. A Parquet or Delta table with results of a
checkpoint that is lost is refused.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs import io
from spark_jobs.checkpoint import batch_plan
from spark_jobs.errors import JobError
from spark_jobs.events import EventOptions, events, write_results
from spark_jobs.io import Destination
from spark_jobs.job import Job, writer
from spark_jobs.options import StreamOptions, length, microseconds, option

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PERCENTILES = (0.5, 0.9, 0.99)


def distance(text: str) -> str:
    """Return a text that is empty, or an interval for Spark, longer than 0."""
    return length(text) if text else text


@dataclass(frozen=True, kw_only=True)
class WindowsOptions(EventOptions, StreamOptions):
    """The fields, the windows, and where the results go."""

    window: str = option("length of a window", default="1 minute", metavar="INTERVAL", parse=length)
    slide: str = option(
        "distance between windows' beginnings (default: their length)", default="", metavar="INTERVAL", parse=distance
    )
    late: Destination | None = option(
        "where the numbers of late records go", default=None, metavar="WHERE", parse=io.destination
    )


def windowed(rows: DataFrame, options: WindowsOptions) -> DataFrame:
    """Return one row per key and window: records, those with a value, and its sum, extremes and percentiles."""
    from pyspark.sql import functions as f

    percentiles = f.percentile_approx("value", list(PERCENTILES), 1000)
    return (
        rows.withWatermark("time", options.lateness)
        .groupBy(_window(options).alias("window"), "key")
        .agg(
            f.count("*").alias("count"),
            f.count("value").alias("values"),
            f.sum("value").alias("sum"),
            f.min("value").alias("min"),
            f.max("value").alias("max"),
            percentiles.alias("percentiles"),
        )
        .select(
            f.col("window.start").alias("start"),
            f.col("window.end").alias("end"),
            "key",
            *("count", "values", "sum", "min", "max"),
            *(f.col("percentiles")[at].alias(f"p{round(100 * part)}") for at, part in enumerate(PERCENTILES)),
        )
    )


def late(rows: DataFrame, options: WindowsOptions, before_ms: int) -> DataFrame:
    """Return the number of events per key and window of the windows that ended up to a watermark."""
    from pyspark.sql import functions as f

    window = f.col("window")
    return (
        rows.select(_window(options).alias("window"), "key")
        .where(f.unix_millis(window["end"]) <= before_ms)
        .groupBy("window", "key")
        .agg(f.count("*").alias("late"))
        .select(window["start"].alias("start"), window["end"].alias("end"), "key", "late")
    )


def check(options: WindowsOptions) -> None:
    """Raise JobError for options that do not fit together."""
    io.check_topics(options)
    if options.slide and microseconds(options.slide) > microseconds(options.window):
        raise JobError(
            f"--slide {options.slide!r} leaves out records between the windows of {options.window!r}: choose a shorter "
            "one"
        )
    if options.late == options.to and options.to.kind != "console":
        raise JobError("--late would mix with --to: write the numbers of late records elsewhere")
    for written in (options.to, options.late):
        if written is not None:
            io.check_results(written, options)


def start(spark: SparkSession, options: WindowsOptions) -> StreamingQuery:
    """Start the query."""
    check(options)
    io.claim_results(spark, options.to, JOB.name, options)
    if options.late is not None:
        io.claim_results(spark, options.late, JOB.name, options)
    rows = windowed(events(io.read_stream(spark, options), options), options)

    def write(batch: DataFrame, batch_id: int) -> None:
        write_results(batch, batch_id, options.to, options)
        if options.late is not None:
            write_results(_late_of_batch(spark, batch_id, options), batch_id, options.late, options)

    return writer(rows, JOB.name, options, write).start()


def _window(options: WindowsOptions) -> Column:
    from pyspark.sql import functions as f

    return f.window("time", options.window, options.slide or None)


def _late_of_batch(spark: SparkSession, batch_id: int, options: WindowsOptions) -> DataFrame:
    plan = batch_plan(spark, options.checkpoint, batch_id)
    records = io.read_range(spark, options, plan.start, plan.end)
    return late(events(records, options), options, plan.late_before_ms)


JOB = Job(
    "windows",
    WindowsOptions,
    start,
    "Count, sum and rank the values of JSON records per key and window of event time.",
    "barnabas spark run windows -t clicks --key page --value ms --checkpoint /tmp/windows --to topic:pages",
    lambda options: (*options.to.connectors, *(options.late.connectors if options.late else ())),
    fixed=("key", "value", "time", "window", "slide", "lateness"),
    check=check,
)

if __name__ == "__main__":
    sys.exit(JOB.main())
