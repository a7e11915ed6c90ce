"""Dead letters back to the topics that they come from, after a delay that grows with each attempt; or parked.

    dead letters -> letters -> with those that wait -> due, by a stored plan -> sending
                                                    -> others wait, beside the checkpoint

A letter is sent back to its partition with its key, value, headers, timestamp, and the number of attempts in a header,
which `validate` increments if it refuses the record again. It is due `--delay` after it was written, multiplied by
`--factor` for each further attempt, at most `--longest-delay`. After `--attempts` refusals it is parked: sent to the
topic of `--parked` as it is. So are letters whose origin does not exist any more, and records that are no dead letters.

Delivery: exactly once for read_committed consumers. A batch has a plan, with its time, which is stored before anything
is sent: when it is repeated after a crash, it sends the same letters in the same order, and skips what was committed
(`sending`).

- A lost checkpoint: letters that wait are read again, and all others are sent again.
- Retention, or topics that were created again: unread letters that are gone end the job, unless `-X
  failOnDataLoss=false`; letters that wait are kept beside the checkpoint. The positions expire after
  `offsets.retention.minutes` (7 days) without a letter; a batch that is repeated later is sent twice.
- Schema: values are bytes here. New partitions are read from their beginning.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from spark_jobs import dead_letters, io
from spark_jobs.cluster import Cluster
from spark_jobs.errors import JobError
from spark_jobs.files import Folder, query_id
from spark_jobs.job import Job, adaptive, writer
from spark_jobs.options import StreamOptions, above_zero, option, positive, seconds
from spark_jobs.sending import TransactionalSender, send
from spark_jobs.targets import ProducerOptions, connection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PLACE = "{topic}"
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
# A batch's rows are numbered behind this multiple of its id: positions increase from batch to batch.
ROWS = 2**32


@dataclass(frozen=True, kw_only=True)
class RedriveOptions(ProducerOptions, StreamOptions):
    """When dead letters are sent back, and how often."""

    attempts: int = option("send a record back so often, then park it", default=5, metavar="N", parse=positive)
    delay: int = option("wait so long before the first time", default="1 minute", metavar="INTERVAL", parse=seconds)
    factor: float = option("multiply the delay for each further time", default=2.0, metavar="FACTOR", parse=above_zero)
    longest_delay: int = option("wait at most so long", default="1 day", metavar="INTERVAL", parse=seconds)
    parked: str = option(
        "topic of the letters that are not sent back; {topic} stands for that of the dead letters",
        default="{topic}.parked",
        metavar="NAME",
    )


class RedrivePlan(NamedTuple):
    """What decides about the letters of a batch; a repeated batch decides the same.

    `partitions` are those of the topics that letters come from, as far as these exist.
    """

    now_ms: int
    attempts: int
    delay: int
    factor: float
    longest_delay: int
    partitions: Mapping[str, int]


def letters(records: DataFrame, rule: RedrivePlan) -> DataFrame:
    """Return the columns of records, and `due`, when each is sent, in ms since 1970; null for those that are parked."""
    from pyspark.sql import functions as f

    sent_back = dead_letters.origin_topic().isNotNull() & (dead_letters.attempts() <= rule.attempts)
    due = dead_letters.due_ms(rule.delay, rule.factor, rule.longest_delay)
    return records.select(*COLUMNS, f.when(sent_back, due).alias("due"))


def outgoing(due: DataFrame, batch_id: int, partitions: Mapping[str, int], parked: str) -> DataFrame:
    """Return what is sent of letters that are due, by their plan's `partitions`, and the topic of `--parked`.

    The offset numbers the rows of a target partition, in the order of the dead letters.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    known = f.create_map(*(f.lit(part) for pair in partitions.items() for part in pair)).cast("map<string,int>")
    origin, partition = dead_letters.origin_topic(), dead_letters.origin_partition()
    back = f.col("due").isNotNull() & f.coalesce(partition < f.try_element_at(known, origin), f.lit(False))
    parked_to = f.replace(f.lit(parked), f.lit(PLACE), f.col("topic"))
    time_ms = f.unix_millis("timestamp")
    made = due.select(
        f.when(back, origin).otherwise(parked_to).alias("topic"),
        f.when(back, partition).otherwise(f.col("partition")).alias("partition"),
        f.when(back, f.coalesce(dead_letters.origin_time_ms(), time_ms)).otherwise(time_ms).alias("time"),
        time_ms.alias("release"),
        "key",
        "value",
        f.when(back, dead_letters.of_record()).otherwise(f.col("headers")).alias("headers"),
        f.struct("topic", "partition", "offset").alias("letter"),
    )
    number = f.row_number().over(Window.partitionBy("topic", "partition").orderBy("letter"))
    return made.withColumn("offset", f.lit(batch_id * ROWS) + number).drop("letter")


