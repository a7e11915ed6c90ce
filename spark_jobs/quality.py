"""Quality of topics with JSON values: completeness, uniqueness, freshness, key skew and schema drift, and a report.

    records -> facts (a row per kind and name: a record, a field with its type, a key, an identity, a partition)
            -> counted per topic and window -> summaries (a row per topic and window) -> report page, and a destination

Without `--checkpoint`, the job reads once what the topics have, reports on it, and ends. With it, the job goes on: a
window is summed up once, when the watermark, `--lateness` behind the latest timestamp, has passed its end.

Counts are exact. The state of an open window has an entry for each key and each identity in it: keep windows short for
topics with very many of them. An identity is the fields of `--unique`, or the whole record with its key; records whose
fields are absent have none.

Delivery: each window is in the report once, after restarts too, and so it is in tables and databases. A topic gets the
windows of a repeated batch again, with the same keys and values.

- Retention, or a topic that was created again: unread records that are gone end the job, unless `-X
  failOnDataLoss=false`. New partitions are read from their beginning, and are in the partition skew.
- Records that are later than the lateness are in no window. Without `--checkpoint` none is late.
- A lost checkpoint: the report begins anew; a Parquet or Delta table that has results is refused.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import io
from spark_jobs.errors import JobError
from spark_jobs.files import Folder
from spark_jobs.io import Destination
from spark_jobs.job import Job, adaptive, writer
from spark_jobs.options import StreamOptions, WatermarkOptions, given, interval, option, seconds
from spark_jobs.progress import say
from spark_jobs.quality_report import WindowQuality

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TOP_KEYS = 20
STORED_BATCHES = 1000
TYPE_LENGTH = 200
# Names of Spark's variant types, and JSON's: a field may have 1 in a record and 1.5 in the next.
TYPES = (
    (r"DECIMAL\(\d+,\d+\)|DOUBLE|FLOAT|BIGINT", "number"),
    ("STRING", "string"),
    ("BOOLEAN", "boolean"),
    ("VOID", "null"),
    ("ARRAY<.*>", "array"),
    ("OBJECT", "object"),
)
# Kinds of facts: their name and detail.
RECORD = "record"  # what the value is, one of the next three
OBJECT, NULL, MALFORMED = "object", "null", "malformed"
FIELD = "field"  # the field's name, its type
KEY = "key"  # the key, or null
PARTITION = "partition"  # its number
IDENTITY = "identity"  # a hash
DELAY = "delay"
FACTS = "array<struct<kind:string,name:string,detail:string,number:double>>"


def whole_seconds(text: str) -> str:
    """Return a text that is an interval of days, hours, minutes and seconds."""
    seconds(text)
    return text


@dataclass(frozen=True, kw_only=True)
class QualityOptions(WatermarkOptions, StreamOptions):
    """The windows, what makes a record unique, and the report."""

    report: str = option("the report, an HTML file", metavar="FILE", parse=given)
    to: Destination | None = option(
        f"where the summaries go too: {io.forms()}", default=None, metavar="WHERE", parse=io.destination
    )
    window: str = option(
        "length of a window of record timestamps", default="1 hour", metavar="INTERVAL", parse=whole_seconds
    )
    unique: str = option("JSON fields that identify a record (default: key and value)", default="", metavar="FIELDS")
    time: str = option("JSON field with the event time, for its delay", default="", metavar="FIELD")
    checkpoint: str = option(
        "directory of a query that goes on (default: read what the topics have now, once)", default="", metavar="DIR"
    )


def facts(records: DataFrame, options: QualityOptions) -> DataFrame:
    """Return `topic`, `timestamp`, and a row for each fact of a record: `kind`, `name`, `detail` and `number`."""
    from pyspark.sql import functions as f

    text = f.col("value").cast("string")
    is_object = f.coalesce(f.schema_of_variant(f.try_parse_json(text)).startswith("OBJECT"), f.lit(False))
    shape = f.when(f.col("value").isNull(), NULL).when(is_object, OBJECT).otherwise(MALFORMED)
    size = f.coalesce(f.length("value"), f.lit(0)) + f.coalesce(f.length("key"), f.lit(0))
    members = f.map_entries(f.from_json(text, "map<string,variant>"))
    identity = _identity(options.unique)
    made = [
        _fact(RECORD, shape, number=size),
        _fact(KEY, f.col("key").cast("string")),
        _fact(PARTITION, f.col("partition").cast("string")),
        f.when(identity.isNotNull(), _fact(IDENTITY, identity)),
    ]
    if options.time:
        event = f.get_json_object(text, f"$.{options.time}").try_cast("timestamp")
        delay = (f.unix_millis("timestamp") - f.unix_millis(event)) / 1000
        made.append(f.when(event.isNotNull(), _fact(DELAY, number=delay)))
    fields = f.when(is_object, f.transform(members, lambda one: _fact(FIELD, one["key"], _type(one["value"]))))
    all_facts = f.array_compact(f.concat(f.array(*made), f.coalesce(fields, f.array().cast(FACTS))))
    return records.withWatermark("timestamp", options.lateness).select("topic", "timestamp", f.inline(all_facts))


def counted(rows: DataFrame, options: QualityOptions) -> DataFrame:
    """Return one row per topic, window and fact: how often it was, its numbers' sum and largest, and its times."""
    from pyspark.sql import functions as f

    window = f.window("timestamp", f"{interval('--window', options.window)} seconds")
    return (
        rows.groupBy(window, "topic", "kind", "name", "detail")
        .agg(
            f.count("*").alias("count"),
            f.sum("number").alias("sum"),
            f.max("number").alias("max"),
            f.min("timestamp").alias("oldest"),
            f.max("timestamp").alias("newest"),
        )
        .select(f.col("window.start").alias("start"), f.col("window.end").alias("end"), "*")
        .drop("window")
    )


