"""A range of topics, or an archive, back into topics: as fast as possible, at a rate, or at the original pace.

    topics or archive -> within (offsets and times) -> to send (target, release) -> sending

Everything of a record is kept: partition, timestamp (unless `--timestamps now`), headers, null keys and null values.
Topics that do not exist are created with the partitions and the configuration of the source, but with
`retention.ms=-1`: records of the past would be deleted at once.

As fast as possible, each partition is sent by a task. With `--rate` or `--pace`, one task sends all partitions, in the
order of their timestamps; where a partition's timestamps decrease, its order of offsets precedes. `--pace 1` repeats
the records' own times, `--pace 10` is ten times as fast. After a restart time counts from the first record that is
left.

The range is fixed by the first start, as offsets, and is kept in the checkpoint (`_replay.json`): records that come
later are not replayed. `--start` and `--end` are times of records, start included and end not, or offsets of each
partition.

Delivery: exactly once for read_committed consumers. Records are sent in transactions that also commit how far the
replay is, to a group of the target cluster (`sending`). A restart repeats nothing that was committed: it goes on
behind. A replay that is complete sends nothing when started again; another checkpoint replays once more.

- Lost checkpoint: the new one is a new replay, which sends everything again.
- Retention: if it deletes records of the range before they are sent, the job ends; with `-X failOnDataLoss=false` it
  goes on behind them. The positions expire `offsets.retention.minutes` after the last transaction (7 days): a replay
  that rests for longer begins anew.
- A topic that was created again (another topic id) ends the job; new partitions are not in the range.
- A target topic with too few partitions, or with `message.timestamp.type=LogAppendTime`, is refused.
- Schema: values are bytes here.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from spark_jobs import archive_tables, io
from spark_jobs.archive import JOB as ARCHIVE
from spark_jobs.archive import read_topics, table
from spark_jobs.checkpoint import Offsets
from spark_jobs.cluster import EARLIEST, LATEST, Cluster, Partition, Topic
from spark_jobs.errors import JobError, absent_text
from spark_jobs.files import Folder, claim_checkpoint, owner
from spark_jobs.io import Destination
from spark_jobs.job import Job
from spark_jobs.options import SessionOptions, TopicOptions, above_zero, given, option, positive, time_ms
from spark_jobs.progress import say
from spark_jobs.sending import AtPace, AtRate, TransactionalSender, send, to_send
from spark_jobs.targets import TargetOptions, connection, ensure_topics, target_of
from spark_jobs.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLAN = "_replay.json"
CONF = (
    # Python gets the records in batches of a bounded size, however large a record is.
    ("spark.sql.execution.arrow.maxBytesPerBatch", str(16 * 1024 * 1024)),
)


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(TargetOptions, TopicOptions, SessionOptions):
    """What is replayed, and how fast."""

    archive: Destination | None = option(
        "replay a table of the job archive: parquet:DIR or delta:DIR (default: the topics of --brokers)",
        default=None,
        metavar="WHERE",
        parse=table,
    )
    start: str = option(
        "the first record: earliest, an ISO 8601 time, or offsets of partitions such as 0=100,1=250",
        default="earliest",
        metavar="WHERE",
        parse=lambda text: _bound_text(text, "earliest"),
    )
    end: str = option(
        "end before this record: latest, an ISO 8601 time, or offsets of partitions",
        default="latest",
        metavar="WHERE",
        parse=lambda text: _bound_text(text, "latest"),
    )
    rate: int | None = option("send so many records a second", default=None, metavar="N", parse=positive)
    pace: float | None = option(
        "send at the original pace, multiplied by a factor", default=None, metavar="FACTOR", parse=above_zero
    )
    timestamps: str = option("the records' timestamps", default="keep", choices=("keep", "now"))
    checkpoint: str = option(
        "directory of the replay's range and id; each replay has its own", metavar="DIR", parse=given
    )


class Bound(NamedTuple):
    """An end of a range: a time in ms since 1970, or offsets by partition; neither if it is open."""

    time_ms: int | None
    offsets: Mapping[int, int]


OPEN = Bound(None, {})


def bound(where: str, unbounded: str) -> Bound:
    """Return the bound of `unbounded` (earliest or latest), an ISO 8601 time, or offsets; JobError for another text."""
    if where == unbounded:
        return OPEN
    pairs = [pair.split("=") for pair in where.split(",")]
    if all(len(pair) == 2 and pair[0].isdecimal() and pair[1].isdecimal() for pair in pairs):
        return Bound(None, {int(partition): int(offset) for partition, offset in pairs})
    try:
        return Bound(time_ms(where), {})
    except ValueError:
        raise JobError(
            f"{where!r}: write {unbounded}, a time such as 2026-01-31T12:00, or offsets of partitions such as 0=9,1=25"
        ) from None


def _bound_text(where: str, unbounded: str) -> str:
    """Return the text of a bound; ArgumentTypeError for another text."""
    try:
        bound(where, unbounded)
    except JobError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return where


class Plan(NamedTuple):
    """A replay: its id, its topics, and the offsets from which and before which their records are replayed."""

    id: str
    topics: Mapping[str, Topic]
    start: Offsets
    end: Offsets

    def text(self) -> str:
        """Return the plan as JSON."""
        fields = self._asdict()
        fields["topics"] = {name: topic._asdict() for name, topic in self.topics.items()}
        return json.dumps(fields)

    @classmethod
    def parse(cls, text: str) -> Plan:
        """Return the plan of a text."""
        fields = json.loads(text)
        topics = {name: Topic(**topic) for name, topic in fields["topics"].items()}
        return cls(fields["id"], topics, fields["start"], fields["end"])

    def left(self, positions: Mapping[Partition, int], targets: Mapping[str, str]) -> dict[str, dict[str, int]]:
        """Return the offsets from which records are left, given the positions of the target's partitions."""
        return {
            topic: {
                partition: min(
                    self.end[topic][partition], max(offset, positions.get((targets[topic], int(partition)), 0))
                )
                for partition, offset in partitions.items()
            }
            for topic, partitions in self.start.items()
        }


