"""Roll-ups of operational metrics and logs at several granularities, which agree with each other, and alerts on them.

    records -> measurements (time, name, labels, value) -> rolled_up (a row per granularity, window, name and labels)
            -> destination; and -> alerts.py -> topic

A measurement is a number of a JSON field, and has the name of this field or of another one; without `--value` records
are counted, for logs. Labels are fields too. Fields of a text log are the named groups of `--pattern`.

A measurement is in the roll-ups of all granularities or in none: all rows of an hour, if that is the coarsest
granularity, are in the state of the query until the watermark, `--lateness` behind the latest time, has passed the
hour's end. Until then a late measurement changes its row of each granularity, in the same batch, so that the count and
sum of a coarser row are those of its finer ones (sums of fractions: up to their rounding). Later ones are dropped.

Topics, Delta and the console get each change of a row under the same `key`: the last one is its state. The other
destinations get each row once, when its coarsest window is complete. A database gets the labels as JSON.

Delivery: Parquet, Iceberg and databases have each row once, Delta in effect, after restarts too. A topic gets the rows
of a repeated batch again, with the same keys and values: the last record of each key is right. Alerts are written at
least once; a repeated one has the same key and value.

- Retention, or a topic that was created again: unread records that are gone end the job, unless `-X
  failOnDataLoss=false`. New partitions are read from their beginning.
- A changed schema: a field that is absent or no number any more yields no measurement. A watched metric that ends so is
  noticed by a rule such as `count < 1`.
- A lost checkpoint: the measurements are read again; in Delta and topics they replace rows with their own, complete
  or not yet; a Parquet table that has results is refused. Alerts begin anew.
- Other options of roll-ups need another checkpoint; rules may change between starts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import io, metrics_picture
from spark_jobs.alerts import Alerts, RollUp, Rule, Totals, rules_of
from spark_jobs.errors import JobError, unread_text
from spark_jobs.files import Folder
from spark_jobs.io import Destination
from spark_jobs.job import Job, adaptive, writer
from spark_jobs.options import StreamOptions, duration, interval, option
from spark_jobs.tables import delta_name, is_delta

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHANGED = "barnabas_roll_ups"
CHANGING = ("topic", "delta", "console")
DRAWN = ("topic", "delta", "parquet")
COUNTED = "records"
GROUP = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")


@dataclass(frozen=True, kw_only=True)
class MetricsOptions(StreamOptions):
    """The measurements, their roll-ups, and the alerts."""

    to: Destination = option(f"where roll-ups go: {io.forms()}", metavar="WHERE", parse=io.destination)
    value: str = option(
        "JSON field with a number; several with commas (default: count the records)", default="", metavar="FIELDS"
    )
    name: str = option("JSON field with the metric's name (default: that of --value's field)", default="")
    by: str = option("JSON fields of the labels, with commas", default="", metavar="FIELDS")
    time: str = option("JSON field with the time (default: the record's timestamp)", default="", metavar="FIELD")
    rules: str = option("YAML file of threshold rules, for --alerts", default="", metavar="FILE")
    alerts: str = option("topic for the alerts of --rules", default="", metavar="TOPIC")
    picture: str = option("draw the roll-ups at the end, as PNG or SVG", default="", metavar="FILE")
    pattern: str = option("a Java pattern of text records, whose named groups are the fields", default="")
    granularities: str = option(
        "lengths of the windows, with commas", default="1 minute, 5 minutes, 1 hour", metavar="INTERVALS"
    )
    lateness: str = option(
        "how much later than the latest a measurement may be", default="1 minute", metavar="INTERVAL", parse=duration
    )


def granularities(options: MetricsOptions) -> dict[str, int]:
    """Return the lengths of the windows in seconds by their texts, the finest first.

    Raise JobError if one is no interval, or if a window of one granularity would be in two of the next.
    """
    named = {text.strip(): interval("--granularities", text) for text in options.granularities.split(",")}
    lengths = dict(sorted(named.items(), key=lambda pair: pair[1]))
    finer = ""
    for text, length in lengths.items():
        if finer and length % lengths[finer]:
            raise JobError(f"--granularities: {text} is not a multiple of {finer}; write {options.granularities!r} so")
        finer = text
    return lengths


def measurements(records: DataFrame, options: MetricsOptions) -> DataFrame:
    """Return `time`, `name`, `labels` (an array in the order of --by) and `value` of records, with the watermark.

    A record without a number in any field of --value yields no row, but moves the watermark.
    """
    from pyspark.sql import functions as f

    field = _fields(options.pattern)
    time = field(options.time).try_cast("timestamp") if options.time else f.col("timestamp")
    name = f.coalesce(field(options.name), f.lit("")) if options.name else f.lit(COUNTED)
    labels = f.array(*(field(label) for label in _names(options.by))).cast("array<string>")
    values = [
        f.struct((name if options.name else f.lit(value)).alias("name"), field(value).try_cast("double").alias("value"))
        for value in _names(options.value)
    ]
    # In the generator, Spark does not push the filter below the watermark.
    present = f.filter(f.array(*values), lambda one: one["value"].isNotNull())
    if not values:
        present = f.array(f.struct(name.alias("name"), f.lit(None).cast("double").alias("value")))
    made = records.select(time.alias("time"), labels.alias("labels"), present.alias("present"))
    timed = made.withWatermark("time", options.lateness)
    return timed.select("time", "labels", f.inline("present"))


def rolled_up(rows: DataFrame, options: MetricsOptions) -> DataFrame:
    """Return one row per granularity, window, name and labels: count, sum, smallest, largest, mean and latest time."""
    from pyspark.sql import functions as f

    lengths = granularities(options)
    coarsest = f"{max(lengths.values())} seconds"
    starts = [
        f.struct(
            f.lit(text).alias("granularity"),
            f.lit(length).alias("length"),
            (f.floor(f.unix_seconds("time") / length) * length).alias("start"),
        )
        for text, length in lengths.items()
    ]
    names = f.array(*map(f.lit, _names(options.by))).cast("array<string>")
    key = f.concat_ws("/", "name", f.transform("labels", lambda label: f.coalesce(label, f.lit(""))))
    start = f.timestamp_seconds("start")
    return (
        rows.select("*", f.inline(f.array(*starts)))
        # The state of all granularities is kept as long as that of the coarsest window.
        .groupBy(f.window("time", coarsest), "granularity", "length", "start", "name", "labels")
        .agg(
            f.count("*").alias("count"),
            f.sum("value").alias("sum"),
            f.min("value").alias("min"),
            f.max("value").alias("max"),
            f.max("time").alias("latest"),
        )
        .select(
            f.concat_ws("@", key, "granularity", f.date_format(start, "yyyy-MM-dd'T'HH:mm:ss'Z'")).alias("key"),
            "granularity",
            start.alias("start"),
            f.timestamp_seconds(f.col("start") + f.col("length")).alias("end"),
            "name",
            f.map_from_arrays(names, "labels").alias("labels"),
            *("count", "sum", "min", "max"),
            (f.col("sum") / f.col("count")).alias("mean"),
            "latest",
        )
    )


def as_records(rows: DataFrame) -> DataFrame:
    """Return rows of `rolled_up` as records: the value is the row as JSON, without the key."""
    from pyspark.sql import functions as f

    fields = [name for name in rows.columns if name not in ("key", "latest")]
    return rows.select(
        f.col("key").cast("binary").alias("key"), f.to_json(f.struct(*fields)).cast("binary").alias("value")
    )


def windows(rows: DataFrame, rules: Sequence[Rule]) -> list[RollUp]:
    """Return the roll-ups that rules may watch, of rows of `rolled_up`."""
    from pyspark.sql import functions as f

    watched = rows.where(f.col("granularity").isin(*{rule.granularity for rule in rules}))
    return [
        RollUp(
            row["key"].rsplit("@", 2)[0],
            row["name"],
            row["labels"],
            row["granularity"],
            row["begin"],
            Totals(row["count"], row["sum"] or 0.0, row["min"], row["max"]),
        )
        for row in watched.withColumn("begin", f.unix_seconds("start")).collect()
    ]


def raise_alerts(rows: DataFrame, batch_id: int, rules: Sequence[Rule], options: MetricsOptions) -> None:
    """Write the alerts of a batch to their topic, then the state of the rules beside the checkpoint.

    A repeated batch begins with the state that its predecessor left.
    """
    from pyspark.sql import functions as f

    spark = rows.sparkSession
    folder = Folder(spark, f"{options.checkpoint}/alerts")
    earlier = sorted(int(name) for name in folder.names() if name.isdecimal() and int(name) < batch_id)
    state = Alerts(rules, folder.read(str(earlier[-1])) if earlier else None)
    # Complete windows are final; others are evaluated when the time has passed their end by the lateness.
    ended = f.max(f.unix_seconds("latest")) - interval("--lateness", options.lateness)
    if options.to.kind not in CHANGING:
        ended = f.max(f.unix_seconds("end"))
    [(until,)] = rows.agg(ended).collect()
    fired = state.update(windows(rows, rules), until)
    if fired:
        records = [(alert.key, alert.value()) for alert in fired]
        made = spark.createDataFrame(records, "key string, value string").coalesce(1)
        io.write_topic(made, options.alerts, options)
    folder.write(str(batch_id), state.stored())
    for number in earlier[:-1]:
        folder.delete(str(number))


def write_roll_ups(rows: DataFrame, batch_id: int, options: MetricsOptions) -> None:
    """Write a batch of `rolled_up` to the destination; a database has no maps, so its labels are JSON."""
    from pyspark.sql import functions as f

    if options.to.kind == "delta":
        upsert(rows, options.to.target)
        return
    if options.to.kind == "topic":
        rows = as_records(rows)
    elif options.to.kind == "jdbc":
        rows = rows.withColumn("labels", f.to_json("labels"))
    io.write_batch(rows, batch_id, options.to, options)


def upsert(rows: DataFrame, directory: str) -> None:
    """Merge rows into a Delta table by their key; the table is created if it does not exist."""
    spark = rows.sparkSession
    if not is_delta(spark, directory):
        rows.limit(0).write.format("delta").save(directory)
    rows.createOrReplaceTempView(CHANGED)
    spark.sql(
        f"MERGE INTO {delta_name(spark, directory)} t USING {CHANGED} c ON t.key = c.key "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def check(options: MetricsOptions) -> tuple[Rule, ...]:
    """Return the rules; JobError if they cannot be read, or for options that do not fit together."""
    io.check_topics(options)
    rules = _rules(options, granularities(options))
    if rules:
        interval("--lateness", options.lateness)
    if options.picture and options.to.kind not in DRAWN:
        raise JobError(f"--picture is drawn from the destination: write --to {io.forms(DRAWN)}")
    if options.picture:
        metrics_picture.check_path(options.picture)
    io.check_results(options.to, options)
    if options.alerts:
        alerts = Destination("topic", options.alerts)
        if alerts == options.to:
            raise JobError("--alerts would mix with --to: name another topic by --alerts")
        io.check_results(alerts, options)
    if options.pattern:
        for name in (options.time, options.name, *_names(options.by), *_names(options.value)):
            if name:
                _group(options.pattern, name)
    return rules


def start(spark: SparkSession, options: MetricsOptions) -> StreamingQuery:
    """Start the query."""
    rules = check(options)
    # Delta's rows are merged by their keys, also those of another checkpoint.
    if options.to.kind == "delta":
        io.claim_destination(spark, options.to, JOB.name, options.checkpoint)
    else:
        io.claim_results(spark, options.to, JOB.name, options)
    if options.alerts:
        io.claim_results(spark, Destination("topic", options.alerts), JOB.name, options)
    rows = rolled_up(measurements(io.read_stream(spark, options), options), options)

    def write(batch: DataFrame, batch_id: int) -> None:
        with adaptive(batch):
            kept = batch.persist()
            try:
                if not kept.isEmpty():
                    write_roll_ups(kept, batch_id, options)
                    if rules:
                        raise_alerts(kept, batch_id, rules, options)
            finally:
                kept.unpersist()

    mode = "update" if options.to.kind in CHANGING else "append"
    return writer(rows, JOB.name, options, write, mode).start()


def finish(spark: SparkSession, options: MetricsOptions) -> None:
    """Draw the picture, if one is asked for."""
    if not options.picture:
        return
    rows = metrics_picture.read_roll_ups(spark, options.to, options)
    firing = metrics_picture.read_firing(spark, options.alerts, options) if options.alerts else []
    metrics_picture.draw(rows, firing, granularities(options), options.picture)


def _rules(options: MetricsOptions, lengths: dict[str, int]) -> tuple[Rule, ...]:
    if bool(options.rules) != bool(options.alerts):
        raise JobError("alerts need both --rules FILE and --alerts TOPIC")
    if not options.rules:
        return ()
    try:
        text = Path(options.rules).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"the rules {options.rules} cannot be read: {unread_text(error)}; correct --rules") from None
    return rules_of(text, lengths)


def _fields(pattern: str) -> Callable[[str], Column]:
    from pyspark.sql import functions as f

    text = f.col("value").cast("string")
    if not pattern:
        return lambda name: f.get_json_object(text, f"$.{name}")
    return lambda name: f.nullif(f.regexp_extract(text, pattern, _group(pattern, name)), f.lit(""))


def _group(pattern: str, name: str) -> int:
    """Return the number of a named group of a pattern; JobError without such a group."""
    groups = GROUP.findall(pattern)
    if name not in groups:
        raise JobError(f"--pattern has no group {name!r}: write (?<{name}>...) in it")
    return int(groups.index(name)) + 1


def _names(fields: str) -> list[str]:
    return [name.strip() for name in fields.split(",") if name.strip()]


JOB = Job(
    "metrics",
    MetricsOptions,
    start,
    "Roll up metrics and logs at several granularities, and raise alerts.",
    "barnabas spark run metrics -t requests --value ms --by service --checkpoint /tmp/metrics --to topic:roll-ups",
    lambda options: options.to.connectors,
    ("to", "value", "name", "by", "time", "pattern", "granularities", "lateness"),
    finish=finish,
    check=check,
)

if __name__ == "__main__":
    sys.exit(JOB.main())
