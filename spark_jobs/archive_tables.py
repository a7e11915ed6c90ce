"""The tables of the job `archive`: Delta tables, and Parquet files with a list.

A table appends the records of a micro-batch in one commit, together with the offsets behind them, and merges small
files while others read.

`DeltaArchive` is a Delta table: its log has both. `ParquetArchive` is a directory of Parquet files with a list of them:

    topic=NAME/date=YYYY-MM-DD/*.parquet   the records
    _spark_metadata/N.compact              version N: its files, positions, and files that it no longer has
    _staging/                              files of a version that is not complete

The list has the form of Spark's own file sink: Spark reads a directory with `_spark_metadata` by the newest list, so
that its readers see the files of one version. A version is complete when its list appears, which is one rename. Files
that a version no longer has are deleted after `keep_s`, when readers of the former version have ended. Whatever a
killed job left is removed when the table is opened. A table has one writer: of two, the second to rename fails.

Positions are the offsets behind the last records of the table, by topic and partition. A record below its partition's
position is in the table already, whatever the checkpoint of a query says.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import quote, unquote

from spark_jobs.checkpoint import Offsets
from spark_jobs.errors import JobError
from spark_jobs.files import Folder
from spark_jobs.tables import delta_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LAYOUT = ("topic", "date")
RECORD = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, partition int, offset long, "
    "timestamp timestamp, timestampType int"
)
LISTS = "_spark_metadata"
FIRST_LINE = "v1"
EXTRA = "barnabas"
STAGING = "_staging"
# A reader that found the newest version reads it a moment later: by then there may be a few newer ones.
KEPT_VERSIONS = 10
BLOCK_BYTES = 32 * 1024 * 1024
WRITER = "barnabas archive"


class MergeLimits(NamedTuple):
    """When small files are merged: at `number` of them in a folder, into files of about `file_bytes`.

    A file is small below half of that. Files that were merged are kept for `keep_s`.
    """

    number: int
    file_bytes: int
    keep_s: float


class ArchiveTable(Protocol):
    """Records, and the positions up to which they are in the table."""

    def positions(self) -> Offsets:
        """Return the positions, empty if the table has no records."""

    def append(self, records: DataFrame, positions: Offsets) -> None:
        """Add records with the columns of `RECORD`, `topic` and `date`, and set the positions, both or none."""

    def merge(self) -> None:
        """Merge small files."""


class DataFile(NamedTuple):
    """A data file: its path in the table's directory, its length in bytes, and when it was written."""

    path: str
    size: int
    modified_ms: int

    @property
    def folder(self) -> str:
        """The folder: topic and date."""
        return self.path.rpartition("/")[0]


class Version(NamedTuple):
    """A version of a Parquet table.

    `removed` has the files that are to be deleted, each with the time, in seconds, since when no version has it.
    """

    number: int
    files: tuple[DataFile, ...]
    positions: Offsets
    removed: tuple[tuple[str, float], ...]

    def next(
        self, added: Iterable[DataFile], positions: Offsets, without: Iterable[DataFile] = (), now: float = 0.0
    ) -> Version:
        """Return the next version."""
        gone = set(without)
        kept = (file for file in self.files if file not in gone)
        removed = (*self.removed, *((file.path, now) for file in sorted(gone)))
        return Version(self.number + 1, (*kept, *added), positions, removed)


EMPTY = Version(-1, (), {}, ())


def to_merge(files: Iterable[DataFile], limits: MergeLimits) -> list[list[DataFile]]:
    """Return groups of small files to merge, each of one folder; small files are merged when there are enough."""
    folders: dict[str, list[DataFile]] = {}
    for file in files:
        if 2 * file.size < limits.file_bytes:
            folders.setdefault(file.folder, []).append(file)
    return [small for _, small in sorted(folders.items()) if len(small) >= max(2, limits.number)]


def total(positions: Offsets) -> int:
    """Return the sum of all positions, which grows with each batch that has records."""
    return sum(sum(partitions.values()) for partitions in positions.values())


def joined(older: Offsets, newer: Offsets) -> dict[str, dict[str, int]]:
    """Return the positions of both, the larger one where both have a partition."""
    found = {topic: dict(partitions) for topic, partitions in older.items()}
    for topic, partitions in newer.items():
        known = found.setdefault(topic, {})
        for partition, offset in partitions.items():
            known[partition] = max(offset, known.get(partition, 0))
    return found


def version_text(version: Version, directory: str) -> str:
    """Return the list of a version that has files, as Spark reads it (Spark: `FileStreamSinkLog`, version 1).

    The first file has a field more, which Spark ignores: the positions and the removed files.
    """
    lines: list[dict[str, Any]] = [
        {
            "path": quote(f"{directory}/{file.path}", safe="/:=+@,!$&'()*;~"),
            "size": file.size,
            "isDir": False,
            "modificationTime": file.modified_ms,
            "blockReplication": 1,
            "blockSize": BLOCK_BYTES,
            "action": "add",
        }
        for file in version.files
    ]
    lines[0][EXTRA] = {"positions": version.positions, "removed": version.removed}
    return "\n".join([FIRST_LINE, *map(json.dumps, lines)])


