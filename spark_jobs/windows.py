"""Counts, sums and percentiles of JSON records per key and window of event time, with late records counted apart.

    records -> events (key, time, value) -> windowed (one row per key and window) -> destination

The key and the value are fields of the JSON value, the event time a field or the record's timestamp. A window's row is
written when the watermark has passed its end: `--lateness` behind the latest event time. Records later than that are
in no window; `late_records` are theirs, by window, if `--late` names a destination.

Delivery: Parquet and Delta have each window once, also after a restart. A topic is written at least once: a batch that
is repeated after a crash writes its windows again, with the same key and value.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs import io
from spark_jobs.io import Destination
from spark_jobs.job import Job, writer
from spark_jobs.options import StreamOptions, option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PERCENTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, kw_only=True)
class WindowsOptions(StreamOptions):
    """The fields, the windows, and where the results go."""

    to: Destination = option(f"where windows go: {io.FORMS}", metavar="WHERE", parse=io.destination)
    key: str = option("JSON field of the key; several with commas (default: the record's key)", default="")
    value: str = option("JSON field with a number, for sums and percentiles", default="", metavar="FIELD")
    time: str = option("JSON field with the event time (default: the record's timestamp)", default="", metavar="FIELD")
    window: str = option("length of a window", default="1 minute", metavar="INTERVAL")
    slide: str = option("distance between windows' beginnings (default: their length)", default="", metavar="INTERVAL")
    lateness: str = option("how much later than the latest a record may be", default="1 minute", metavar="INTERVAL")


def events(records: DataFrame, options: WindowsOptions) -> DataFrame:
    """Return `key` (string), `time` (timestamp) and `value` (double) of records; a field that is absent gives null."""
    from pyspark.sql import functions as f

    text = f.col("value").cast("string")
    fields = [f.get_json_object(text, f"$.{name.strip()}") for name in options.key.split(",") if name.strip()]
    key = f.concat_ws("/", *fields) if fields else f.col("key").cast("string")
    time = f.get_json_object(text, f"$.{options.time}").cast("timestamp") if options.time else f.col("timestamp")
    value = (
        f.get_json_object(text, f"$.{options.value}").cast("double") if options.value else f.lit(None).cast("double")
    )
    return records.select(key.alias("key"), time.alias("time"), value.alias("value"))


def windowed(rows: DataFrame, options: WindowsOptions) -> DataFrame:
    """Return one row per key and window: count, sum, smallest, largest, and the percentiles p50, p90 and p99."""
    from pyspark.sql import functions as f

    window = f.window("time", options.window, options.slide or None)
    percentiles = f.percentile_approx("value", list(PERCENTILES), 1000)
    return (
        rows.withWatermark("time", options.lateness)
        .groupBy(window.alias("window"), "key")
        .agg(
            f.count("*").alias("count"),
            f.sum("value").alias("sum"),
            f.min("value").alias("min"),
            f.max("value").alias("max"),
            percentiles.alias("percentiles"),
        )
        .select(
            f.col("window.start").alias("start"),
            f.col("window.end").alias("end"),
            "key",
            *("count", "sum", "min", "max"),
            *(f.col("percentiles")[at].alias(f"p{round(100 * part)}") for at, part in enumerate(PERCENTILES)),
        )
    )


def as_records(rows: DataFrame) -> DataFrame:
    """Return rows of `windowed` as records: the key is `key@start`, the value the row as JSON."""
    from pyspark.sql import functions as f

    start = f.date_format("start", "yyyy-MM-dd'T'HH:mm:ss'Z'")
    return rows.select(
        f.concat_ws("@", f.coalesce("key", f.lit("")), start).cast("binary").alias("key"),
        f.to_json(f.struct("*")).cast("binary").alias("value"),
    )


def start(spark: SparkSession, options: WindowsOptions) -> StreamingQuery:
    """Start the query."""
    io.claim_destination(spark, options.to, JOB.name, options.checkpoint)
    rows = windowed(events(io.read_stream(spark, options), options), options)

    def write(batch: DataFrame, batch_id: int) -> None:
        made = as_records(batch) if options.to.kind == "topic" else batch
        io.write_batch(made, batch_id, options.to, options)

    return writer(rows, JOB.name, options, write).start()


JOB = Job(
    "windows",
    WindowsOptions,
    start,
    "Count, sum and rank the values of JSON records per key and window of event time.",
    "barnabas spark run windows -t clicks --key page --value ms --checkpoint /tmp/windows --to topic:pages",
    lambda options: options.to.connectors,
)

if __name__ == "__main__":
    sys.exit(JOB.main())
