"""Seconds of Spark's Kafka source to read a topic as a batch: one million records of 1 KB in six partitions.

Both brokers run at once, each filled by the same producer, and one Spark session reads them in turn, so that Spark, the
page cache and Apache Kafka are equally warm. Prints the seconds and the broker's CPU seconds of each read; the first
reads of each are cold.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from benchmarks._loads import produce_rate
from benchmarks._loopback import BROKER, Server, create_topic, running
from benchmarks._rows import KAFKA, in_turn
from benchmarks.start import Command, apache_kafka, barnabas
from spark_jobs.session import spark_session

PARTITIONS = 6
TOPIC = "read-by-spark"
_BROKERS: Mapping[str, Command] = {BROKER: barnabas, KAFKA: apache_kafka}


def read(spark: SparkSession, server: Server, records: int) -> tuple[float, float]:
    """Read the topic from its first to its last record; return seconds, and the broker's CPU seconds."""
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", server.bootstrap).option("subscribe", TOPIC)
    cpu_s, begun = sum(server.cpu()), time.perf_counter()
    [row] = source.load().selectExpr("count(value) AS records", "sum(length(value)) AS bytes").collect()
    seconds = time.perf_counter() - begun
    if row.records != records:
        raise RuntimeError(f"{row.records} of {records} records read")
    return seconds, sum(server.cpu()) - cpu_s


def main(arguments: Sequence[str]) -> None:
    """Print each read, and the medians without the cold ones."""
    parser = argparse.ArgumentParser(prog="spark_read", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--runs", type=int, default=6, metavar="N", help="counted reads of each")
    parser.add_argument("--cold", type=int, default=2, metavar="N", help="reads of each that do not count, first")
    parser.add_argument("--beside-kafka", action="store_true", help="measure Apache Kafka too (needs Java and Maven)")
    options = parser.parse_args(arguments)
    names = list(_BROKERS) if options.beside_kafka else [BROKER]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(running(_BROKERS[name])) for name in names}
        for server in servers.values():
            create_topic(server.port, TOPIC, PARTITIONS)
            produce_rate(server.bootstrap, TOPIC, "acks=1", records=options.records)
        spark = spark_session(
            "spark_read", master="local[2]", conf=(("spark.sql.shuffle.partitions", "2"), ("spark.ui.enabled", "false"))
        )
        stack.callback(spark.stop)
        for run in range(-options.cold, options.runs):
            for name in in_turn(names, run):
                seconds, cpu_s = read(spark, servers[name], options.records)
                print(f"{name:<16}{'cold' if run < 0 else run + 1:>6}{seconds:>8.2f} s{cpu_s:>8.2f} s CPU", flush=True)
                if run >= 0:
                    found[name].append((seconds, cpu_s))
    for name, reads in found.items():
        seconds, cpu_s = (statistics.median(column) for column in zip(*reads, strict=True))
        print(f"{name}: {seconds:.2f} s, {cpu_s:.2f} s of CPU, medians of {len(reads)}")


if __name__ == "__main__":
    main(sys.argv[1:])
