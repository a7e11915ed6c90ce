"""Topics copied to another cluster as they are, and the offsets of their consumer groups translated.

    records -> to send (target) -> sending -> offset map -> groups

Partitions, timestamps, headers, null keys and null values are kept. A target topic is created with the partitions and
the configuration of its source (`targets`), and gets the partitions that the source gains; later changes of the
configuration are not followed. `--to` names it, by default as the source.

Delivery: exactly once for read_committed consumers of the target. Records are sent in transactions that also commit how
far the mirror is, to the group `barnabas-mirror-ID` of the target cluster, ID being the source cluster's. A restart
repeats nothing that was committed.

Groups: with `--groups`, the committed offsets of the groups that the pattern matches are translated by the offset map
(`offset_map`), which the topic of `--offset-map` keeps, and committed for the same groups at the target, unless these
have members there or are further. Offsets of the target differ from the source's, since transactions have markers. A
consumer that moves misses nothing: it begins where it was, or before. It reads again what it committed after the last
translation (every 5 to 10 seconds), and what it had consumed of records that were not copied yet; further than 64
transactions behind the end of the mirror, also up to about 1/64 of that distance; after a killed job, up to the records
of one micro-batch.

- Lost checkpoint: topics are read from --start again; what the target has is skipped.
- Retention: if it deleted unread records the job ends; with `-X failOnDataLoss=false` it goes on behind them.
- A topic that was deleted and created again (another topic id) ends the job before it writes.
- A topic that gains partitions, and a new topic that --topic-pattern matches, are copied from their first record.
- Schema: values are bytes here.
- Aborted transactions are left out, unless `-X kafka.isolation.level=read_uncommitted`.
- The positions expire `offsets.retention.minutes` after the last record of a partition (7 days); the checkpoint has
  them too. If both are lost, a partition is copied again.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_jobs import io
from spark_jobs.checkpoint import end_offsets
from spark_jobs.cluster import EARLIEST, Cluster, Partition
from spark_jobs.errors import JobError
from spark_jobs.job import Job, writer
from spark_jobs.offset_map import NumberedRun, PartitionOffsetMap, parse_record, record_key, record_value
from spark_jobs.options import StreamOptions, java_pattern, option
from spark_jobs.sending import CLIENT, OffsetRun, TransactionalSender, send, to_send
from spark_jobs.targets import TargetOptions, connection, ensure_topics, target_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )
    from pyspark.sql.streaming.query import StreamingQuery

SYNC_S = 5.0
FLUSH_S = 60.0
MAP_CONFIG = {"cleanup.policy": "compact"}
CONF = (
    # Python gets the records in batches of a bounded size, however large a record is.
    ("spark.sql.execution.arrow.maxBytesPerBatch", str(16 * 1024 * 1024)),
)


@dataclass(frozen=True, kw_only=True)
class MirrorOptions(TargetOptions, StreamOptions):
    """What is copied, and which groups."""

    groups: str | None = option(
        "translate the offsets of the consumer groups that this Java pattern matches",
        default=None,
        metavar="PATTERN",
        parse=java_pattern,
    )
    offset_map: str = option(
        "topic of the target cluster that keeps the offset map", default="barnabas-mirror-offsets", metavar="NAME"
    )


class StoredOffsets:
    """The offset maps of all partitions of the target, kept in a compacted topic."""

    def __init__(self, topic: str, client: Mapping[str, Any], runs: Iterable[tuple[str, int, NumberedRun]]) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        # Batches add runs while the listener translates.
        self._lock = threading.Lock()
        self._producer = Producer({**CLIENT, **client, "enable.idempotence": True})
        found: dict[Partition, list[NumberedRun]] = {}
        for name, partition, run in runs:
            found.setdefault((name, partition), []).append(run)
        self._maps = {where: PartitionOffsetMap(of) for where, of in found.items()}

    def add(self, runs: Iterable[OffsetRun]) -> None:
        """Add runs of the target's partitions, and store them."""
        for topic, partition, source, target, records in runs:
            with self._lock:
                added_to = self._maps.setdefault((topic, partition), PartitionOffsetMap())
                run, dropped = added_to.add(source, target, records)
            self._producer.produce(self._topic, record_value(run), record_key(topic, partition, source))
            for old in dropped:
                self._producer.produce(self._topic, None, record_key(topic, partition, old.source))
            self._producer.poll(0)
        if self._producer.flush(FLUSH_S):
            raise JobError(f"the offset map was not written to {self._topic}: start the job again when brokers answer")

    def translate(self, where: Partition, offset: int) -> int | None:
        """Return the offset of a target's partition for one of its source; None if the map does not reach it."""
        with self._lock:
            found = self._maps.get(where)
            return None if found is None else found.translate(offset)


