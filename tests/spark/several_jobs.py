"""Run streaming jobs in one session until they end, or are killed: `python -m tests.spark.several_jobs JSON [FOLDER]`.

The JSON is a list of pairs of a job's name and its arguments. With a folder, each job stops in its second batch, when
the results are written but Spark has not recorded the batch's end, and leaves a file there.
"""

import json
import sys
import tempfile
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_jobs.job import Job
from spark_jobs.session import spark_session


def start(spark: SparkSession, job: Job[Any], options: Any) -> StreamingQuery:
    """Start a job with its settings, which its query keeps."""
    for key, value in job.conf:
        spark.conf.set(key, value)
    try:
        query = job.start(spark, options)
        assert query is not None
        return query
    finally:
        for key, _ in job.conf:
            spark.conf.unset(key)


def hold_second_batches(folder: str) -> None:
    """Let the second batch of each query stay unfinished."""
    for_each_batch = DataStreamWriter.foreachBatch

    def held(self: DataStreamWriter, write: Callable[[DataFrame, int], None]) -> DataStreamWriter:
        def write_and_hold(batch: DataFrame, number: int) -> None:
            write(batch, number)
            if number == 1:
                tempfile.mkstemp(dir=folder)
                threading.Event().wait()

        return for_each_batch(self, write_and_hold)

    DataStreamWriter.foreachBatch = held  # type: ignore[method-assign, assignment]


def main() -> None:
    """Run the jobs of the command line."""
    if sys.argv[2:]:
        hold_second_batches(sys.argv[2])
    named = [(import_module(f"spark_jobs.{name}").JOB, words) for name, words in json.loads(sys.argv[1])]
    jobs = [(job, job.parsed(words)) for job, words in named]
    connectors = dict.fromkeys(connector for job, options in jobs for connector in job.all_connectors(options))
    spark = spark_session("several", master="local[2]", connectors=connectors)
    for job, options in jobs:
        job.claim(spark, options)
    for query in [start(spark, job, options) for job, options in jobs]:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
