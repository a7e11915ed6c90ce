"""A compacted or change-data topic as a table with the newest row of each key, kept up to date by upserts.

    records -> changes (key, deleted, offset, JSON) -> newest per key of the batch -> MERGE

A null value deletes its key. With `--envelope debezium` the value is Debezium's: the row is its `after`, and an `op` of
"d" deletes. The table is Delta's; it has the columns of `--schema`, and `_key`, `_partition` and `_offset`, by which a
change that is older than the table's row is ignored.

Delivery: exactly once in effect. A batch that is repeated merges the same rows again. The table can be rebuilt by
another checkpoint and directory. Keys that the topic no longer has, because compaction removed their tombstones while
the job was away for longer than `delete.retention.ms`, stay in the table until it is rebuilt.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs import io, tables
from spark_jobs.job import Job, writer
from spark_jobs.options import StreamOptions, option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POSITION = ("_partition", "_offset")
CHANGES = "barnabas_changes"


@dataclass(frozen=True, kw_only=True)
class TableOptions(StreamOptions):
    """The table and its columns."""

    table: str = option("directory of the Delta table", metavar="DIR")
    schema: str = option("columns of the JSON value, such as 'id long, name string'", metavar="COLUMNS")
    envelope: str = option("form of the value", default="none", choices=("none", "debezium"))


def changes(records: DataFrame, options: TableOptions) -> DataFrame:
    """Return `_key`, `_partition`, `_offset`, `_deleted`, and the row as `row`, of records; a malformed row is null."""
    from pyspark.sql import functions as f

    text = f.col("value").cast("string")
    if options.envelope == "debezium":
        # With the schema of Connect's converter the envelope is in `payload`.
        envelope = f.coalesce(f.get_json_object(text, "$.payload"), text)
        row, deletes = f.get_json_object(envelope, "$.after"), f.get_json_object(envelope, "$.op") == "d"
        deleted = text.isNull() | f.coalesce(deletes, f.lit(False))
    else:
        row, deleted = text, text.isNull()
    return records.select(
        f.col("key").cast("string").alias("_key"),
        f.col("partition").alias("_partition"),
        f.col("offset").alias("_offset"),
        deleted.alias("_deleted"),
        f.from_json(row, options.schema).alias("row"),
    )


def newest(rows: DataFrame) -> DataFrame:
    """Return the last change of each key, which are all in one partition of the topic."""
    from pyspark.sql import functions as f

    return rows.groupBy("_key").agg(f.max_by(f.struct("*"), "_offset").alias("last")).select("last.*")


def upsert(batch: DataFrame, options: TableOptions) -> None:
    """Merge a micro-batch into the table, which is created if it is not there."""
    latest = newest(batch).select("_key", *POSITION, "_deleted", "row.*")
    columns = [name for name in latest.columns if name != "_deleted"]
    spark = batch.sparkSession
    if not tables.is_delta(spark, options.table):
        latest.select(*columns).limit(0).write.format("delta").save(options.table)
    latest.createOrReplaceTempView(CHANGES)
    updates = ", ".join(f"t.`{name}` = c.`{name}`" for name in columns)
    names, values = (", ".join(form.format(name) for name in columns) for form in ("`{}`", "c.`{}`"))
    spark.sql(
        f"MERGE INTO delta.`{options.table}` t USING {CHANGES} c ON t._key = c._key "  # noqa: S608 - the user's table
        "WHEN MATCHED AND c._offset < t._offset THEN UPDATE SET t._key = t._key "
        "WHEN MATCHED AND c._deleted THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {updates} "
        f"WHEN NOT MATCHED AND NOT c._deleted THEN INSERT ({names}) VALUES ({values})"
    )


def start(spark: SparkSession, options: TableOptions) -> StreamingQuery:
    """Start the query."""
    rows = changes(io.read_stream(spark, options), options)
    return writer(rows, JOB.name, options, lambda batch, _: upsert(batch, options)).start()


JOB = Job(
    "table",
    TableOptions,
    start,
    "Keep a Delta table with the newest row of each key of a compacted or change-data topic.",
    "barnabas spark run table -t planes --schema 'tailnum string, seats int' --checkpoint /tmp/c --table /tmp/planes",
    lambda _: ("delta",),
)

if __name__ == "__main__":
    sys.exit(JOB.main())
