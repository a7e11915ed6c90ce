"""Records whose values are of a format and schema go on to a topic, the others to a topic of dead letters.

    records -> judged (the reason, null for a good value) -> outcomes (topic, headers) -> sending

Formats are JSON, Avro and Protobuf, with the schema in a file (`formats`). Good records keep key, value, partition,
timestamp and headers; dead letters keep them too, but for the timestamp, and have the reason, the origin and the number
of attempts in further headers (`dead_letters`). The job `redrive` sends them back.

Null values, as of tombstones and of records with headers only, are good unless `--null-values reject`. Each source
topic has its own target topics, which are created if they do not exist, with the source's partitions, and grow with it.

Delivery: exactly once for read_committed consumers. Records are sent in transactions with the position behind them
(`sending`), so that a batch that is repeated after a crash skips what was committed: each record is either in its
target topic once, or in its topic of dead letters once.

- A restart judges the unfinished batch again; with another `--schema`, records of this batch may be in both topics.
- A changed schema: values that do not fit the file are dead letters; correct `--schema`, then run `redrive`.
- A lost checkpoint: the new one sends all records again.
- A topic that was created again ends the job: its records would be taken for those of the former one.
- Retention: unread records that are gone end the job, unless `-X failOnDataLoss=false`. The positions expire
  `offsets.retention.minutes` (7 days) after the last record; a batch that is repeated later than that is sent twice.
- New partitions are read from their beginning.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs import dead_letters, io
from spark_jobs.checkpoint import end_offsets
from spark_jobs.cluster import Cluster
from spark_jobs.errors import JobError
from spark_jobs.files import query_id
from spark_jobs.formats import Format, FormatOptions, load, reason
from spark_jobs.job import Job, writer
from spark_jobs.options import StreamOptions, option
from spark_jobs.sending import TransactionalSender, send
from spark_jobs.targets import TargetOptions, connection, ensure_topics, target_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PLACE = "{topic}"
CONF = (
    # Python gets the records in batches of a bounded size, however large a record is.
    ("spark.sql.execution.arrow.maxBytesPerBatch", str(16 * 1024 * 1024)),
)


@dataclass(frozen=True, kw_only=True)
class ValidateOptions(FormatOptions, TargetOptions, StreamOptions):
    """The format, and where good records and dead letters go."""

    to: str = option(
        "topic of the good records; {topic} stands for the name of the one that is read",
        default="{topic}.valid",
        metavar="NAME",
    )
    dead_letters: str = option("topic of the dead letters", default="{topic}.dead-letters", metavar="NAME")
    null_values: str = option("whether null values are good", default="accept", choices=("accept", "reject"))


def judged(records: DataFrame, form: Format, *, null_values: str = "accept") -> DataFrame:
    """Return the records with `reason`: why the value is malformed, null if it is not."""
    from pyspark.sql import functions as f

    check = f.udf(lambda value: reason(form, value), "string")
    absent = f.lit("the value is null") if null_values == "reject" else f.lit(None)
    return records.withColumn("reason", f.when(f.col("value").isNull(), absent).otherwise(check("value")))


def outcomes(records: DataFrame, options: ValidateOptions) -> DataFrame:
    """Return what is sent for judged records: to its topic, without a time (that of sending) if it is a dead letter."""
    from pyspark.sql import functions as f

    good = f.col("reason").isNull()
    target = f.when(good, _named(options.to)).otherwise(_named(options.dead_letters))
    time = f.unix_millis("timestamp")
    return records.select(
        target.alias("topic"),
        "partition",
        "offset",
        f.when(good, time).alias("time"),
        time.alias("release"),
        "key",
        "value",
        f.when(good, dead_letters.own_headers()).otherwise(dead_letters.with_origin()).alias("headers"),
    )


class TargetTopics:
    """The topics of good records and dead letters, which are created, and grow with the source's."""

    def __init__(self, spark: SparkSession, source: Cluster, target: Cluster, options: ValidateOptions) -> None:
        self._spark = spark
        self._source = source
        self._target = target
        self._options = options
        self._partitions: dict[str, int] = {}
        self.origins: dict[str, str] = {}
        """The id of the topic that is read, by the topic that is written."""

    def ensure(self, offsets: Mapping[str, Mapping[str, int]]) -> None:
        """Prepare the target topics of the topics and partitions that offsets name; JobError if two would share one."""
        good = target_of(offsets, self._options.to, "--to")
        dead = target_of(offsets, self._options.dead_letters, "--dead-letters")
        found = self._source.topics(offsets)
        # A topic may have been created again, also while the job runs.
        self.origins |= {written[name]: topic.id for name, topic in found.items() for written in (good, dead)}
        grown = [name for name, topic in found.items() if topic.partitions > self._partitions.get(name, 0)]
        if not grown:
            return
        for name, topic in self._source.topics(grown, config=True).items():
            if self._options.to_brokers is None:
                _refuse_one_topic(name, good[name], dead[name])
                io.refuse_feedback(self._spark, self._options, (good[name], dead[name]))
            ensure_topics(self._target, {name: topic}, {name: good[name]}, grow=True)
            self._ensure_dead_letters(dead[name], topic.partitions)
            self._partitions[name] = topic.partitions

    def _ensure_dead_letters(self, name: str, partitions: int) -> None:
        """Create or grow a topic with the broker's defaults: dead letters are not to be compacted like their topic."""
        found = self._target.topics([name]).get(name)
        if found is None:
            self._target.create(name, partitions, {})
        elif found.partitions < partitions:
            self._target.grow(name, partitions)


