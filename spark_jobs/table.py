"""A compacted or change-data topic as a table with the newest row of each key, kept up to date by upserts.

    records -> changes (position, _deleted, columns) -> newest per key of the batch -> upsert (`upserts.py`) -> --to

The record's key is the table's. A null value deletes its row. With `--envelope debezium` the value is Debezium's,
with or without the schema of Connect's converter: the row is `after` where `op` is c, r or u; where it is d, the row
is deleted; other changes (t, m) are ignored. The table has the columns of `--schema`, `_key`, and the position of the
row's record: `_kafka_partition`, `_kafka_offset` and `_kafka_timestamp`. A column that `--schema` gains is added to a
Delta or Iceberg table.

A record without a key, and a value that is no JSON or does not fit the schema, end the job, or are left out with
`--malformed skip`.

Delivery: exactly once in effect: a batch that is repeated is merged with the same result. The job resumes by its
checkpoint; with another checkpoint it merges the topic from its beginning, also into a table that has rows. Rows
whose tombstones compaction removed while the job was away for longer than `delete.retention.ms` stay, until
`--rebuild` empties the table and the checkpoint, and begins anew.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs import io, upserts
from spark_jobs.errors import JobError
from spark_jobs.files import OWNER, Folder, query_id
from spark_jobs.io import Destination
from spark_jobs.job import Job, writer
from spark_jobs.options import StreamOptions, did_you_mean, given, option
from spark_jobs.tables import Batch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

KEPT_OPS = ("c", "r", "u", "d")
# Spark's names of types, also of versions newer than the tested one.
TYPES = (
    *("tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "real", "double"),
    *("decimal", "dec", "numeric", "boolean", "string", "char", "character", "varchar", "binary", "variant", "void"),
    *("date", "time", "timestamp", "timestamp_ltz", "timestamp_ntz", "interval", "array", "map", "struct"),
    *("geometry", "geography"),
)
QUOTED = r"`(?:[^`]|``)+`"
COLUMN = re.compile(rf"\s*(?:{QUOTED}|[^\s:`<>()]+)(?:\s*:\s*|\s+)(\w+)")
PIECE = re.compile(rf"{QUOTED}|'[^']*'|\"[^\"]*\"|.", re.DOTALL)
MALFORMED = "_malformed"


def columns(text: str) -> str:
    """Return a text that declares columns; ArgumentTypeError if one of them has no name or no type of Spark.

    What a type has in brackets is not checked.
    """
    parts, depth = [""], 0
    for piece in PIECE.findall(text):
        depth += (piece in "<(") - (piece in ">)")
        if piece == "," and not depth:
            parts.append("")
        else:
            parts[-1] += piece
    for part in parts:
        found = COLUMN.match(part)
        if found is None:
            raise argparse.ArgumentTypeError(f"{part.strip()!r}: write a name and a type for each column: 'id long'")
        if found[1].lower() not in TYPES:
            raise argparse.ArgumentTypeError(
                f"{part.strip()!r}: Spark has no type {found[1]}{did_you_mean(found[1].lower(), TYPES)}"
            )
    return text


@dataclass(frozen=True, kw_only=True)
class TableOptions(StreamOptions):
    """The table and its columns."""

    topic: tuple[str, ...] = option("the topic to read", "-t", metavar="NAME", parse=given, repeated=True)
    to: Destination = option(
        f"the table: {io.forms(upserts.KINDS)}",
        metavar="WHERE",
        parse=lambda text: io.destination(text, upserts.KINDS),
    )
    schema: str = option("columns of the JSON value, such as 'id long, name string'", metavar="COLUMNS", parse=columns)
    envelope: str = option("form of the value", default="none", choices=("none", "debezium"))
    malformed: str = option("what a malformed record does", default="fail", choices=("fail", "skip"))
    rebuild: bool = option("empty the table and the checkpoint first", default=False)


def changes(records: DataFrame, options: TableOptions) -> DataFrame:
    """Return the changes of records: `_key`, position, `_deleted`, `_malformed` (a reason, or null), and the row."""
    from pyspark.sql import functions as f

    text = f.col("value").cast("string")
    row, deleted, counts = text, text.isNull(), f.lit(True)
    if options.envelope == "debezium":
        envelope = f.coalesce(f.get_json_object(text, "$.payload"), text)
        operation = f.get_json_object(envelope, "$.op")
        row = f.get_json_object(envelope, "$.after")
        deleted = text.isNull() | f.coalesce(operation == "d", f.lit(False))
        counts = deleted | operation.isNull() | operation.isin(*KEPT_OPS)
    parsed = f.from_json(row, f"{options.schema}, {MALFORMED} string", {"columnNameOfCorruptRecord": MALFORMED})
    return (
        records.where(counts)
        .select(
            "key",
            *("partition", "offset", "timestamp"),
            deleted.alias("_deleted"),
            parsed.alias("row"),
            row.alias("text"),
        )
        .select(
            f.col("key").cast("string").alias("_key"),
            *(f.col(name).alias(f"_kafka_{name}") for name in ("partition", "offset", "timestamp")),
            "_deleted",
            _reason(f.col("text")).alias(MALFORMED),
            f.col("row").dropFields(MALFORMED).alias("row"),
        )
        .select("_key", *upserts.POSITION, "_deleted", MALFORMED, "row.*")
    )


def merged(batch: DataFrame, options: TableOptions) -> DataFrame:
    """Return the newest change of each key of a micro-batch.

    Raise JobError for a malformed record, unless such are skipped.
    """
    malformed = batch.where(f"{MALFORMED} IS NOT NULL")
    if options.malformed == "fail" and (first := malformed.first()) is not None:
        raise JobError(
            f"the record at partition {first._kafka_partition}, offset {first._kafka_offset} {first[MALFORMED]}; mend "
            "the topic (`barnabas spark run validate`), or leave such records out by --malformed skip"
        )
    return upserts.newest(batch.where(f"{MALFORMED} IS NULL").drop(MALFORMED))


def check(options: TableOptions) -> None:
    """Raise JobError for options that do not fit together."""
    if len(options.topic) != 1 or options.topic_pattern is not None:
        raise JobError("a table is of one topic: name it by --topic NAME")


def start(spark: SparkSession, options: TableOptions) -> StreamingQuery:
    """Start the query."""
    check(options)
    if options.rebuild:
        _begin_anew(spark, options)
    io.claim_destination(spark, options.to, f"{JOB.name} of {options.topic[0]}", None)
    rows = changes(io.read_stream(spark, options), options)

    def write(batch: DataFrame, batch_id: int) -> None:
        made = Batch(query_id(batch.sparkSession, options.checkpoint), batch_id)
        kept = batch.persist()
        try:
            upserts.upsert(merged(kept, options), options.to, made)
        finally:
            kept.unpersist()

    return writer(rows, JOB.name, options, write).start()


def _reason(text: Column) -> Column:
    """Return why a change cannot be merged, null if it can."""
    from pyspark.sql import functions as f

    return (
        f.when(f.col("key").isNull(), "has no key")
        .when(f.col("_deleted"), None)
        .when(text.isNull() | f.col("row").isNull() | f.col(f"row.{MALFORMED}").isNotNull(), "does not fit --schema")
    )


def _begin_anew(spark: SparkSession, options: TableOptions) -> None:
    upserts.empty(spark, options.to)
    checkpoint = Folder(spark, options.checkpoint)
    for name in checkpoint.names():
        if name != OWNER:
            checkpoint.delete(name)


JOB = Job(
    "table",
    TableOptions,
    start,
    "Keep a table with the newest row of each key of a compacted or change-data topic.",
    "barnabas spark run table -t planes --schema 'seats int' --checkpoint /tmp/progress --to delta:/tmp/planes",
    lambda options: options.to.connectors,
    fixed=("topic", "envelope"),
    anew=lambda options: options.rebuild,
    check=check,
)

if __name__ == "__main__":
    sys.exit(JOB.main())
