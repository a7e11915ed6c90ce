"""The Kafka source and sink of all jobs, and the tables that results are written to.

A record is a row of Spark's Kafka source: `key` and `value` (binary), `topic`, `partition`, `offset`, `timestamp`,
`timestampType`, and `headers` (an array of structs of `key` and `value`; null without headers).

Spark's Kafka sink is at-least-once, and lets the producer choose the timestamp; records that keep theirs are sent by
`spark_jobs.sending`.
"""

from __future__ import annotations

import argparse
import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs.options import KafkaOptions, SourceOptions, StreamOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

OWNER = "_barnabas_job.json"
KINDS = ("topic", "parquet", "delta", "console")


class JobError(Exception):
    """A problem that the user can solve; its text is one sentence that says how."""


class Destination(NamedTuple):
    """Where results go: `kind` is one of KINDS, `target` the topic, or the directory of a table."""

    kind: str
    target: str

    @property
    def connectors(self) -> tuple[str, ...]:
        """The connectors that writing needs besides Kafka's."""
        return ("delta",) if self.kind == "delta" else ()


def destination(text: str) -> Destination:
    """Return the destination of `topic:NAME`, `parquet:DIR`, `delta:DIR` or `console`.

    Raise ArgumentTypeError for another text.
    """
    kind, _, target = text.partition(":")
    if kind not in KINDS or bool(target) == (kind == "console"):
        raise argparse.ArgumentTypeError(f"{text!r}: write topic:NAME, parquet:DIR, delta:DIR or console")
    return Destination(kind, target)


def kafka_options(options: KafkaOptions) -> dict[str, str]:
    """Return the options of Spark's source and sink that reach the brokers."""
    return {"kafka.bootstrap.servers": options.brokers, **dict(options.kafka)}


def read_stream(spark: SparkSession, options: StreamOptions) -> DataFrame:
    """Return the records of a streaming source."""
    return _reader(spark.readStream, options).options(**_limits(options)).load()


def read_batch(spark: SparkSession, options: SourceOptions, **limits: str) -> DataFrame:
    """Return the records that the topics have now; `limits` are further options of Spark's source."""
    return _reader(spark.read, options).options(**limits).load()


def write_batch(rows: DataFrame, batch_id: int, to: Destination, options: StreamOptions) -> None:
    """Write a micro-batch.

    Written again after a failure, a batch replaces its former rows in Parquet and is skipped by Delta; a topic and the
    console get it twice. Rows for a topic have `value`, and may have `key` and `headers`.
    """
    if to.kind == "topic":
        rows.write.format("kafka").options(**kafka_options(options)).option("topic", to.target).save()
    elif to.kind == "parquet":
        rows.write.mode("overwrite").parquet(f"{to.target}/batch={batch_id:09d}")
    elif to.kind == "delta":
        once: dict[str, str | int] = {"txnAppId": query_id(options.checkpoint), "txnVersion": batch_id}
        rows.write.format("delta").mode("append").options(**once).save(to.target)
    else:
        rows.show(truncate=False)


def is_delta(spark: SparkSession, directory: str) -> bool:
    """Return whether a directory has a Delta table."""
    jvm: Any = spark._jvm
    return bool(jvm.io.delta.tables.DeltaTable.isDeltaTable(directory))


def query_id(checkpoint: str) -> str:
    """Return the id of the query that a checkpoint belongs to."""
    with open(f"{checkpoint}/metadata", encoding="utf-8") as file:
        return str(json.load(file)["id"])


def claim(directory: str, job: str, checkpoint: str) -> None:
    """Record in a local output directory which job and checkpoint write it.

    Raise JobError if another job or checkpoint writes it, or if it has files of something else.
    """
    owner = {"job": job, "checkpoint": os.path.abspath(checkpoint)}
    path = os.path.join(directory, OWNER)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if found != owner:
            raise JobError(
                f"{directory} is written by {found['job']} with the checkpoint {found['checkpoint']}; choose another "
                "directory, or that checkpoint"
            )
        return
    if os.path.isdir(directory) and os.listdir(directory):
        raise JobError(f"{directory} has files that no job wrote; choose an empty directory")
    os.makedirs(directory, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(owner, file)


def starting(where: str) -> dict[str, str]:
    """Return the options for earliest, latest or an ISO 8601 time (UTC unless it has a zone); JobError otherwise."""
    if where in ("earliest", "latest"):
        return {"startingOffsets": where}
    try:
        time = datetime.fromisoformat(where)
    except ValueError:
        raise JobError(f"{where!r}: write earliest, latest, or a time such as 2026-01-31T12:00") from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return {
        "startingTimestamp": str(int(time.timestamp() * 1000)),
        # Without a record at or after the time, the partition is read from its end.
        "startingOffsetsByTimestampStrategy": "latest",
    }


def _reader(reader: Any, options: SourceOptions) -> DataFrameReader | DataStreamReader:
    if bool(options.topic) == (options.topic_pattern is not None):
        raise JobError("name the topics by --topic NAME, or by --topic-pattern")
    selected = (
        {"subscribePattern": options.topic_pattern} if options.topic_pattern else {"subscribe": ",".join(options.topic)}
    )
    chosen: dict[str, str | None] = {
        **selected,
        **starting(options.start),
        "includeHeaders": "true",
        "minPartitions": str(options.min_partitions) if options.min_partitions else None,
        **kafka_options(options),
    }
    made: DataFrameReader | DataStreamReader = reader.format("kafka")
    return made.options(**{key: value for key, value in chosen.items() if value is not None})


def _limits(options: StreamOptions) -> dict[str, str]:
    most = options.max_offsets_per_trigger
    return {} if most is None else {"maxOffsetsPerTrigger": str(most)}
