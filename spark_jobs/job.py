"""How a job runs: its options, its session, its query until the end or a signal, and its errors in one sentence each.

SIGTERM and SIGINT end a query after the micro-batch that runs: its results are complete, and a restart with the same
checkpoint goes on behind it. A second signal ends it at once; the restart then repeats the batch.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spark_jobs import io
from spark_jobs.options import SessionOptions, StreamOptions, environment, parse, parser_of
from spark_jobs.progress import first_line, say

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

O = TypeVar("O", bound=SessionOptions)  # noqa: E741 - the options

FAILED = 1
POLL_S = 1

# Patterns of Spark's and Kafka's messages, and what to do; {0} is the first group of the pattern.
REMEDIES = (
    (r"UnknownTopicOrPartitionException", "a topic does not exist: create it, or correct --topic"),
    (r"TopicAuthorizationException|GroupAuthorizationException|Not authorized", "the brokers refuse access: {line}"),
    (
        r"(?:TimeoutException|No resolvable bootstrap urls|Timed out waiting for a node|DisconnectException)",
        "no broker answers at the address of --brokers; start one, or correct the address",
    ),
    (
        r"offset was changed from|KAFKA_DATA_LOSS|OffsetOutOfRangeException|may have been missed",
        "records were deleted before they were read: continue without them by -X failOnDataLoss=false, or begin anew "
        "with another --checkpoint",
    ),
    (
        r"(?:Detected change in|There are \[.*\] sources in the checkpoint|STREAMING_STATEFUL_OPERATOR"
        r"_NOT_MATCH|Multiple streaming queries are concurrently using)",
        "the checkpoint is of another query: choose another --checkpoint",
    ),
    (r"No space left on device", "a disk is full: free space, then start the job again; it goes on where it stopped"),
    (r"Permission denied|AccessDeniedException", "no permission: {line}"),
)


@dataclass(frozen=True)
class Job(Generic[O]):
    """A job: `start` begins a query, which runs until its end, or does all its work and returns None."""

    name: str
    options: type[O]
    start: Callable[[SparkSession, O], StreamingQuery | None]
    description: str
    example: str
    connectors: Callable[[O], tuple[str, ...]] = lambda _: ()

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run the job with its command-line arguments; return the exit status."""
        given = sys.argv[1:] if arguments is None else arguments
        parser = parser_of(self.options, f"barnabas spark run {self.name}", self.description, self.example)
        try:
            options = parse(self.options, parser, given, environment())
        except ValueError as error:
            parser.error(str(error))
        try:
            return self.run(options)
        except Exception as error:
            remedy = remedy_of(error)
            if remedy is None:
                raise
            say(f"{self.name}: {remedy}")
            return FAILED

    def run(self, options: O) -> int:
        """Run the job in a session of its own, which ends with it."""
        from spark_jobs.session import spark_session

        spark = spark_session(
            f"barnabas {self.name}",
            master=options.master,
            connectors=("kafka", *self.connectors(options)),
            conf=options.spark_conf,
        )
        try:
            if isinstance(options, StreamOptions):
                _publish_progress(spark, self.name, options)
            query = self.start(spark, options)
            if query is not None:
                await_end(query)
        finally:
            spark.stop()
        return 0


def writer(
    rows: DataFrame, name: str, options: StreamOptions, write: Callable[[DataFrame, int], None], mode: str = "append"
) -> DataStreamWriter:
    """Return the writer of a streaming query that hands each micro-batch and its id to `write`."""
    made = rows.writeStream.outputMode(mode).foreachBatch(write).queryName(name)
    made = made.option("checkpointLocation", options.checkpoint)
    return made.trigger(availableNow=True) if options.available_now else made.trigger(processingTime=options.trigger)


def await_end(query: StreamingQuery) -> None:
    """Wait until the query ends, or a signal has ended it after its running batch.

    Raise the query's exception if it failed.
    """
    with _stop_requests() as requests:
        while not query.awaitTermination(POLL_S):
            if len(requests) > 1 or (requests and not query.status["isTriggerActive"]):
                query.stop()
                return


def remedy_of(error: BaseException) -> str | None:
    """Return a sentence that says what to do about an error, None if the error is not known."""
    if isinstance(error, io.JobError | RuntimeError) and not hasattr(error, "java_exception"):
        return str(error)
    text = str(error)
    for pattern, remedy in REMEDIES:
        if re.search(pattern, text):
            lines = (line.strip() for line in text.splitlines() if re.search(pattern, line))
            return remedy.format(line=next(lines, first_line(error)))
    return None


def _publish_progress(spark: SparkSession, name: str, options: StreamOptions) -> None:
    from spark_jobs.progress import ProgressListener

    group = f"spark-{name}" if options.group is None else options.group
    listener = ProgressListener(spark, group or None, io.kafka_options(options), lines=sys.stderr.isatty())
    spark.streams.addListener(listener)


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """Collect the signals that ask the process to stop during the block."""
    requests: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        requests.append(number)

    former: dict[signal.Signals, Any] = {
        number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield requests
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
