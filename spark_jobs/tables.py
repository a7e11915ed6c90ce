"""Tables that results are written to: Parquet, Delta, Iceberg, and JDBC; each has a micro-batch once.

A batch that is written again after a failure

- replaces its former rows in Parquet, where each batch has a directory;
- is skipped by Delta, which keeps the last batch of each query in its log (`txnAppId` and `txnVersion`);
- is skipped by Iceberg, if a snapshot names it in its summary;
- is skipped by a database, whose table `barnabas_batches` has the last batch of each query and table, written in
  the same transaction as the rows. The rows are first written to a table of their own, which Spark does in parallel.

An Iceberg table is named by its directory, in a Hadoop catalog, or as CATALOG.NAMESPACE.TABLE of a catalog of the
session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs.files import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUMMARY = "barnabas-batch"
LEDGER = "barnabas_batches"
DRIVERS = {"postgresql": "org.postgresql.Driver"}


class Batch(NamedTuple):
    """A micro-batch: the id of its query and its number."""

    query: str
    number: int


class JdbcTable(NamedTuple):
    """A table of a database: the URL of the connection, and the name, with its schema if it has one."""

    url: str
    name: str

    @classmethod
    def parse(cls, target: str) -> JdbcTable:
        """Return the table of `SUBPROTOCOL:...#TABLE`; ValueError without a table."""
        url, _, name = target.rpartition("#")
        if not (url and name):
            raise ValueError(f"jdbc:{target}: write jdbc:postgresql://HOST/DATABASE?user=USER#TABLE")
        return cls(f"jdbc:{url}", name)

    @property
    def product(self) -> str:
        """The subprotocol, such as postgresql."""
        return self.url.split(":")[1]


def write_parquet(rows: DataFrame, directory: str, batch: int) -> None:
    """Write a batch to its own directory, in place of its former rows."""
    rows.write.mode("overwrite").parquet(f"{directory}/batch={batch:09d}")


def write_delta(rows: DataFrame, directory: str, batch: Batch) -> None:
    """Append a batch to a Delta table, unless it has the batch."""
    once: dict[str, str | int] = {"txnAppId": batch.query, "txnVersion": batch.number}
    rows.write.format("delta").mode("append").options(**once).save(directory)


def write_iceberg(rows: DataFrame, target: str, batch: Batch) -> None:
    """Append a batch to an Iceberg table, which is created if it does not exist, unless it has the batch."""
    spark = rows.sparkSession
    name = iceberg_name(spark, target)
    if not spark.catalog.tableExists(name):
        rows.limit(0).writeTo(name).using("iceberg").create()
    if not has_snapshot(spark, name, batch):
        rows.writeTo(name).option(f"snapshot-property.{SUMMARY}", snapshot_mark(batch)).append()


def write_jdbc(rows: DataFrame, table: JdbcTable, batch: Batch) -> None:
    """Append a batch to a database's table, which is created if it does not exist, unless it has the batch."""
    with staged(rows, rows, table, batch) as (database, staging):
        if staging is not None:
            columns = ", ".join(quoted(name) for name in rows.columns)
            database.run(f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM {staging}")  # noqa: S608


def is_delta(spark: SparkSession, directory: str) -> bool:
    """Return whether a directory has a Delta table."""
    jvm: Any = spark._jvm
    return bool(jvm.io.delta.tables.DeltaTable.isDeltaTable(directory))


def delta_name(spark: SparkSession, directory: str) -> str:
    """Return the name in SQL of a Delta table, which must have an absolute path there."""
    return f"delta.{quoted(Folder(spark, directory).uri, '`')}"


def iceberg_name(spark: SparkSession, target: str) -> str:
    """Return the name in SQL of an Iceberg table; the catalog of a directory's parent is defined."""
    if "/" not in target:
        return target
    warehouse, _, name = (target if "://" in target else os.path.abspath(target)).rstrip("/").rpartition("/")
    catalog = "barnabas_" + "".join(letter if letter.isalnum() else "_" for letter in warehouse)
    # Without its cache, in which a session would not see what others, and the streams of its own, have written.
    settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".cache-enabled": "false"}
    for key, value in {**settings, ".warehouse": warehouse}.items():
        spark.conf.set(f"spark.sql.catalog.{catalog}{key}", value)
    return f"{catalog}.{quoted(name, '`')}"