def summaries(rows: DataFrame) -> DataFrame:
    """Return one row per topic and window of all its counted facts; the columns are the fields of WindowQuality."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    window = Window.partitionBy("topic", "start", "kind").orderBy(f.desc("count"), "name")

    def of(kind: str, column: str | Column, name: str | None = None) -> Column:
        chosen = f.col("kind") == kind
        return f.when(chosen if name is None else chosen & (f.col("name") == name), column)

    def total(kind: str, name: str | None = None) -> Column:
        return f.coalesce(f.sum(of(kind, f.col("count"), name)), f.lit(0))

    top = f.when((f.col("kind") == KEY) & (f.col("rank") <= TOP_KEYS), f.struct("count", "name"))
    return (
        rows.withColumn("rank", f.row_number().over(window))
        .groupBy("topic", "start", "end")
        .agg(
            total(RECORD).alias("records"),
            total(RECORD, NULL).alias("nulls"),
            total(RECORD, MALFORMED).alias("malformed"),
            f.sum(of(RECORD, f.col("sum"))).cast("long").alias("bytes"),
            f.count(of(KEY, f.col("name"))).alias("keys"),
            (
                total(KEY) - f.coalesce(f.sum(f.when(f.col("name").isNotNull(), of(KEY, f.col("count")))), f.lit(0))
            ).alias("null_keys"),
            f.transform(f.sort_array(f.collect_list(top), asc=False), _named).alias("top_keys"),
            f.sort_array(f.collect_list(of(PARTITION, _named(f.struct("name", "count"))))).alias("partitions"),
            total(IDENTITY).alias("identified"),
            f.count(of(IDENTITY, f.col("name"))).alias("identities"),
            f.sort_array(
                f.collect_list(
                    of(FIELD, f.struct("name", f.col("detail").alias("type"), f.col("count").alias("records")))
                )
            ).alias("fields"),
            (f.sum(of(DELAY, f.col("sum"))) / f.sum(of(DELAY, f.col("count")))).alias("mean_delay_s"),
            f.max(of(DELAY, f.col("max"))).alias("longest_delay_s"),
            f.min(of(RECORD, f.col("oldest"))).alias("oldest"),
            f.max(of(RECORD, f.col("newest"))).alias("newest"),
        )
    )


def collected(summed: DataFrame) -> list[WindowQuality]:
    """Return the rows of `summaries`."""
    from pyspark.sql import functions as f

    return [
        WindowQuality.parse(row["value"]) for row in summed.select(f.to_json(f.struct("*")).alias("value")).collect()
    ]


def check(options: QualityOptions) -> None:
    """Raise JobError for options that do not fit together, or a report that cannot be written."""
    io.check_topics(options)
    parent = Path(options.report).absolute().parent
    if not parent.is_dir():
        raise JobError(f"the directory of --report does not exist: {parent}; create it, or correct --report")
    if options.to is not None and not options.checkpoint:
        raise JobError("--to needs --checkpoint, so that a window is written once; without it there is only the report")
    if not options.checkpoint and options.start == "latest":
        raise JobError("--start latest leaves nothing to report on: choose another start, or a --checkpoint")
    if options.to is not None:
        io.check_results(options.to, options)


def start(spark: SparkSession, options: QualityOptions) -> StreamingQuery | None:
    """Write the report and return None, or start the query that goes on writing it."""
    check(options)
    if not options.checkpoint:
        rows = counted(facts(io.read_batch(spark, options), options), options)
        publish(collected(summaries(rows)), options)
        say(f"{JOB.name}: the report is {options.report}")
        return None
    if options.to is not None:
        io.claim_results(spark, options.to, JOB.name, options)
    rows = counted(facts(io.read_stream(spark, options), options), options)

    def write(batch: DataFrame, batch_id: int) -> None:
        with adaptive(batch):
            kept = summaries(batch).persist()
            try:
                if not kept.isEmpty():
                    report(kept, batch_id, options)
            finally:
                kept.unpersist()

    return writer(rows, JOB.name, options, write).start()


def report(summed: DataFrame, batch_id: int, options: QualityOptions) -> None:
    """Write the summaries of a batch to the destination and beside the checkpoint, and the report of all of them."""
    if options.to is not None:
        io.write_batch(_written(summed, options.to), batch_id, options.to, options)
    stored = Folder(summed.sparkSession, f"{options.checkpoint}/summaries")
    stored.write(f"{batch_id:09d}", "\n".join(one.text() for one in collected(summed)))
    for name in stored.names()[:-STORED_BATCHES]:
        stored.delete(name)
    publish(_stored(stored), options)


def publish(windows: list[WindowQuality], options: QualityOptions) -> None:
    """Write the report of windows, in place of the former one."""
    from spark_jobs.quality_page import page

    path = Path(options.report)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(page(windows, now=datetime.now(UTC), unique=options.unique), encoding="utf-8")
    unfinished.replace(path)


def _stored(folder: Folder) -> list[WindowQuality]:
    texts = [folder.read(name) or "" for name in folder.names() if name.isdecimal()]
    return [WindowQuality.parse(line) for text in texts for line in text.splitlines()]


def _written(summed: DataFrame, to: Destination) -> DataFrame:
    """Return summaries as the destination takes them: a topic JSON, a database no arrays."""
    from pyspark.sql import functions as f

    if to.kind == "topic":
        start = f.date_format("start", "yyyy-MM-dd'T'HH:mm:ss'Z'")
        key, value = f.concat_ws("@", "topic", start), f.to_json(f.struct("*"))
        return summed.select(key.cast("binary").alias("key"), value.cast("binary").alias("value"))
    if to.kind == "jdbc":
        return summed.withColumns({name: f.to_json(name) for name in ("top_keys", "partitions", "fields")})
    return summed


def _named(one: Column) -> Column:
    from pyspark.sql import functions as f

    return f.struct(one["name"].alias("name"), one["count"].alias("records"))


def _fact(kind: str, name: Column | None = None, detail: Column | None = None, number: Column | None = None) -> Column:
    from pyspark.sql import functions as f

    nothing = f.lit(None)
    return f.struct(
        f.lit(kind).alias("kind"),
        (nothing if name is None else name).cast("string").alias("name"),
        (nothing if detail is None else detail).cast("string").alias("detail"),
        (nothing if number is None else number).cast("double").alias("number"),
    )


def _identity(fields: str) -> Column:
    """Return a hash of what identifies a record, null if a field of it is absent."""
    from pyspark.sql import functions as f

    names = [name.strip() for name in fields.split(",") if name.strip()]
    if not names:
        return f.xxhash64(f.col("key").isNull(), "key", "value")
    parts = [f.get_json_object(f.col("value").cast("string"), f"$.{name}") for name in names]
    return f.when(f.concat(*parts).isNotNull(), f.xxhash64(*parts))


def _type(value: Column) -> Column:
    """Return the JSON type of a variant, that of an object with its fields."""
    from pyspark.sql import functions as f

    text = f.schema_of_variant(value)
    for pattern, name in TYPES:
        text = f.regexp_replace(text, pattern, name)
    return f.left(text, f.lit(TYPE_LENGTH))


JOB = Job(
    "quality",
    QualityOptions,
    start,
    "Report on the quality of topics: completeness, uniqueness, freshness, key skew and schema drift.",
    "barnabas spark run quality -t orders --unique id --window '1 hour' --report orders.html",
    lambda options: options.to.connectors if options.to is not None else (),
    ("to", "window", "unique", "time", "lateness"),
    check=check,
)

if __name__ == "__main__":
    sys.exit(JOB.main())
