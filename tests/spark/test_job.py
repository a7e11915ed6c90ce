"""How jobs end: after the running micro-batch on SIGTERM, and on errors with one sentence that says what to do."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs import job as job_module
from spark_jobs.errors import JobError, remedy_of
from spark_jobs.job import ADAPTIVE, StopRequested, adaptive, await_end, writer
from spark_jobs.options import StreamOptions
from tests.chaos.cluster import wait_until

# Batches follow each other at once, so that the query is never idle.
PROGRAM = """
import sys, time
from dataclasses import dataclass
from pathlib import Path
from spark_jobs.job import Job, writer
from spark_jobs.options import StreamOptions

OUT = Path(sys.argv.pop(1))

def start(spark, options):
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()

    def write(batch, number):
        (OUT / f"{number}.begun").touch()
        time.sleep(1)
        batch.write.json(str(OUT / f"{number}.json"))
        (OUT / f"{number}.done").touch()

    return writer(numbers, "slow", options, write).start()

sys.exit(Job("slow", StreamOptions, start, "A slow job.", "slow").main())
"""


def test_sigterm_ends_a_job_after_the_batch_that_runs(tmp_path: Path) -> None:
    program = tmp_path / "slow.py"
    program.write_text(PROGRAM)
    words = ["--checkpoint", str(tmp_path / "c"), "--master", "local[1]", "--trigger", "0 seconds", "--group", ""]
    command = [sys.executable, str(program), str(tmp_path), *words]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as job:
        wait_until(lambda: (tmp_path / "1.begun").exists() or job.poll() is not None, "a batch runs", 120)
        job.send_signal(signal.SIGTERM)
        _, printed = job.communicate(timeout=120)
    assert (job.returncode, "Traceback" in printed) == (0, False), printed
    begun, done = ({path.stem for path in tmp_path.glob(f"*.{kind}")} for kind in ("begun", "done"))
    assert begun == done
    assert {"0", "1"} <= done
    assert len(done) == len(list((tmp_path / "c" / "commits").glob("[0-9]*")))


def test_a_second_signal_ends_a_job_amid_its_batch(spark: SparkSession, tmp_path: Path) -> None:
    """The error of the cancelled batch is short: Java's stack overflowed on the text of a long one."""
    begun = threading.Event()

    def write(batch: DataFrame, _: int) -> None:
        begun.set()
        batch.selectExpr("java_method('java.lang.Thread', 'sleep', 600000L + value)").collect()

    def interrupt_twice() -> None:
        assert begun.wait(120)
        os.kill(os.getpid(), signal.SIGINT)
        wait_until(lambda: job_module._requests, "the signal is recorded", 60)
        os.kill(os.getpid(), signal.SIGINT)

    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    query = writer(numbers, "slow", StreamOptions(checkpoint=str(tmp_path)), write).start()
    user = threading.Thread(target=interrupt_twice)
    user.start()
    await_end(query)
    user.join()
    assert not query.isActive
    assert StopRequested.__name__ in str(query.exception())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("org.apache.kafka.common.errors.UnknownTopicOrPartitionException: x", "a topic does not exist: create it"),
        ("Timed out waiting for a node assignment. Call: describeTopics", "no broker answers at the address of --brok"),
        ("clicks-0's offset was changed from 9 to 3, some data may have been missed", "records were deleted before"),
        ("java.io.IOException: No space left on device", "a disk is full: free space, then start the job again"),
        ("a\n/x: Permission denied\nb", "no permission: /x: Permission denied"),
        (
            "o78.create.\n: java.io.IOException: Mkdirs failed to create file:/a/b",
            "created: java.io.IOException: Mkdirs",
        ),
        ("org.apache.kafka.common.errors.RecordTooLargeException: 2 MB", "raise max.message.bytes of the topic"),
        ("org.apache.kafka.common.errors.InvalidTopicException: a b", "the brokers refuse the topic: org.apache"),
        ("java.util.regex.PatternSyntaxException: Unclosed group near index 1", "a pattern is not one of Java's"),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited", "it needs Java 17 or 21"),
    ],
)
def test_errors_of_spark_and_kafka_end_in_a_sentence(text: str, sentence: str) -> None:
    assert sentence in (remedy_of(Exception(text)) or "")


def test_the_job_s_own_errors_are_their_sentence_and_unknown_ones_have_none() -> None:
    assert remedy_of(JobError("do that")) == "do that"
    assert remedy_of(RuntimeError("a bug")) is None


def test_shuffle_partitions_adapt_within_a_block_only(spark: SparkSession) -> None:
    spark.conf.set(ADAPTIVE, "false")
    try:
        with adaptive(spark.range(1)):
            assert spark.conf.get(ADAPTIVE) == "true"
        assert spark.conf.get(ADAPTIVE) == "false"
    finally:
        spark.conf.unset(ADAPTIVE)
