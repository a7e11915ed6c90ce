"""The newest record of each key of a compacted topic as a DataFrame, which is refreshed while a job runs.

A refresh reads only the records since the one before. A tombstone removes its key. The rows are kept by the executors
(`localCheckpoint`), so that a refresh does not read the topic again; after the loss of an executor the job fails, and
its next start reads the topic from the beginning.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from spark_jobs import io
from spark_jobs.cluster import EARLIEST, Cluster
from spark_jobs.errors import JobError
from spark_jobs.options import KafkaOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("key", "value", "partition", "offset", "timestamp")


class TopicTable:
    """A topic as a table: `rows` returns COLUMNS of the newest record of each key that has a value."""

    def __init__(
        self,
        spark: SparkSession,
        options: KafkaOptions,
        topic: str,
        refresh_s: float,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark = spark
        self._options = options
        self._cluster = Cluster(spark, io.kafka_options(options))
        self._topic = topic
        self._refresh_s = refresh_s
        self._clock_s = clock_s
        self._refreshed_s: float | None = None
        self._next: dict[int, int] = {}
        self._newest: DataFrame | None = None
        self.count = 0

    def rows(self) -> DataFrame:
        """Return the rows as of the last refresh, which is at most `refresh_s` ago."""
        now_s = self._clock_s()
        if self._newest is None or self._refreshed_s is None or now_s - self._refreshed_s >= self._refresh_s:
            self._newest = self._refreshed(self._newest)
            self._refreshed_s = now_s
        return self._newest.where("value IS NOT NULL")

    def _refreshed(self, before: DataFrame | None) -> DataFrame:
        kafka = io.kafka_options(self._options)
        described = self._cluster.topics([self._topic]).get(self._topic)
        if described is None:
            raise JobError(f"the topic {self._topic} of the table does not exist: create it, or correct its name")
        start = {str(partition): self._next.get(partition, EARLIEST) for partition in range(described.partitions)}
        # Records that compaction or retention has removed since then need not be read.
        options = {**io.SOURCE, **kafka, "startingOffsets": json.dumps({self._topic: start}), "failOnDataLoss": "false"}
        source = self._spark.read.format("kafka").options(**options).option("subscribe", self._topic)
        added = source.load().select(*COLUMNS).localCheckpoint()
        ends = added.groupBy("partition").max("offset").collect()
        if not ends and before is not None:
            return before
        self._next.update({partition: offset + 1 for partition, offset in ends})
        made = newest(added if before is None else before.unionByName(added)).localCheckpoint()
        self.count = made.where("value IS NOT NULL").count()
        return made


def newest(records: DataFrame) -> DataFrame:
    """Return the last record of each key; the records of a key are in one partition."""
    from pyspark.sql import functions as f

    last = f.max_by(f.struct("*"), f.struct("offset", "partition"))
    return records.groupBy("key").agg(last.alias("last")).select("last.*")