def ranges(first: Offsets, last: Offsets, start: Bound, end: Bound) -> tuple[Offsets, Offsets]:
    """Return the offsets of a range, within the first ones and the ends that there are.

    A partition that `--start` does not name begins at its first record; one that `--end` does not name ends at its end.
    """
    starts = {
        topic: {
            partition: min(last[topic][partition], max(offset, start.offsets.get(int(partition), 0)))
            for partition, offset in partitions.items()
        }
        for topic, partitions in first.items()
    }
    ends = {
        topic: {
            partition: max(starts[topic][partition], min(offset, end.offsets.get(int(partition), offset)))
            for partition, offset in partitions.items()
        }
        for topic, partitions in last.items()
    }
    return starts, ends


def within(records: DataFrame, start: Offsets, end: Offsets, first: Bound, last: Bound) -> DataFrame:
    """Return the records in a range of offsets, whose timestamps are in a range too."""
    from pyspark.sql import functions as f

    rows = [
        (topic, int(partition), start[topic][partition], offset)
        for topic, partitions in end.items()
        for partition, offset in partitions.items()
    ]
    limits = records.sparkSession.createDataFrame(rows, "_topic string, _partition int, _start long, _end long")
    same = (f.col("topic") == f.col("_topic")) & (f.col("partition") == f.col("_partition"))
    found = records.join(f.broadcast(limits), same).where("offset >= _start AND offset < _end")
    time = f.unix_millis("timestamp")
    if first.time_ms is not None:
        found = found.where(time >= first.time_ms)
    if last.time_ms is not None:
        found = found.where(time < last.time_ms)
    return found.drop(*limits.columns)


def check(options: ReplayOptions) -> None:
    """Raise JobError for options that do not fit together."""
    if options.rate is not None and options.pace is not None:
        raise JobError("choose --rate or --pace")
    targets = target_of(dict.fromkeys(options.topic or ("a topic",)), options.to)
    if options.archive is None:
        io.check_topics(options)
        if options.to_brokers is None:
            _refuse_same(targets)


def start(spark: SparkSession, options: ReplayOptions) -> None:
    """Replay the range; return when all of it is sent."""
    check(options)
    fixed = ("archive", "brokers", "topic", "topic_pattern", "start", "end", "to", "to_brokers", "timestamps")
    claim_checkpoint(spark, options.checkpoint, JOB.name, {name: str(getattr(options, name)) for name in fixed})
    first, last = bound(options.start, "earliest"), bound(options.end, "latest")
    folder = Folder(spark, options.checkpoint)
    text = folder.read(PLAN)
    plan = _plan(spark, options, first, last) if text is None else Plan.parse(text)
    if plan is None:
        say(f"replay: {options.archive} has no records yet; nothing was sent")
        return
    if text is not None and options.archive is None:
        _refuse_new_topics(spark, options, plan)
    targets = target_of(plan.topics, options.to)
    keep = options.timestamps == "keep"
    cluster = Cluster(spark, options.target())
    try:
        if options.archive is None:
            _refuse_a_loop(spark, options, cluster, targets)
        ensure_topics(cluster, plan.topics, targets, keep_timestamps=keep, forever=True)
        if text is None:
            folder.write(PLAN, plan.text())
        group = f"barnabas-replay-{plan.id}"
        left = plan.left(cluster.committed(group), targets)
    finally:
        cluster.close()
    records = within(_records(spark, options, left, plan.end), left, plan.end, first, last)
    pace = AtRate(options.rate) if options.rate else AtPace(options.pace) if options.pace else None
    ordered = options.archive is None and not io.divides_partitions(options)
    rows = to_send(records, targets, paced=pace is not None, ordered=ordered)
    sender = TransactionalSender(
        group, connection(options.target()), dict(options.producer), options.transaction, pace, now=not keep
    )
    sent = sum(run.records for run in send(rows, sender))
    say(f"replay: {counted(sent, 'record')} sent to {', '.join(sorted(targets.values()))}")


