"""Seconds of Spark jobs on a broker, beside Apache Kafka: the same job, the same Spark session, alternating.

Both brokers run at once, each filled by the same producer, and one Spark session reads them in turn, so that Spark, the
page cache and Apache Kafka are equally warm. `archive`: the job archive of 1 GB, a million records of 1 KB in six
partitions, from an empty checkpoint to a complete Parquet table.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import SparkSession

from benchmarks._loads import produce_rate
from benchmarks._loopback import BROKER, Server, create_topic, running
from benchmarks._rows import KAFKA, in_turn
from benchmarks.start import Command, apache_kafka, barnabas
from spark_jobs import archive
from spark_jobs.archive import ArchiveOptions
from spark_jobs.io import Destination
from spark_jobs.session import spark_session

PARTITIONS = 6
TOPIC = "spark"
CONF = (("spark.sql.shuffle.partitions", "2"), ("spark.ui.enabled", "false"), ("spark.driver.memory", "2g"))
_BROKERS: Mapping[str, Command] = {BROKER: barnabas, KAFKA: apache_kafka}


class JobRun(NamedTuple):
    """A job that is measured: records that the topic has, and the function that runs it once and checks its result."""

    records: int
    run: Callable[[SparkSession, str, int], None]


def run_archive(spark: SparkSession, bootstrap: str, records: int) -> None:
    """Archive the topic to a new Parquet table; RuntimeError if it has another number of records."""
    with tempfile.TemporaryDirectory() as folder:
        options = ArchiveOptions(
            brokers=bootstrap,
            topic=(TOPIC,),
            checkpoint=f"{folder}/checkpoint",
            to=Destination("parquet", f"{folder}/table"),
            available_now=True,
        )
        archive.start(spark, options).awaitTermination()
        found = spark.read.parquet(f"{folder}/table").count()
    if found != records:
        raise RuntimeError(f"{found} of {records} records archived")


JOB_RUNS: Mapping[str, JobRun] = {"archive": JobRun(1_000_000, run_archive)}


def main(arguments: Sequence[str]) -> None:
    """Print each run, and the medians without the cold ones."""
    parser = argparse.ArgumentParser(prog="spark", description=__doc__)
    parser.add_argument("--only", choices=list(JOB_RUNS), help="run one of them")
    parser.add_argument("--records", type=int, metavar="N", help="records of the topic (default: each job's)")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="counted runs of each")
    parser.add_argument("--cold", type=int, default=1, metavar="N", help="runs of each that do not count, first")
    parser.add_argument("--beside-kafka", action="store_true", help="measure Apache Kafka too (needs Java and Maven)")
    options = parser.parse_args(arguments)
    names = list(_BROKERS) if options.beside_kafka else [BROKER]
    for job in [options.only] if options.only else JOB_RUNS:
        measured = JOB_RUNS[job]
        _measure(job, measured._replace(records=options.records or measured.records), names, options.runs, options.cold)


def _measure(job: str, measured: JobRun, names: Sequence[str], runs: int, cold: int) -> None:
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(running(_BROKERS[name])) for name in names}
        for server in servers.values():
            create_topic(server.port, TOPIC, PARTITIONS)
            produce_rate(server.bootstrap, TOPIC, "acks=1", records=measured.records)
        spark = spark_session("benchmark", master="local[2]", conf=(*archive.CONF, *CONF))
        stack.callback(spark.stop)
        for run in range(-cold, runs):
            for name in in_turn(names, run):
                seconds, cpu_s = _timed(spark, servers[name], measured)
                number = "cold" if run < 0 else str(run + 1)
                print(f"{job:<10}{name:<16}{number:>6}{seconds:>8.2f} s{cpu_s:>8.2f} s of the broker's CPU", flush=True)
                if run >= 0:
                    found[name].append((seconds, cpu_s))
    for name, all_runs in found.items():
        seconds, cpu_s = (statistics.median(column) for column in zip(*all_runs, strict=True))
        print(f"{job}: {name}: {seconds:.2f} s, {cpu_s:.2f} s of the broker's CPU, medians of {len(all_runs)}")


def _timed(spark: SparkSession, server: Server, measured: JobRun) -> tuple[float, float]:
    """Return the seconds of a run, and the broker's CPU seconds."""
    cpu_s, begun = sum(server.cpu()), time.perf_counter()
    measured.run(spark, server.bootstrap, measured.records)
    return time.perf_counter() - begun, sum(server.cpu()) - cpu_s


if __name__ == "__main__":
    main(sys.argv[1:])
