"""How a job runs: its options, its session, its query until the end or a signal, and its errors in one sentence each.

SIGTERM and SIGINT end a query after the micro-batch that runs: its results are complete, and a restart with the same
checkpoint goes on behind it. A batch that begins after the signal ends in `StopRequested` before it writes anything. A
second signal ends the query at once; the restart then repeats the batch.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from spark_jobs import JOBS, io
from spark_jobs.cluster import ABSENT, close_all
from spark_jobs.errors import JobError, NotInstalled, absent_text, remedy_of
from spark_jobs.files import claim_checkpoint
from spark_jobs.options import SessionOptions, StreamOptions, TopicOptions, parse, parser_of
from spark_jobs.progress import ProgressListener, say

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

O = TypeVar("O", bound=SessionOptions)  # noqa: E741 - the options

FAILED = 1
USAGE = 2
POLL_S = 1
ADAPTIVE = "spark.sql.adaptive.enabled"


class StopRequested(Exception):  # noqa: N818 - not an error
    """A micro-batch began after the process was asked to stop, or was cancelled; the next start runs it."""


@dataclass(frozen=True)
class Job(Generic[O]):
    """A job: `start` begins a query, which runs until its end, or does all its work and returns None.

    Args:
        name: The job's name; its module is `spark_jobs.NAME`.
        options: Its options.
        start: What the job does.
        description: A sentence for the help.
        example: A command line for the help.
        connectors: The connectors beside Kafka's that options need (`jars.COORDINATES`).
        fixed: Names of options that must be the same in every start with a checkpoint.
        conf: Settings of the session, which `--spark-conf` overrides.
        anew: Whether options discard what the checkpoint has.
        finish: What it does after the end of the query, such as a picture of the results.
        check: Raise JobError for options that `start` would refuse, as far as that is known without Spark: starting it,
            or fetching its connectors, takes from seconds to minutes.

    """

    name: str
    options: type[O]
    start: Callable[[SparkSession, O], StreamingQuery | None]
    description: str
    example: str
    connectors: Callable[[O], tuple[str, ...]] = lambda _: ()
    fixed: tuple[str, ...] = ()
    conf: tuple[tuple[str, str], ...] = ()
    anew: Callable[[O], bool] = lambda _: False
    finish: Callable[[SparkSession, O], None] = lambda _spark, _options: None
    check: Callable[[O], object] = lambda _: None

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run the job with its command-line arguments; return the exit status."""
        options = self.parsed(sys.argv[1:] if arguments is None else arguments)
        status = USAGE
        try:
            self.check(options)
            status = FAILED
            return self.run(options)
        except Exception as error:
            remedy = remedy_of(error)
            if remedy is None:
                raise
            say(f"{self.name}: {remedy}")
            return FAILED if isinstance(error, NotInstalled) else status

    def parsed(self, arguments: Sequence[str]) -> O:
        """Return the options of a command line; exit with status 2 and a message if they are invalid."""
        return parse(
            self.options,
            parser_of(self.options, f"barnabas spark run {self.name}", self.description, self.example),
            arguments,
            elsewhere=lambda: (import_module(f"{__package__}.{name}").JOB.options for name in JOBS),
        )

    def all_connectors(self, options: O) -> tuple[str, ...]:
        """Return Kafka's connector and those that the options need."""
        return tuple(dict.fromkeys(("kafka", *self.connectors(options))))

    def claim(self, spark: SparkSession, options: StreamOptions) -> None:
        """Record in a checkpoint that it is of this job, its options and topics; JobError if it is of others."""
        fixed = {name: str(getattr(options, name)) for name in self.fixed}
        claim_checkpoint(spark, options.checkpoint, self.name, fixed)
        if not self.anew(cast("O", options)):
            io.check_topic_ids(spark, options)

    def run(self, options: O) -> int:
        """Run the job in a session of its own, which ends with it."""
        from spark_jobs.session import is_away, spark_session

        master = dict(options.spark_conf).get("spark.master", options.master)
        if master is not None and is_away(master):
            say(f"{self.name}: no master answers at {master} yet: Spark tries for about a minute")
        spark = spark_session(
            f"barnabas {self.name}",
            master=options.master,
            connectors=self.all_connectors(options),
            conf=(*self.conf, *options.spark_conf),
        )
        try:
            if isinstance(options, StreamOptions) and options.checkpoint:
                self.claim(spark, options)
                _publish_progress(spark, self.name, options)
            query = self.start(spark, options)
            if query is not None:
                await_end(query)
            self.finish(spark, options)
        except Exception as error:
            if absent := absent_topics(error, spark, options):
                raise JobError(absent_text(absent)) from error
            raise
        finally:
            spark.stop()
            close_all()
        return 0