def parse_version(number: int, text: str) -> Version:
    """Return the version of a list, wherever its directory was when it was written."""
    lines = [json.loads(line) for line in text.splitlines()[1:]]
    files = tuple(
        DataFile("/".join(unquote(line["path"]).split("/")[-3:]), line["size"], line["modificationTime"])
        for line in lines
    )
    extra = lines[0][EXTRA]
    return Version(number, files, extra["positions"], tuple((path, since) for path, since in extra["removed"]))


class ParquetArchive:
    """A directory of Parquet files with versions."""

    def __init__(self, spark: SparkSession, folder: Folder, limits: MergeLimits) -> None:
        self._spark = spark
        self._folder = folder
        self._limits = limits
        self._version = newest_version(folder)
        self._remove_leftovers()

    def positions(self) -> Offsets:
        """Return the positions."""
        return self._version.positions

    def append(self, records: DataFrame, positions: Offsets) -> None:
        """Add records."""
        added = self._write(records)
        if added:
            self._commit(self._version.next(added, joined(self._version.positions, positions)))

    def merge(self) -> None:
        """Merge the small files of each folder that has too many, a version for each; delete what was merged before."""
        groups = to_merge(self._version.files, self._limits)
        for small in groups:
            merged = self._write(self._sorted(small))
            self._commit(self._version.next(merged, self._version.positions, small, time.time()))
        if groups:
            self._delete_removed()

    def _sorted(self, small: list[DataFile]) -> DataFrame:
        from pyspark.sql import functions as f

        topic, date = (part.partition("=")[2] for part in small[0].folder.split("/"))
        number = max(1, round(sum(file.size for file in small) / self._limits.file_bytes))
        paths = [f"{self._folder.uri}/{file.path}" for file in small]
        records = self._spark.read.schema(RECORD).parquet(*paths)
        ranges = records.coalesce(1) if number == 1 else records.repartitionByRange(number, "partition", "offset")
        ordered = ranges.sortWithinPartitions("partition", "offset")
        return ordered.withColumns({"topic": f.lit(topic), "date": f.lit(date)})

    def _write(self, records: DataFrame) -> list[DataFile]:
        """Write records to files of no version yet, and return these."""
        staging = f"{STAGING}/{uuid.uuid4().hex}"
        records.write.partitionBy(*LAYOUT).parquet(f"{self._folder.uri}/{staging}")
        written = self._folder.matching(f"{staging}/topic=*/date=*/*.parquet")
        added = [DataFile(path.removeprefix(f"{staging}/"), size, modified_ms) for path, size, modified_ms in written]
        for file in added:
            self._folder.move(f"{staging}/{file.path}", file.path)
        self._folder.delete(staging)
        return added

    def _commit(self, version: Version) -> None:
        try:
            self._folder.create(f"{LISTS}/{version.number}.compact", version_text(version, self._folder.uri))
        except FileExistsError:
            raise JobError(
                f"another run of the job writes {self._folder.uri}: end it, then start this one again"
            ) from None
        self._version = version
        self._folder.delete(f"{LISTS}/{version.number - KEPT_VERSIONS}.compact")

    def _delete_removed(self) -> None:
        due = time.time() - self._limits.keep_s
        present = {file.path for file in self._version.files}
        kept = []
        for path, since in self._version.removed:
            if path in present or since > due:
                kept.append((path, since))
            else:
                self._folder.delete(path)
        # The shorter list is written with the next version; until then the deletions may be repeated.
        self._version = self._version._replace(removed=tuple(kept))

    def _remove_leftovers(self) -> None:
        """Remove the files of versions that were not completed, and write the list anew in a directory that moved."""
        self._folder.delete(STAGING)
        version = self._version
        known = {file.path for file in version.files} | {path for path, _ in version.removed}
        for path, _, _ in self._folder.matching("topic=*/date=*/*.parquet"):
            if path not in known:
                self._folder.delete(path)
        self._delete_removed()
        if version.files and not is_of(self._folder, version):
            self._commit(version._replace(number=version.number + 1))


def newest_version(folder: Folder) -> Version:
    """Return the newest version of a directory, an empty one if there is none."""
    lists = (re.fullmatch(rf"{LISTS}/(\d+)\.compact", path) for path, _, _ in folder.matching(f"{LISTS}/*.compact"))
    newest = max((int(found[1]) for found in lists if found), default=-1)
    text = folder.read(f"{LISTS}/{newest}.compact") if newest >= 0 else None
    return EMPTY if text is None else parse_version(newest, text)


