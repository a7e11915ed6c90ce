"""The Kafka source and sink of all jobs, and the choice among them and the tables of `tables.py`.

A record is a row of Spark's Kafka source: `key` and `value` (binary), `topic`, `partition`, `offset`, `timestamp`,
`timestampType`, and `headers` (an array of structs of `key` and `value`; null without headers).

Spark's Kafka sink is at-least-once, and lets the producer choose the timestamp.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs import tables
from spark_jobs.checkpoint import Offsets
from spark_jobs.cluster import Cluster
from spark_jobs.errors import JobError
from spark_jobs.files import Folder, claim, has_begun, has_results, query_id
from spark_jobs.options import (
    KafkaOptions,
    SourceOptions,
    StreamOptions,
    TopicOptions,
    beginning,
    did_you_mean,
    option,
    time_ms,
)
from spark_jobs.tables import DRIVERS, Batch, JdbcTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

# A task reads offsets that the topic has. Once it has the last ones, the consumer fetches behind them, and its next
# request waits for that response: half a second of each partition and micro-batch by Kafka's default.
SOURCE = {"kafka.fetch.max.wait.ms": "10", "kafka.isolation.level": "read_committed", "includeHeaders": "true"}
TOPIC_IDS = "_barnabas_topics.json"
# Options, in lower case, by which several Spark tasks read a partition.
DIVIDING = ("minpartitions", "maxrecordsperpartition")
FORMS = {
    "topic": "topic:NAME",
    "parquet": "parquet:DIR",
    "delta": "delta:DIR",
    "iceberg": "iceberg:DIR",
    "jdbc": "jdbc:URL#TABLE",
    "console": "console",
}


class Destination(NamedTuple):
    """Where results go: `kind` is one of FORMS, `target` the topic, the directory or name of a table, or URL#TABLE."""

    kind: str
    target: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.target}" if self.target else self.kind

    @property
    def connectors(self) -> tuple[str, ...]:
        """The connectors that writing needs besides Kafka's."""
        if self.kind == "jdbc":
            product = JdbcTable.parse(self.target).product
            return (product,) if product in DRIVERS else ()
        return (self.kind,) if self.kind in ("delta", "iceberg") else ()


KINDS = tuple(FORMS)


def forms(kinds: Sequence[str] = KINDS) -> str:
    """Return how destinations of the kinds are written, such as `parquet:DIR or delta:DIR`."""
    *first, last = (FORMS[kind] for kind in kinds)
    return f"{', '.join(first)} or {last}" if first else last


def destination(text: str, kinds: Sequence[str] = KINDS) -> Destination:
    """Return the destination of a text such as `topic:NAME`; ArgumentTypeError if it is none of the kinds."""
    kind, _, target = text.partition(":")
    if kind not in kinds:
        raise argparse.ArgumentTypeError(f"{text!r}: write {forms(kinds)}{did_you_mean(kind, kinds)}")
    if bool(target) == (kind == "console"):
        raise argparse.ArgumentTypeError(f"{text!r}: write {FORMS[kind]}")
    if kind == "jdbc":
        try:
            JdbcTable.parse(target)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return Destination(kind, target)


@dataclass(frozen=True, kw_only=True)
class ResultOptions:
    """Where results go."""

    to: Destination = option(f"where results go: {forms()}", metavar="WHERE", parse=destination)


def kafka_options(options: KafkaOptions) -> dict[str, str]:
    """Return the options of Spark's source and sink that reach the brokers."""
    return {"kafka.bootstrap.servers": options.brokers, **dict(options.kafka)}


def check_topics(options: TopicOptions) -> None:
    """Raise JobError unless the topics are chosen in one of the two ways."""
    if not options.topic and options.topic_pattern is None:
        raise JobError("name the topics by --topic NAME, or by --topic-pattern")
    if options.topic and options.topic_pattern is not None:
        raise JobError("name the topics by --topic or by --topic-pattern, not by both")


def reads(spark: SparkSession, options: TopicOptions, name: str) -> bool:
    """Return whether a topic is one of those that a job reads, now or once it exists."""
    if options.topic_pattern is None:
        return name in options.topic
    jvm: Any = spark._jvm
    return bool(jvm.java.util.regex.Pattern.matches(options.topic_pattern, name))


def refuse_feedback(spark: SparkSession, options: TopicOptions, written: Iterable[str]) -> None:
    """Raise JobError if the pattern of the topics that a job reads matches one that it writes to the same cluster."""
    for name in written:
        if options.topic_pattern is not None and reads(spark, options, name):
            raise JobError(f"the job would read {name}, which it writes: choose a --topic-pattern without it")


def divides_partitions(options: KafkaOptions) -> bool:
    """Return whether several Spark tasks may read a partition, each a range of its offsets."""
    chosen = isinstance(options, SourceOptions) and options.min_partitions is not None
    return chosen or any(key.lower() in DIVIDING for key, _ in options.kafka)


def check_topic_ids(spark: SparkSession, options: StreamOptions) -> None:
    """Record in the checkpoint which topics the job reads; JobError if one was created again since the last start.

    Spark compares offsets only: it would skip the first records of a new topic that has as many as it has read. `-X
    failOnDataLoss=false` allows that.
    """
    if not options.topic and options.topic_pattern is None:
        return  # the job reports that (`check_topics`), or reads no topics
    folder = Folder(spark, options.checkpoint)
    known: dict[str, str] = json.loads(folder.read(TOPIC_IDS) or "{}")
    cluster = Cluster(spark, kafka_options(options))
    try:
        names = options.topic if options.topic_pattern is None else cluster.matching(options.topic_pattern)
        found = {name: topic.id for name, topic in cluster.topics(names).items()}
    finally:
        cluster.close()
    again = sorted(name for name, topic_id in found.items() if known.get(name, topic_id) != topic_id)
    allowed = {key.lower(): value for key, value in options.kafka}.get("failondataloss") == "false"
    if again and not allowed:
        raise JobError(
            f"the topic {again[0]} was deleted and created again since the last start with {options.checkpoint}: "
            "choose another --checkpoint, or go on in the new topic by -X failOnDataLoss=false"
        )
    if not found.items() <= known.items():
        folder.write(TOPIC_IDS, json.dumps(known | found))