class WaitingLetters:
    """The letters that wait, and the plans of the last batches, in a directory beside the checkpoint.

    `batch=BATCH` has the letters that wait after a batch, if they changed in it, `BATCH.json` the plan of a batch that
    sends letters.
    """

    def __init__(self, spark: SparkSession, options: RedriveOptions) -> None:
        self._spark = spark
        self._folder = Folder(spark, f"{options.checkpoint}/waiting")

    def plan(self, batch_id: int) -> RedrivePlan | None:
        """Return the plan of a batch, None if nothing of it has been sent."""
        text = self._folder.read(f"{batch_id}.json")
        return None if text is None else RedrivePlan(**json.loads(text))

    def store_plan(self, plan: RedrivePlan, batch_id: int) -> None:
        """Store the plan of a batch."""
        self._folder.write(f"{batch_id}.json", json.dumps(plan._asdict()))

    def before(self, batch_id: int) -> DataFrame | None:
        """Return the letters that waited before a batch, None if none did."""
        numbers = [number for number in self._numbers() if number < batch_id]
        return self._spark.read.parquet(f"{self._folder.uri}/batch={max(numbers)}") if numbers else None

    def store(self, rows: DataFrame, batch_id: int) -> None:
        """Store the letters that wait after a batch."""
        rows.write.mode("overwrite").parquet(f"{self._folder.uri}/batch={batch_id}")

    def forget(self, batch_id: int) -> None:
        """Delete what a repetition of a batch does not need."""
        needed = max((number for number in self._numbers() if number < batch_id), default=batch_id)
        for name in self._folder.names():
            is_plan = name.endswith(".json")
            number = name.removesuffix(".json").removeprefix("batch=")
            if number.isdecimal() and int(number) < (batch_id if is_plan else needed):
                self._folder.delete(name)

    def _numbers(self) -> list[int]:
        return [int(name.removeprefix("batch=")) for name in self._folder.names() if name.startswith("batch=")]


def redrive(batch: DataFrame, batch_id: int, waiting: WaitingLetters, target: Cluster, options: RedriveOptions) -> None:
    """Send the letters of a batch, and those that waited, as far as they are due; store the others."""
    from pyspark.sql import functions as f

    new, before = batch.where(~f.col("tick")), waiting.before(batch_id)
    has_new = not new.isEmpty()
    if not has_new and before is None:
        return
    plan = waiting.plan(batch_id)
    rule = plan or RedrivePlan(_now_ms(), options.attempts, options.delay, options.factor, options.longest_delay, {})
    read = letters(new, rule)
    known = (read if before is None else read.unionByName(before)).persist()
    try:
        is_due = f.col("due").isNull() | (f.col("due") <= rule.now_ms)
        due, later = known.where(is_due), known.where(~is_due)
        sends = not due.isEmpty()
        if sends:
            if plan is None:
                plan = rule._replace(partitions=_partitions(due, target))
                waiting.store_plan(plan, batch_id)
            _ensure_parked(due, target, options)
            sender = TransactionalSender(
                f"barnabas-redrive-{query_id(batch.sparkSession, options.checkpoint)}",
                connection(io.kafka_options(options)),
                dict(options.producer),
                options.transaction,
            )
            rows = outgoing(due, batch_id, plan.partitions, options.parked).repartition("topic", "partition")
            send(rows.sortWithinPartitions("topic", "partition", "offset"), sender)
        if has_new or sends:
            waiting.store(later, batch_id)
        waiting.forget(batch_id)
    finally:
        known.unpersist()


def _partitions(due: DataFrame, target: Cluster) -> dict[str, int]:
    """Return the partitions of the topics that letters come from."""
    rows = due.select(dead_letters.origin_topic().alias("origin")).where("origin IS NOT NULL").distinct().collect()
    return {name: topic.partitions for name, topic in target.topics([row["origin"] for row in rows]).items()}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _ensure_parked(due: DataFrame, target: Cluster, options: RedriveOptions) -> None:
    """Create the topics of parked letters, with a partition for each of those that they come from."""
    from pyspark.sql import functions as f

    for name, last in due.groupBy("topic").agg(f.max("partition")).collect():
        parked = options.parked.replace(PLACE, name)
        found = target.topics([parked]).get(parked)
        if found is None:
            target.create(parked, last + 1, {})
        elif found.partitions <= last:
            target.grow(parked, last + 1)


def _refuse_parked(spark: SparkSession, options: RedriveOptions, cluster: Cluster) -> None:
    """Raise JobError if the job would read the letters that it parks."""
    pattern = options.topic_pattern
    for name in options.topic if pattern is None else cluster.matching(pattern):
        parked = options.parked.replace(PLACE, name)
        if io.reads(spark, options, parked):
            raise _reads_parked(parked)


def _reads_parked(parked: str) -> JobError:
    return JobError(f"the job would read the parked letters of {parked}: park them elsewhere by --parked")


def check(options: RedriveOptions) -> None:
    """Raise JobError for options that do not fit together."""
    io.check_topics(options)
    for name in options.topic:
        if (parked := options.parked.replace(PLACE, name)) in options.topic:
            raise _reads_parked(parked)


def start(spark: SparkSession, options: RedriveOptions) -> StreamingQuery:
    """Start the query."""
    check(options)
    from pyspark.sql import functions as f

    records = io.read_stream(spark, options).select(*COLUMNS, f.lit(False).alias("tick"))
    # Spark runs no batch without new records; a row in each batch makes it look for letters that have become due.
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    absent = [f.lit(None).cast(records.schema[name].dataType).alias(name) for name in COLUMNS]
    rows = records.unionByName(ticks.select(*absent, f.lit(True).alias("tick")))
    waiting = WaitingLetters(spark, options)
    target = Cluster(spark, io.kafka_options(options))
    _refuse_parked(spark, options, target)

    def write(batch: DataFrame, batch_id: int) -> None:
        with adaptive(batch):
            redrive(batch, batch_id, waiting, target, options)

    return writer(rows, JOB.name, options, write).start()


JOB = Job(
    "redrive",
    RedriveOptions,
    start,
    "Send dead letters back to the topics that they come from, with limits and delays.",
    "barnabas spark run redrive -t orders.dead-letters --attempts 3 --delay '10 minutes' --checkpoint /tmp/redrive",
    fixed=("parked",),
    check=check,
    conf=(("spark.sql.execution.arrow.maxBytesPerBatch", str(16 * 1024 * 1024)),),
)

if __name__ == "__main__":
    sys.exit(JOB.main())
