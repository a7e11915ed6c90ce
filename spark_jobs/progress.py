"""The progress of a streaming query: as a consumer group for every tool that shows lag, and as lines in the terminal.

After each micro-batch the offsets that the query has processed are committed to a group without members, by the Kafka
client of Spark's own connector, with the connection options of the source. If several queries of a session read a
partition, the group has the lowest of their offsets. The group is never read: Spark continues from its checkpoint. A
commit that fails is reported once, and tried again with the next batch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_jobs.checkpoint import Offsets
from spark_jobs.cluster import Cluster
from spark_jobs.errors import first_line
from spark_jobs.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )


NO_TIME = "1970-01-01T00:00:00.000Z"


class ProgressListener(StreamingQueryListener):
    """Commits the processed offsets of every query of a session to a group, and prints a line for each batch."""

    def __init__(self, spark: SparkSession, group: str | None, options: Mapping[str, str], *, lines: bool) -> None:
        self._group = GroupOffsets(spark, group, options) if group else None
        self._lines = lines
        self._failing = False
        self._of_queries: dict[str, Offsets] = {}
        self._without_times: set[str] = set()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: there is no progress yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Publish the progress of a batch."""
        progress = event.progress
        if self._group is not None:
            self._of_queries[str(progress.id)] = processed_offsets(progress)
            self._commit(self._group, lowest(self._of_queries.values()))
        if self._lines and progress.numInputRows:
            say(progress_line(progress))
        if without_times(progress) and str(progress.id) not in self._without_times:
            self._without_times.add(str(progress.id))
            say(f"batch {progress.batchId}: no record has an event time, so there are no results of it; correct --time")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: the offsets are those of the last batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: the group keeps its offsets."""

    def _commit(self, group: GroupOffsets, offsets: Offsets) -> None:
        try:
            group.commit(offsets)
        except Exception as error:  # the query goes on: its own progress is in its checkpoint
            if not self._failing:
                say(f"the group {group.name} does not show the progress: {first_line(error)}")
            self._failing = True
        else:
            self._failing = False


class GroupOffsets:
    """The committed offsets of a group without members; `options` are those of Spark's Kafka source."""

    def __init__(self, spark: SparkSession, name: str, options: Mapping[str, str]) -> None:
        self.name = name
        self._cluster = Cluster(spark, options)
        self._committed: dict[tuple[str, int], int] = {}

    def commit(self, offsets: Offsets) -> None:
        """Commit the offsets that have changed; Py4JError with Kafka's exception if the coordinator does not answer."""
        positions = {(topic, int(index)): at for topic, parts in offsets.items() for index, at in parts.items()}
        changed = {key: at for key, at in positions.items() if self._committed.get(key) != at}
        if changed:
            self._cluster.commit(self.name, changed)
            self._committed.update(changed)


def processed_offsets(progress: StreamingQueryProgress) -> Offsets:
    """Return the offsets behind the last processed records of all Kafka sources; the lowest if several read one."""
    return lowest(_kafka_offsets(progress, "endOffset"))


def without_times(progress: StreamingQueryProgress) -> bool:
    """Return whether a batch has records, but none of them an event time: Spark takes an absent one for 1970."""
    return progress.numInputRows > 0 and progress.eventTime.get("max") == NO_TIME


def lowest(several: Iterable[Offsets]) -> Offsets:
    """Return the lowest offset of each partition."""
    found: dict[str, dict[str, int]] = {}
    for offsets in several:
        for topic, partitions in offsets.items():
            known = found.setdefault(topic, {})
            for partition, offset in partitions.items():
                known[partition] = min(offset, known.get(partition, offset))
    return found


def lag(progress: StreamingQueryProgress) -> int:
    """Return the number of offsets between the query and the ends of its topics when the batch was planned."""
    ends = _kafka_offsets(progress, "latestOffset")
    return sum(
        max(0, end - processed.get(topic, {}).get(partition, end))
        for topics, processed in zip(ends, _kafka_offsets(progress, "endOffset"), strict=True)
        for topic, partitions in topics.items()
        for partition, end in partitions.items()
    )


def progress_line(progress: StreamingQueryProgress) -> str:
    """Return a line with the batch's records, rate and lag, and the watermark and state if there are any."""
    rate = f"{progress.processedRowsPerSecond:,.0f}" if progress.processedRowsPerSecond else "-"
    parts = [
        f"batch {progress.batchId}: {counted(progress.numInputRows, 'record')}",
        f"{rate} records/s",
        f"lag {lag(progress):,}",
    ]
    if watermark := progress.eventTime.get("watermark"):
        parts.append(f"watermark {watermark}")
    if progress.stateOperators:
        rows = sum(operator.numRowsTotal for operator in progress.stateOperators)
        megabytes = sum(operator.memoryUsedBytes for operator in progress.stateOperators) / 1e6
        parts.append(f"state {counted(rows, 'row')}, {megabytes:,.1f} MB")
        if late := sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators):
            parts.append(f"{counted(late, 'row')} dropped as late")
    return ", ".join(parts)


def say(text: str) -> None:
    """Print a line to standard error: standard output is for results."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _kafka_offsets(progress: StreamingQueryProgress, field: str) -> list[Offsets]:
    texts = [getattr(source, field) for source in progress.sources if source.description.startswith("KafkaV2")]
    return [json.loads(text) if text else {} for text in texts]