class GroupTranslator:
    """Commits at the target what groups have committed at the source."""

    def __init__(self, source: Cluster, target: Cluster, pattern: str, offsets: StoredOffsets) -> None:
        self._source = source
        self._target = target
        self._pattern = pattern
        self._offsets = offsets
        self._lock = threading.Lock()
        self._last_s = float("-inf")

    def translate_all(self, targets: Mapping[str, str], every_s: float = SYNC_S) -> None:
        """Translate the offsets of all groups in topics that exist, unless that was done within `every_s`."""
        with self._lock:
            if time.monotonic() - self._last_s < every_s:
                return
            present = self._target.topics(targets.values())
            targets = {name: target for name, target in targets.items() if target in present}
            partitions = {name: present[target].partitions for name, target in targets.items()}
            for group in self._source.groups(self._pattern):
                self._translate(group, targets, partitions)
            self._last_s = time.monotonic()

    def _translate(self, group: str, targets: Mapping[str, str], partitions: Mapping[str, int]) -> None:
        # The target gets the partitions that the source has gained with their first records.
        committed = {
            (targets[topic], partition): offset
            for (topic, partition), offset in self._source.committed(group).items()
            if partition < partitions.get(topic, 0)
        }
        if not committed:
            return
        earliest = self._target.offsets(committed, EARLIEST)
        there = self._target.committed(group)
        moved = {}
        for where, offset in committed.items():
            translated = self._offsets.translate(where, offset)
            found = max(earliest[where], 0 if translated is None else translated)
            if found > there.get(where, -1):
                moved[where] = found
        if moved:
            self._target.commit_if_empty(group, moved)


class Mirror:
    """Copies micro-batches."""

    def __init__(self, spark: SparkSession, options: MirrorOptions) -> None:
        self._spark = spark
        self._options = options
        self._source = Cluster(spark, io.kafka_options(options))
        self._target = Cluster(spark, options.target())
        pattern = options.topic_pattern
        names = options.topic if pattern is None else self._source.matching(pattern)
        self._targets = target_of(dict.fromkeys(names), options.to)
        source_id = self._source.id()
        self._id = f"barnabas-mirror-{source_id}"
        self._is_loop = source_id == self._target.id()
        self._refuse_a_loop()
        self._offsets: StoredOffsets | None = None
        self._translator: GroupTranslator | None = None
        if options.groups is not None:
            self._offsets = self._stored_offsets()
            self._translator = GroupTranslator(self._source, self._target, options.groups, self._offsets)

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Copy a micro-batch."""
        end = end_offsets(batch.sparkSession, self._options.checkpoint, batch_id)
        sources = self._source.topics(end, config=True)
        self._targets |= target_of(sources, self._options.to)
        self._refuse_a_loop()
        targets = {name: self._targets[name] for name in sources}
        ensure_topics(self._target, sources, targets, grow=True)
        sender = TransactionalSender(
            self._id,
            connection(self._options.target()),
            dict(self._options.producer),
            self._options.transaction,
            origins={targets[name]: topic.id for name, topic in sources.items()},
        )
        ordered = not io.divides_partitions(self._options)
        runs = send(to_send(batch, targets, paced=False, ordered=ordered), sender)
        if self._offsets is not None:
            self._offsets.add(sorted(runs))
        self.translate_groups(0 if self._options.available_now else SYNC_S)

    def translate_groups(self, every_s: float = SYNC_S) -> None:
        """Translate the offsets of groups, unless that was done within `every_s`."""
        if self._translator is not None:
            self._translator.translate_all(dict(self._targets), every_s)

    def _refuse_a_loop(self) -> None:
        if not self._is_loop:
            return
        refuse_same(self._targets)
        io.refuse_feedback(self._spark, self._options, self._targets.values())

    def _stored_offsets(self) -> StoredOffsets:
        name = self._options.offset_map
        if not self._target.topics([name]):
            self._target.create(name, 1, MAP_CONFIG)
        stored = self._spark.read.format("kafka").options(**self._options.target()).option("subscribe", name).load()
        newest: dict[bytes, bytes | None] = {}
        for row in stored.orderBy("offset").select("key", "value").collect():
            newest[bytes(row.key)] = None if row.value is None else bytes(row.value)
        runs = (parse_record(key, value) for key, value in newest.items() if value is not None)
        return StoredOffsets(name, connection(self._options.target()), runs)


class WhenIdle(StreamingQueryListener):
    """Calls a function now and then while a query has no new records."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: the batch itself has called."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Call, whatever query is idle."""
        del event
        self._call()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""


def refuse_same(targets: Mapping[str, str]) -> None:
    """Raise JobError if a topic and its target are one."""
    if same := [name for name, target in targets.items() if name == target]:
        raise JobError(
            f"{same[0]} would be copied into itself: name another topic by --to, or another cluster by --to-brokers"
        )


def check(options: MirrorOptions) -> None:
    """Raise JobError for options that do not fit together."""
    io.check_topics(options)
    targets = target_of(dict.fromkeys(options.topic or ("a topic",)), options.to)
    if options.to_brokers is None:
        refuse_same(targets)


def start(spark: SparkSession, options: MirrorOptions) -> StreamingQuery:
    """Start the query."""
    check(options)
    mirror = Mirror(spark, options)
    mirror.translate_groups()
    if options.groups is not None:
        spark.streams.addListener(WhenIdle(mirror.translate_groups))
    return writer(io.read_stream(spark, options), JOB.name, options, mirror.write).start()


JOB = Job(
    "mirror",
    MirrorOptions,
    start,
    "Copy topics to another cluster, with partitions, timestamps and headers, and translate the offsets of groups.",
    "barnabas spark run mirror -b 127.0.0.1:9092 -t orders --to-brokers 127.0.0.1:9192 --checkpoint /tmp/mirror",
    fixed=("to", "to_brokers"),
    conf=CONF,
    check=check,
)

if __name__ == "__main__":
    sys.exit(JOB.main())