def is_of(folder: Folder, version: Version) -> bool:
    """Return whether a version's list names files in the directory, which may have moved since."""
    written, expected = folder.read(f"{LISTS}/{version.number}.compact") or "", version_text(version, folder.uri)
    return written.splitlines()[1:2] == expected.splitlines()[1:2]


class DeltaArchive:
    """A Delta table, whose small files Delta's automatic compaction merges after a commit.

    Each append carries the transaction (`WRITER`, sum of the positions): Delta skips an append whose number the table
    has already, also if two jobs append at once.
    """

    def __init__(self, spark: SparkSession, folder: Folder, limits: MergeLimits) -> None:
        self._spark = spark
        self._folder = folder
        self._limits = limits
        self._positions = positions(spark, folder)

    def positions(self) -> Offsets:
        """Return the positions."""
        return self._positions

    def append(self, records: DataFrame, positions: Offsets) -> None:
        """Add records."""
        reached = joined(self._positions, positions)
        session = records.sparkSession
        limits = {"enabled": "true", "minNumFiles": self._limits.number, "maxFileSize": self._limits.file_bytes}
        for key, value in limits.items():
            session.conf.set(f"spark.databricks.delta.autoCompact.{key}", str(value))
        written = records.write.format("delta").mode("append").partitionBy(*LAYOUT)
        once: dict[str, str | int] = {"txnAppId": WRITER, "txnVersion": total(reached)}
        about = json.dumps({"positions": reached})
        written.options(**once).option("userMetadata", about).save(self._folder.uri)
        self._positions = reached

    def merge(self) -> None:
        """Do nothing: Delta merges small files with each append."""


OPEN: Mapping[str, Callable[[SparkSession, Folder, MergeLimits], ArchiveTable]] = {
    "parquet": ParquetArchive,
    "delta": DeltaArchive,
}
"""The tables, by the kind of destination."""


def positions(spark: SparkSession, folder: Folder) -> Offsets:
    """Return the positions of an archive, empty if the directory has none."""
    if not has_delta(folder):
        return newest_version(folder).positions
    if not any(name.endswith(".json") for name in Folder(spark, f"{folder.uri}/_delta_log").names()):
        return {}
    return _of_history(spark, folder) or _of_records(spark, folder)


def _of_history(spark: SparkSession, folder: Folder) -> Offsets:
    """Return the positions of the newest append in a Delta table's history, which is kept for 30 days."""
    history = spark.sql(f"DESCRIBE HISTORY {delta_name(spark, folder.uri)}")
    appended = history.where("userMetadata LIKE '{\"positions\"%'").orderBy("version", ascending=False).limit(1)
    found: Offsets = next((json.loads(row.userMetadata)["positions"] for row in appended.collect()), {})
    return found


def _of_records(spark: SparkSession, folder: Folder) -> Offsets:
    from pyspark.sql import functions as f

    records = spark.read.format("delta").load(folder.uri)
    found: dict[str, dict[str, int]] = {}
    for row in records.groupBy("topic", "partition").agg(f.max("offset").alias("last")).collect():
        found.setdefault(row.topic, {})[str(row.partition)] = row.last + 1
    return found


def unseen(records: DataFrame, positions: Offsets) -> DataFrame:
    """Return the records that are not below their partition's position."""
    from pyspark.sql import functions as f

    rows = [
        (topic, int(partition), offset)
        for topic, partitions in positions.items()
        for partition, offset in partitions.items()
    ]
    if not rows:
        return records
    reached = records.sparkSession.createDataFrame(rows, "_topic string, _partition int, _reached long")
    same: Column = (f.col("topic") == f.col("_topic")) & (f.col("partition") == f.col("_partition"))
    matched = records.join(f.broadcast(reached), same, "left")
    return matched.where("_reached IS NULL OR offset >= _reached").drop("_topic", "_partition", "_reached")


def passed(end: Offsets, positions: Offsets) -> bool:
    """Return whether a batch that ends at `end` is behind all positions: what follows is not below them."""
    return all(
        end.get(topic, {}).get(partition, 0) >= offset
        for topic, partitions in positions.items()
        for partition, offset in partitions.items()
    )


def has_delta(folder: Folder) -> bool:
    """Return whether a directory has a Delta table, or the beginning of one."""
    return "_delta_log" in folder.names()


def read(spark: SparkSession, folder: Folder) -> DataFrame | None:
    """Return the records of an archive, of one version; None if the directory has none."""
    if has_delta(folder):
        return spark.read.format("delta").load(folder.uri)
    version = newest_version(folder)
    if not version.files:
        return None
    paths = [f"{folder.uri}/{file.path}" for file in version.files]
    located = spark.read.option("basePath", folder.uri).schema(f"{RECORD}, topic string, date date")
    return located.parquet(*paths)