def absent_topics(error: Exception, spark: SparkSession, options: SessionOptions) -> list[str]:
    """Return which topics of --topic do not exist, if that may be why an error was raised.

    Kafka's error does not name them.
    """
    if ABSENT not in str(error) or not isinstance(options, TopicOptions) or not options.topic:
        return []
    try:
        return io.absent_topics(spark, options)
    except Exception:  # the first error is reported then
        return []


def writer(
    rows: DataFrame, name: str, options: StreamOptions, write: Callable[[DataFrame, int], None], mode: str = "append"
) -> DataStreamWriter:
    """Return the writer of a streaming query that hands each micro-batch and its id to `write`."""

    def write_unless_stopping(batch: DataFrame, batch_id: int) -> None:
        if _requests:
            raise StopRequested(f"batch {batch_id} is left to the next start")
        try:
            write(batch, batch_id)
        except Exception:
            if len(_requests) > 1:
                # Spark matches the text of the error of a stopped query by an expression that overflows Java's stack
                # if the text is long, as that of a cancelled write is.
                raise StopRequested(f"batch {batch_id} is repeated by the next start") from None
            raise

    made = rows.writeStream.outputMode(mode).foreachBatch(write_unless_stopping).queryName(name)
    made = made.option("checkpointLocation", options.checkpoint)
    return made.trigger(availableNow=True) if options.available_now else made.trigger(processingTime=options.trigger)


@contextmanager
def adaptive(batch: DataFrame) -> Iterator[None]:
    """Adapt the number of shuffle partitions to the data during the block, which computes with a micro-batch.

    Spark does not do so in streaming queries: the number of partitions of their state is fixed.
    """
    conf = batch.sparkSession.conf
    former = conf.get(ADAPTIVE)
    conf.set(ADAPTIVE, "true")
    try:
        yield
    finally:
        conf.set(ADAPTIVE, str(former))


def await_end(query: StreamingQuery) -> None:
    """Wait until the query ends, or a signal has ended it after its running batch.

    Raise the query's exception if it failed.
    """
    with _stop_requests() as requests:
        try:
            while not query.awaitTermination(POLL_S):
                if len(requests) > 1 or (requests and not query.status["isTriggerActive"]):
                    query.stop()
                    return
        except Exception as error:
            if StopRequested.__name__ not in str(error):
                raise


def _publish_progress(spark: SparkSession, name: str, options: StreamOptions) -> None:
    group = f"spark-{name}" if options.group is None else options.group
    listener = ProgressListener(spark, group or None, io.kafka_options(options), lines=sys.stderr.isatty())
    spark.streams.addListener(listener)


# The signals that have asked the process to stop.
_requests: list[int] = []


@contextmanager
def _stop_requests() -> Iterator[Sequence[int]]:
    """Collect the signals that ask the process to stop during the block."""

    def record(number: int, _frame: FrameType | None) -> None:
        _requests.append(number)

    former: Mapping[signal.Signals, Any] = {
        number: signal.signal(number, record) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield _requests
    finally:
        _requests.clear()
        for number, handler in former.items():
            signal.signal(number, handler)