def _plan(spark: SparkSession, options: ReplayOptions, first: Bound, last: Bound) -> Plan | None:
    """Return the range as it is now; None for an archive without records, of which the next start may find some."""
    if options.archive is not None:
        if _is_empty(spark, options.archive):
            return None
        topics, firsts, ends = _archived(spark, options, options.archive)
    else:
        topics, firsts, ends = _readable(spark, options, first)
    starts, ends = ranges(firsts, ends, first, last)
    return Plan(uuid.uuid4().hex, topics, starts, ends)


def _archived(
    spark: SparkSession, options: ReplayOptions, archive: Destination
) -> tuple[Mapping[str, Topic], Offsets, Offsets]:
    """Return the topics of an archive that are chosen, and the offsets from which and before which it has records."""
    folder = Folder(spark, archive.target)
    ends = archive_tables.positions(spark, folder)
    names = set(options.topic or ends)
    if options.topic_pattern:
        names = {name for name in ends if re.fullmatch(options.topic_pattern, name)}
    if absent := names - set(ends):
        raise JobError(f"{archive.target} has no topic {', '.join(sorted(absent))}; it has {', '.join(sorted(ends))}")
    known = read_topics(folder)
    topics = {name: known[name] for name in names}
    return topics, {name: dict.fromkeys(ends[name], 0) for name in names}, {name: ends[name] for name in names}


def _is_empty(spark: SparkSession, archive: Destination) -> bool:
    """Return whether an archive has no records, as that of topics without any; JobError if it is no archive."""
    if archive_tables.total(archive_tables.positions(spark, Folder(spark, archive.target))):
        return False
    if owner(spark, archive.target) != ARCHIVE.name:
        raise JobError(f"{archive.target} has no archive: write --archive parquet:DIR or delta:DIR, the job's --to")
    return True


def _readable(
    spark: SparkSession, options: ReplayOptions, first: Bound
) -> tuple[Mapping[str, Topic], Offsets, Offsets]:
    """Return the topics of the source cluster that are chosen, and the offsets of their records now."""
    io.check_topics(options)
    cluster = Cluster(spark, io.kafka_options(options))
    try:
        names = cluster.matching(options.topic_pattern) if options.topic_pattern else options.topic
        topics = cluster.topics(names, config=True)
        if absent := set(names) - set(topics):
            raise JobError(absent_text(absent))
        partitions = [(name, at) for name, topic in topics.items() for at in range(topic.partitions)]
        # A record with the time or a later one is not before this offset, whatever the order of the times is.
        firsts = cluster.offsets(partitions, EARLIEST if first.time_ms is None else first.time_ms)
        return topics, nested(firsts), nested(cluster.offsets(partitions, LATEST))
    finally:
        cluster.close()


def nested(offsets: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    """Return offsets by topic and partition."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def _records(spark: SparkSession, options: ReplayOptions, start: Offsets, end: Offsets) -> DataFrame:
    if options.archive is None:
        return io.read_range(spark, options, start, end)
    found = archive_tables.read(spark, Folder(spark, options.archive.target))
    if found is None:
        raise JobError(f"{options.archive.target} has no archive any more")
    return found


def _refuse_new_topics(spark: SparkSession, options: ReplayOptions, plan: Plan) -> None:
    """Raise JobError if a topic was created again since the first start: the offsets of the range are of the former."""
    source = Cluster(spark, io.kafka_options(options))
    try:
        found = source.topics(plan.topics)
    finally:
        source.close()
    if again := sorted(name for name, topic in found.items() if topic.id != plan.topics[name].id):
        raise JobError(f"the topic {again[0]} was deleted and created again: choose another --checkpoint")


def _refuse_a_loop(spark: SparkSession, options: ReplayOptions, target: Cluster, targets: Mapping[str, str]) -> None:
    if not any(name == written for name, written in targets.items()):
        return
    source = Cluster(spark, io.kafka_options(options))
    try:
        if source.id() == target.id():
            _refuse_same(targets)
    finally:
        source.close()


def _refuse_same(targets: Mapping[str, str]) -> None:
    if same := [name for name, written in targets.items() if name == written]:
        raise JobError(
            f"{same[0]} would be replayed into itself: name another topic, such as --to '{{topic}}-replayed'"
        )


JOB = Job(
    "replay",
    ReplayOptions,
    start,
    "Send a range of topics, or an archive, to topics again, with partitions, timestamps and headers.",
    "barnabas spark run replay --archive parquet:/tmp/archive --to '{topic}-restored' --checkpoint /tmp/replay",
    lambda options: options.archive.connectors if options.archive else (),
    conf=CONF,
    check=check,
)

if __name__ == "__main__":
    sys.exit(JOB.main())