def check(options: ValidateOptions) -> Format:
    """Return the format; JobError if a schema cannot be read, or for options that do not fit together."""
    io.check_topics(options)
    form = load(options)
    good = target_of(dict.fromkeys(options.topic), options.to, "--to")
    dead = target_of(dict.fromkeys(options.topic), options.dead_letters, "--dead-letters")
    if options.to_brokers is None:
        for name in options.topic:
            _refuse_one_topic(name, good[name], dead[name])
    return form


def start(spark: SparkSession, options: ValidateOptions) -> StreamingQuery:
    """Start the query."""
    form = check(options)
    records = io.read_stream(spark, options)
    topics = TargetTopics(spark, Cluster(spark, io.kafka_options(options)), Cluster(spark, options.target()), options)
    to_brokers = connection(options.target())

    def write(batch: DataFrame, batch_id: int) -> None:
        topics.ensure(end_offsets(spark, options.checkpoint, batch_id))
        rows = outcomes(judged(batch, form, null_values=options.null_values), options)
        if io.divides_partitions(options):
            rows = rows.repartition("topic", "partition")
        sender = TransactionalSender(
            f"barnabas-validate-{query_id(spark, options.checkpoint)}",
            to_brokers,
            dict(options.producer),
            options.transaction,
            origins=topics.origins,
        )
        send(rows.sortWithinPartitions("topic", "partition", "offset"), sender)

    return writer(records, JOB.name, options, write).start()


def _refuse_one_topic(name: str, good: str, dead: str) -> None:
    if len({name, good, dead}) < 3:
        raise JobError(f"{name}, its good records and its dead letters need topics of their own")


def _named(template: str) -> Column:
    from pyspark.sql import functions as f

    return f.replace(f.lit(template), f.lit(PLACE), f.col("topic"))


JOB = Job(
    "validate",
    ValidateOptions,
    start,
    "Send records of a format and schema on to a topic, and the others to a topic of dead letters.",
    "barnabas spark run validate -t orders --schema orders.schema.json --checkpoint /tmp/validate",
    fixed=("to", "dead_letters", "to_brokers"),
    conf=CONF,
    check=check,
)

if __name__ == "__main__":
    sys.exit(JOB.main())