def absent_topics(spark: SparkSession, options: TopicOptions) -> list[str]:
    """Return the topics of --topic that do not exist."""
    cluster = Cluster(spark, kafka_options(options))
    try:
        return sorted(set(options.topic) - set(cluster.topics(options.topic)))
    finally:
        cluster.close()


def read_stream(spark: SparkSession, options: StreamOptions) -> DataFrame:
    """Return the records of a streaming source: those of committed transactions, unless -X sets the isolation level."""
    return _reader(spark.readStream, options).options(**_limits(options)).load()


def read_batch(spark: SparkSession, options: SourceOptions, **limits: str) -> DataFrame:
    """Return the committed records that the topics have now; `limits` are further options of Spark's source."""
    return _reader(spark.read, options).options(**limits).load()


def read_range(spark: SparkSession, options: KafkaOptions, start: Offsets, end: Offsets) -> DataFrame:
    """Return the committed records from the start offsets to before the end offsets, which name all partitions."""
    chosen = {
        "subscribe": ",".join(end),
        "startingOffsets": json.dumps(start),
        "endingOffsets": json.dumps(end),
        **SOURCE,
        **kafka_options(options),
    }
    return spark.read.format("kafka").options(**chosen).load()


def write_batch(rows: DataFrame, batch_id: int, to: Destination, options: StreamOptions) -> None:
    """Write a micro-batch.

    Tables have each batch once, also if it is written again after a failure (`tables.py`); a topic and the console get
    it twice. Rows for a topic have `value`, and may have `key` and `headers`.
    """
    if to.kind == "topic":
        write_topic(rows, to.target, options)
    elif to.kind == "console":
        rows.show(truncate=False)
    elif to.kind == "parquet":
        tables.write_parquet(rows, to.target, batch_id)
    else:
        batch = Batch(query_id(rows.sparkSession, options.checkpoint), batch_id)
        if to.kind == "delta":
            tables.write_delta(rows, to.target, batch)
        elif to.kind == "iceberg":
            tables.write_iceberg(rows, to.target, batch)
        else:
            tables.write_jdbc(rows, JdbcTable.parse(to.target), batch)


def write_topic(rows: DataFrame, topic: str, options: KafkaOptions) -> None:
    """Write rows with `value`, and perhaps `key`, `headers` and `partition`, to a topic."""
    rows.write.format("kafka").options(**kafka_options(options)).option("topic", topic).save()


def check_results(to: Destination, options: TopicOptions, also_read: str | None = None) -> None:
    """Raise JobError if a destination is a topic that a job reads, as far as its options name them."""
    if to.kind == "topic" and to.target in (*options.topic, also_read):
        raise _reads_results(to)


def claim_results(
    spark: SparkSession, to: Destination, job: str, options: StreamOptions, also_read: str | None = None
) -> None:
    """Record that a job writes its results to a destination; it reads the topics of its options and `also_read`.

    Raise JobError if the destination is a topic that the job reads, a directory that another job writes, or one with
    the results of a checkpoint that is lost: they would be written again.
    """
    if to.kind == "topic" and (to.target == also_read or reads(spark, options, to.target)):
        raise _reads_results(to)
    claim_destination(spark, to, job, options.checkpoint)
    if to.kind in ("parquet", "delta") and has_results(spark, to.target) and not has_begun(spark, options.checkpoint):
        raise JobError(
            f"{to.target} has results of the checkpoint {options.checkpoint}, which is lost: choose another directory, "
            "or delete this one"
        )


def _reads_results(to: Destination) -> JobError:
    return JobError(f"the job would read its own results from {to.target}: write them to another topic")


def claim_destination(spark: SparkSession, to: Destination, job: str, checkpoint: str | None) -> None:
    """Record that a job writes to a directory; JobError if another one does (`files.claim`)."""
    if to.kind in ("parquet", "delta"):
        claim(spark, to.target, job, checkpoint)


def starting(where: str) -> dict[str, str]:
    """Return the options for earliest, latest or an ISO 8601 time (UTC unless it has a zone); JobError otherwise."""
    try:
        beginning(where)
    except argparse.ArgumentTypeError as error:
        raise JobError(f"--start {error}") from None
    if where in ("earliest", "latest"):
        return {"startingOffsets": where}
    return {
        "startingTimestamp": str(time_ms(where)),
        # Without a record at or after the time, the partition is read from its end.
        "startingOffsetsByTimestampStrategy": "latest",
    }


def _reader(reader: Any, options: SourceOptions) -> DataFrameReader | DataStreamReader:
    check_topics(options)
    selected = (
        {"subscribePattern": options.topic_pattern} if options.topic_pattern else {"subscribe": ",".join(options.topic)}
    )
    chosen: dict[str, str | None] = {
        **selected,
        **starting(options.start),
        "minPartitions": str(options.min_partitions) if options.min_partitions else None,
        **SOURCE,
        **kafka_options(options),
    }
    made: DataFrameReader | DataStreamReader = reader.format("kafka")
    return made.options(**{key: value for key, value in chosen.items() if value is not None})


def _limits(options: StreamOptions) -> dict[str, str]:
    most = options.max_offsets_per_trigger
    return {} if most is None else {"maxOffsetsPerTrigger": str(most)}