def has_snapshot(spark: SparkSession, name: str, batch: Batch) -> bool:
    """Return whether an Iceberg table has a snapshot with a batch."""
    mark = snapshot_mark(batch)
    return not spark.table(f"{name}.snapshots").where(f"summary['{SUMMARY}'] = '{mark}'").isEmpty()


def snapshot_mark(batch: Batch) -> str:
    """Return the value of SUMMARY in the summary of the snapshot with a batch."""
    return f"{batch.query}:{batch.number}"


@contextmanager
def staged(
    rows: DataFrame, columns_of: DataFrame, table: JdbcTable, batch: Batch
) -> Iterator[tuple[Database, str | None]]:
    """Yield a transaction and the name of a table with the rows, None if the database has the batch already.

    The table of the results is created, with the columns of `columns_of`, if it does not exist. The batch is recorded
    in the transaction, which is committed at the end of the block.
    """
    staging = f"{table.name}_batch"
    database = Database(rows.sparkSession, table)
    try:
        database.run(f"CREATE TABLE IF NOT EXISTS {LEDGER} (writer VARCHAR(255) PRIMARY KEY, batch BIGINT NOT NULL)")
        database.commit()
        writer = f"'{batch.query}/{table.name}'"
        [[last]] = database.rows(f"SELECT MAX(batch) FROM {LEDGER} WHERE writer = {writer}")  # noqa: S608
        if last is not None and int(last) >= batch.number:
            yield database, None
            return
        options = {"url": table.url, **({"driver": driver} if (driver := DRIVERS.get(table.product)) else {})}
        rows.write.format("jdbc").options(**options, dbtable=staging).mode("overwrite").save()
        columns_of.limit(0).write.format("jdbc").options(**options, dbtable=table.name).mode("append").save()
        yield database, staging
        database.run(f"DELETE FROM {LEDGER} WHERE writer = {writer}")  # noqa: S608
        database.run(f"INSERT INTO {LEDGER} VALUES ({writer}, {batch.number})")  # noqa: S608
        database.run(f"DROP TABLE {staging}")
        database.commit()
    finally:
        database.close()


def run_if_exists(spark: SparkSession, table: JdbcTable, statement: str) -> None:
    """Run a statement with `{table}` in a transaction of its own, if the table exists."""
    database = Database(spark, table)
    try:
        if database.has(table.name):
            database.run(statement.format(table=table.name))
            database.commit()
    finally:
        database.close()


class Database:
    """A connection of the driver's JVM to a database; statements are in a transaction until `commit`."""

    def __init__(self, spark: SparkSession, table: JdbcTable) -> None:
        jvm: Any = spark._jvm
        if driver := DRIVERS.get(table.product):
            jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry.register(driver)
        self._connection: Any = jvm.java.sql.DriverManager.getConnection(table.url)
        self._connection.setAutoCommit(False)

    def run(self, statement: str) -> None:
        """Run a statement without a result."""
        with self._statement() as made:
            made.execute(statement)

    def rows(self, query: str) -> list[Sequence[Any]]:
        """Return the rows of a query, their values as text or None."""
        with self._statement() as made:
            found = made.executeQuery(query)
            width = found.getMetaData().getColumnCount()
            rows: list[Sequence[Any]] = []
            while found.next():
                rows.append([found.getString(at + 1) for at in range(width)])
            return rows

    def has(self, name: str) -> bool:
        """Return whether a table can be read; if it cannot, the transaction is undone."""
        try:
            self.rows(f"SELECT 1 FROM {name} WHERE 1 = 0")  # noqa: S608
        except Exception:
            self._connection.rollback()
            return False
        return True

    def commit(self) -> None:
        """Commit the transaction."""
        self._connection.commit()

    def close(self) -> None:
        """Close the connection; what is not committed is undone."""
        self._connection.rollback()
        self._connection.close()

    @contextmanager
    def _statement(self) -> Iterator[Any]:
        statement = self._connection.createStatement()
        try:
            yield statement
        finally:
            statement.close()


def quoted(name: str, mark: str = '"') -> str:
    """Return an identifier in quotation marks."""
    return mark + name.replace(mark, 2 * mark) + mark
