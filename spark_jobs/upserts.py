"""Upserts of the newest change of each key into a table.

They are a MERGE in Delta and Iceberg, SQL in a database, and in Parquet, which has no MERGE, a new version.

A change has the table's columns (`_key`, `_kafka_partition`, `_kafka_offset`, `_kafka_timestamp` and the row's) and
`_deleted`. It is stale, and ignored, if the table's row of its key is of a later record: of a higher offset of the
same partition; or, after the topic has gained partitions and the key is in another one, of a later timestamp. So a
batch can be merged twice, and a topic again from its beginning.

A version of a Parquet table is complete when it has the file `_SUCCESS`; the version before it is kept for readers.
Versions are numbered by the table, whatever batches its queries have merged: another checkpoint goes on with its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs import tables
from spark_jobs.files import Folder
from spark_jobs.io import Destination
from spark_jobs.tables import Batch, JdbcTable, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

POSITION = ("_kafka_partition", "_kafka_offset", "_kafka_timestamp")
VIEW = "barnabas_changes"
VERSION = "version="
STALE = (
    "CASE WHEN c._kafka_partition = t._kafka_partition THEN c._kafka_offset < t._kafka_offset "
    "ELSE c._kafka_timestamp < t._kafka_timestamp END"
)
KINDS = ("delta", "iceberg", "jdbc", "parquet")


def newest(changes: DataFrame) -> DataFrame:
    """Return the last change of each key: by offset in a partition, by timestamp among partitions."""
    from pyspark.sql import functions as f

    def last(frame: DataFrame, by: Column, *keys: str) -> DataFrame:
        return frame.groupBy(*keys).agg(f.max_by(f.struct("*"), by).alias("last")).select("last.*")

    of_partitions = last(changes, f.col("_kafka_offset"), "_key", "_kafka_partition")
    return last(of_partitions, f.struct("_kafka_timestamp", "_kafka_partition"), "_key")


def upsert(changes: DataFrame, to: Destination, batch: Batch) -> None:
    """Merge the changes of a micro-batch, one for each key, into the table, which is created if it does not exist."""
    spark = changes.sparkSession
    if to.kind == "parquet":
        _write_version(changes, to.target)
    elif to.kind == "jdbc":
        _merge_in_database(changes, JdbcTable.parse(to.target), batch)
    elif to.kind == "delta":
        if not tables.is_delta(spark, to.target):
            _rows(changes).limit(0).write.format("delta").save(to.target)
        _merge(changes, tables.delta_name(spark, to.target))
    else:
        name = tables.iceberg_name(spark, to.target)
        if not spark.catalog.tableExists(name):
            _rows(changes).limit(0).writeTo(name).using("iceberg").create()
        _merge(changes, name)


def read_version(spark: SparkSession, directory: str) -> DataFrame | None:
    """Return the newest complete version of a Parquet table, None if it has none."""
    version = _newest_version(spark, directory)
    return None if version is None else spark.read.parquet(f"{directory}/{version}")


def empty(spark: SparkSession, to: Destination) -> None:
    """Delete all rows of a table, if it exists."""
    if to.kind == "parquet":
        folder = Folder(spark, to.target)
        for name in folder.names():
            if name.startswith(VERSION):
                folder.delete(name)
    elif to.kind == "jdbc":
        tables.run_if_exists(spark, JdbcTable.parse(to.target), "DELETE FROM {table}")
    elif to.kind == "delta":
        if tables.is_delta(spark, to.target):
            spark.sql(f"DELETE FROM {tables.delta_name(spark, to.target)}")  # noqa: S608 - the user's table
    elif spark.catalog.tableExists(name := tables.iceberg_name(spark, to.target)):
        spark.sql(f"DELETE FROM {name}")  # noqa: S608


def _rows(changes: DataFrame) -> DataFrame:
    return changes.where("NOT _deleted").drop("_deleted")


def _merge(changes: DataFrame, table: str) -> None:
    spark, columns = changes.sparkSession, _rows(changes).columns
    known = spark.table(table).columns
    for field in changes.schema.fields:
        if field.name in columns and field.name not in known:
            spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({quoted(field.name, '`')} {field.dataType.simpleString()})")
    changes.createOrReplaceTempView(VIEW)
    updates = ", ".join(f"t.`{name}` = c.`{name}`" for name in columns)
    names, values = (", ".join(form.format(name) for name in columns) for form in ("`{}`", "c.`{}`"))
    spark.sql(
        f"MERGE INTO {table} t USING {VIEW} c ON t._key = c._key "  # noqa: S608 - the user's table
        f"WHEN MATCHED AND c._deleted AND NOT ({STALE}) THEN DELETE "
        f"WHEN MATCHED AND NOT ({STALE}) THEN UPDATE SET {updates} "
        f"WHEN NOT MATCHED AND NOT c._deleted THEN INSERT ({names}) VALUES ({values})"
    )


def _merge_in_database(changes: DataFrame, table: JdbcTable, batch: Batch) -> None:
    with tables.staged(changes, _rows(changes), table, batch) as (database, staging):
        if staging is None:
            return
        columns = [quoted(name) for name in _rows(changes).columns]
        names, values = ", ".join(columns), ", ".join(f"c.{name}" for name in columns)
        fresh = f'SELECT 1 FROM {staging} c WHERE c."_key" = t."_key" AND NOT ({_for_database(STALE)})'  # noqa: S608
        database.run(f"DELETE FROM {table.name} t WHERE EXISTS ({fresh})")  # noqa: S608
        database.run(
            f'INSERT INTO {table.name} ({names}) SELECT {values} FROM {staging} c WHERE NOT c."_deleted" '  # noqa: S608
            f'AND NOT EXISTS (SELECT 1 FROM {table.name} t WHERE t."_key" = c."_key")'
        )


def _for_database(condition: str) -> str:
    """Return a condition with the names of columns in quotation marks, as Spark creates them."""
    for name in POSITION:
        condition = condition.replace(f".{name}", f".{quoted(name)}")
    return condition


def _write_version(changes: DataFrame, directory: str) -> None:
    from pyspark.sql import functions as f

    spark = changes.sparkSession
    folder = Folder(spark, directory)
    base = _newest_version(spark, directory)
    all_changes = changes
    if base is not None:
        before = spark.read.parquet(f"{directory}/{base}").withColumn("_deleted", f.lit(False))
        all_changes = before.unionByName(changes, allowMissingColumns=True)
    # An incomplete version has this number too, and is replaced.
    written = f"{VERSION}{0 if base is None else int(base.removeprefix(VERSION)) + 1:09d}"
    _rows(newest(all_changes)).write.mode("overwrite").parquet(f"{directory}/{written}")
    for name in folder.names():
        if name.startswith(VERSION) and name not in (base, written):
            folder.delete(name)


def _newest_version(spark: SparkSession, directory: str) -> str | None:
    names = [name for name in Folder(spark, directory).names() if name.startswith(VERSION)]
    complete = (name for name in reversed(names) if "_SUCCESS" in Folder(spark, f"{directory}/{name}").names())
    return next(complete, None)
