"""Topics as a partitioned Parquet or Delta table that keeps everything of their records; `replay` puts them back.

    records -> archived (all columns of the source, and the date) -> unseen (not in the table yet) -> table

The columns are those of Spark's Kafka source: `key`, `value` (binary, null or empty as they were), `headers` (in their
order, also twice the same key, and null values), `partition`, `offset`, `timestamp`, `timestampType` (0: of the
producer, 1: of the broker), and, as partitions of the table, `topic` and the `date` of the timestamp. The file
`_topics.json` has each topic's id, partitions and configuration.

Delivery: exactly once. A micro-batch and the offsets behind it are one commit of the table (`archive_tables`), and
records below the table's offsets are skipped: neither a repeated batch, nor a lost or an older checkpoint adds a record
twice. After a restart an unfinished batch is written again, unless its commit is in the table.

- Lost checkpoint: the topics are read from --start again, by default from their first record; what the table has is
  skipped.
- Retention: if it deleted unread records the job ends; with `-X failOnDataLoss=false` it goes on behind them.
- A topic that was deleted and created again (another topic id) ends the job before it writes: its offsets begin anew,
  so it needs another directory and checkpoint.
- A topic that gains partitions, and a new topic that --topic-pattern matches, are read from their first record.
- Schema: values are bytes here; whatever their schema is or becomes, they are kept as they are.
- Aborted transactions are left out, unless `-X kafka.isolation.level=read_uncommitted`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs import archive_tables, io
from spark_jobs.archive_tables import ArchiveTable, MergeLimits
from spark_jobs.checkpoint import end_offsets
from spark_jobs.cluster import Cluster, Topic
from spark_jobs.errors import JobError
from spark_jobs.files import Folder
from spark_jobs.io import Destination
from spark_jobs.job import Job, writer
from spark_jobs.options import StreamOptions, duration, not_negative, option, positive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TOPICS = "_topics.json"
MEBIBYTE = 1024 * 1024
CONF = (
    # A task keeps files of so many topics and days open at once; of more, it sorts its records first.
    ("spark.sql.maxConcurrentOutputFileWriters", "8"),
    # Spark's default, INT96, has no statistics, and is deprecated in Parquet.
    ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"),
    # Tasks that read Delta's log; its default of 50 is for tables of millions of files.
    ("spark.databricks.delta.snapshotPartitions", "2"),
)


def table(text: str) -> Destination:
    """Return the destination of `parquet:DIR` or `delta:DIR`; raise ArgumentTypeError for another text."""
    return io.destination(text, tuple(archive_tables.OPEN))


@dataclass(frozen=True, kw_only=True)
class ArchiveOptions(StreamOptions):
    """The table and the sizes of its files."""

    to: Destination = option("the table: parquet:DIR or delta:DIR", metavar="WHERE", parse=table)
    trigger: str = option(
        "start a micro-batch, and write files, so often", default="1 minute", metavar="INTERVAL", parse=duration
    )
    merge_files: int = option(
        "merge the small files of a topic and day when there are so many", default=32, metavar="N", parse=positive
    )
    file_size: int = option(
        "merge into files of about so many MiB; below half of it a file is small",
        default=128,
        metavar="MIB",
        parse=positive,
    )
    keep_merged: int = option(
        "delete files that were merged after so many seconds, for readers that still have them (Parquet)",
        default=3600,
        metavar="SECONDS",
        parse=not_negative,
    )


def archived(records: DataFrame) -> DataFrame:
    """Return the columns of the table."""
    from pyspark.sql import functions as f

    kept = ("key", "value", "headers", "partition", "offset", "timestamp", "timestampType", "topic")
    return records.select(*kept, f.to_date("timestamp").alias("date"))


class Archiver:
    """Appends micro-batches to a table."""

    def __init__(self, table: ArchiveTable, topics: KnownTopics, checkpoint: str) -> None:
        self._table = table
        self._topics = topics
        self._checkpoint = checkpoint
        self._repeated = table.positions()

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Append a micro-batch; JobError if one of its topics was created again."""
        end = end_offsets(batch.sparkSession, self._checkpoint, batch_id)
        self._topics.check(end)
        records = archive_tables.unseen(archived(batch), self._repeated)
        self._table.append(records, end)
        if archive_tables.passed(end, self._repeated):
            self._repeated = {}
        self._table.merge()


class KnownTopics:
    """The topics of an archive, in its file `_topics.json`: id, partitions and configuration of each."""

    def __init__(self, folder: Folder, cluster: Cluster) -> None:
        self._folder = folder
        self._cluster = cluster
        self._known = read_topics(folder)

    def check(self, names: Any) -> None:
        """Record topics that are new or have grown; raise JobError if one is not the topic that the archive has."""
        found = self._cluster.topics(names)
        for name, topic in found.items():
            known = self._known.get(name)
            if known is not None and known.id != topic.id:
                raise JobError(
                    f"the topic {name} was deleted and created again since {self._folder.uri} was begun: archive it to "
                    "another directory, with another --checkpoint"
                )
        changed = [name for name, topic in found.items() if self._partitions(name) < topic.partitions]
        if changed:
            self._known |= self._cluster.topics(changed, config=True)
            text = json.dumps({name: topic._asdict() for name, topic in sorted(self._known.items())}, indent=1)
            self._folder.write(TOPICS, text)

    def check_known(self) -> None:
        """Check the topics that the archive has, as far as they exist."""
        self.check(list(self._known))

    def _partitions(self, name: str) -> int:
        return self._known[name].partitions if name in self._known else 0


def read_topics(folder: Folder) -> dict[str, Topic]:
    """Return the topics of an archive, by name."""
    return {name: Topic(**topic) for name, topic in json.loads(folder.read(TOPICS) or "{}").items()}


def start(spark: SparkSession, options: ArchiveOptions) -> StreamingQuery:
    """Start the query."""
    io.claim_destination(spark, options.to, JOB.name, options.checkpoint)
    folder = Folder(spark, options.to.target)
    topics = KnownTopics(folder, Cluster(spark, io.kafka_options(options)))
    topics.check_known()
    limits = MergeLimits(options.merge_files, options.file_size * MEBIBYTE, options.keep_merged)
    archiver = Archiver(archive_tables.OPEN[options.to.kind](spark, folder, limits), topics, options.checkpoint)
    return writer(io.read_stream(spark, options), JOB.name, options, archiver.write).start()


JOB = Job(
    "archive",
    ArchiveOptions,
    start,
    "Keep all records of topics, with keys, headers, timestamps and offsets, in a Parquet or Delta table.",
    "barnabas spark run archive -t orders --checkpoint /tmp/archive-progress --to parquet:/tmp/archive",
    lambda options: options.to.connectors,
    fixed=("to",),
    conf=CONF,
    check=io.check_topics,
)

if __name__ == "__main__":
    sys.exit(JOB.main())
