"""Two topics joined: records with others of an interval of time, or with the newest row of a compacted topic.

    --with TOPIC    left (key, time, value) + right (key, time, value)    right.time in [left.time - before, + within]
    --table TOPIC   left (key, time, value) + table (key, value)          the row of the key when the batch runs

Keys and event times are the records' own, or JSON fields of their values. With `--outer`, a left record without a
match is a result too, with nulls: in a join of two streams when no match can come any more, in one with a table at
once.

The state of a join of two streams is bounded by the watermarks: a record is kept until no record that is in time, at
most `--lateness` behind the latest, can match it. The table is read from the topic's beginning at the start, and
afterwards refreshed, before a batch, if `--refresh` has passed (`topic_table.py`). The progress lines show both
sizes.

Delivery: tables have each result once, also after a restart; a topic is written at least once. After a restart, the
unfinished batch may be joined with newer rows of the table than at the first attempt. A Parquet or Delta table with
results of a checkpoint that is lost is refused.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs import io
from spark_jobs.errors import JobError
from spark_jobs.events import key_of, time_of
from spark_jobs.io import ResultOptions
from spark_jobs.job import Job, writer
from spark_jobs.options import StreamOptions, WatermarkOptions, given, milliseconds, option
from spark_jobs.progress import say
from spark_jobs.topic_table import TopicTable
from spark_jobs.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

COLUMNS = ("key", "time", "value", "joined_time", "joined_value")


@dataclass(frozen=True, kw_only=True)
class JoinOptions(ResultOptions, WatermarkOptions, StreamOptions):
    """What is joined, how, and where the results go."""

    with_: str | None = option("topic of the other stream", default=None, metavar="TOPIC", parse=given)
    table: str | None = option("compacted topic of the table", default=None, metavar="TOPIC", parse=given)
    key: str = option("JSON field of the left key; several with commas (default: the record's key)", default="")
    joined_key: str = option("JSON field of the other key (default: the record's key)", default="", metavar="KEY")
    time: str = option("JSON field with the left event time (default: the timestamp)", default="", metavar="FIELD")
    joined_time: str = option("JSON field with the other event time", default="", metavar="FIELD")
    within: int = option(
        "the other record is at most so much later (default: 1 hour)",
        default=3_600_000,
        metavar="INTERVAL",
        parse=milliseconds,
    )
    before: int = option(
        "the other record is at most so much earlier (default: not earlier)",
        default=0,
        metavar="INTERVAL",
        parse=milliseconds,
    )
    outer: bool = option("also write records without a match", default=False)
    refresh: int = option(
        "read what is new in the table so often (default: 10 seconds)",
        default=10_000,
        metavar="INTERVAL",
        parse=milliseconds,
    )


def keyed(records: DataFrame, key: str, time: str) -> DataFrame:
    """Return `key` (string), `time` and `value` (string) of records."""
    from pyspark.sql import functions as f

    return records.select(key_of(key).alias("key"), time_of(time).alias("time"), f.col("value").cast("string"))


def joined_streams(left: DataFrame, right: DataFrame, options: JoinOptions) -> DataFrame:
    """Return COLUMNS of the pairs with equal keys whose times are within the interval."""
    from pyspark.sql import functions as f

    left = left.withWatermark("time", options.lateness)
    others = right.select(
        f.col("key").alias("joined_key"), f.col("time").alias("joined_time"), f.col("value").alias("joined_value")
    ).withWatermark("joined_time", options.lateness)
    matching = (
        (f.col("key") == f.col("joined_key"))
        & (f.col("joined_time") >= f.col("time") - f.expr(f"INTERVAL {options.before} MILLISECONDS"))
        & (f.col("joined_time") <= f.col("time") + f.expr(f"INTERVAL {options.within} MILLISECONDS"))
    )
    return left.join(others, matching, "left_outer" if options.outer else "inner").select(*COLUMNS)


def joined_table(left: DataFrame, table: DataFrame, options: JoinOptions) -> DataFrame:
    """Return COLUMNS of the records with the rows of their keys; `joined_time` is the row's timestamp."""
    from pyspark.sql import functions as f

    rows = table.select(
        key_of(options.joined_key).alias("key"),
        time_of(options.joined_time).alias("joined_time"),
        f.col("value").cast("string").alias("joined_value"),
    )
    return left.join(rows, "key", "left_outer" if options.outer else "inner").select(*COLUMNS)


def as_records(rows: DataFrame) -> DataFrame:
    """Return results as records: the key is the common one, the value has both JSON values as `value` and `joined`."""
    from pyspark.sql import functions as f

    made = rows.select(
        "key",
        "time",
        _json("value").alias("value"),
        "joined_time",
        _json("joined_value").alias("joined"),
    )
    return made.select(f.col("key").cast("binary"), f.to_json(f.struct("*")).cast("binary").alias("value"))


def check(options: JoinOptions) -> None:
    """Raise JobError for options that do not fit together."""
    io.check_topics(options)
    if options.with_ is not None and options.table is not None:
        raise JobError("choose --with TOPIC or --table TOPIC: a job joins with one of them")
    if options.with_ is None and options.table is None:
        raise JobError("name the other stream by --with TOPIC, or the table by --table TOPIC")
    io.check_results(options.to, options, also_read=options.with_ or options.table)


def start(spark: SparkSession, options: JoinOptions) -> StreamingQuery:
    """Start the query."""
    check(options)
    io.claim_results(spark, options.to, JOB.name, options, also_read=options.with_ or options.table)
    left = keyed(io.read_stream(spark, options), options.key, options.time)
    batch_of: Callable[[DataFrame], DataFrame]
    if options.with_ is not None:
        other = dataclasses.replace(options, topic=(options.with_,), topic_pattern=None)
        right = keyed(io.read_stream(spark, other), options.joined_key, options.joined_time)
        rows, batch_of = joined_streams(left, right, options), lambda batch: batch
    else:
        table = TopicTable(spark, options, options.table or "", options.refresh / 1000)
        rows, batch_of = left, lambda batch: joined_table(batch, _refreshed(table), options)

    def write(batch: DataFrame, batch_id: int) -> None:
        results = batch_of(batch)
        io.write_batch(as_records(results) if options.to.kind == "topic" else results, batch_id, options.to, options)

    return writer(rows, JOB.name, options, write).start()


def _refreshed(table: TopicTable) -> DataFrame:
    before, rows = table.count, table.rows()
    if table.count != before and sys.stderr.isatty():
        say(f"the table has {counted(table.count, 'row')}")
    return rows


def _json(name: str) -> Column:
    """Return a JSON value as a variant, which `to_json` writes as it is; a text that is no JSON as a string."""
    from pyspark.sql import functions as f

    return f.coalesce(f.try_parse_json(f.col(name)), f.col(name).cast("variant"))


JOB = Job(
    "join",
    JoinOptions,
    start,
    "Join a topic with another one by key and time, or with the newest rows of a compacted topic.",
    "barnabas spark run join -t orders --with payments --within '1 hour' --checkpoint /tmp/paid --to topic:paid",
    lambda options: options.to.connectors,
    fixed=("with_", "table", "key", "joined_key", "time", "joined_time", "within", "before", "lateness", "outer"),
    check=check,
)

if __name__ == "__main__":
    sys.exit(JOB.main())
