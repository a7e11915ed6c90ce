"""Spark's jobs on Barnabas and Apache Kafka: batch and streaming reads, the latency of windows, an archive.

    read        a batch read of a topic of 1-KB records in six partitions
    triggers    a streaming read of the same topic in six micro-batches (`availableNow`)
    latency     `windows` at 1,000 records a second: from the send of a window's last record to the window's result
    archive     `archive` of a topic to Parquet

The latency contains what Spark waits for: a later record, which moves the watermark, and the micro-batch after it.
Both brokers run at once, each filled by the same producer, and one Spark session reads them in turn, so that Spark, the
page cache and Apache Kafka are equally warm. Each figure is a median of the counted runs; the first runs of each do not
count.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from benchmarks._loads import produce_rate
from benchmarks._loopback import BROKER, Server, create_topic, running
from benchmarks._rows import HEADINGS, KAFKA, at_most, in_turn, row
from benchmarks.start import Command, apache_kafka, barnabas
from spark_jobs import archive, windows
from spark_jobs.io import Destination
from spark_jobs.session import spark_session

PARTITIONS = 6
TRIGGERS = 6
TOPIC = "read-by-spark"
ARCHIVED = "archived-by-spark"
RATE = 1_000
FIRST_RESULT_S = 60
KEYS = 10
WINDOW = "1 second"
CONF = (("spark.sql.shuffle.partitions", "2"), ("spark.ui.enabled", "false"), ("spark.driver.memory", "2g"))
_BROKERS: Mapping[str, Command] = {BROKER: barnabas, KAFKA: apache_kafka}

Measure = Callable[[SparkSession, Server, argparse.Namespace], float]


def read(spark: SparkSession, server: Server, options: argparse.Namespace) -> float:
    """Return the seconds of a batch read of the topic from its first to its last record."""
    begun = time.perf_counter()
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", server.bootstrap).option("subscribe", TOPIC)
    [found] = source.load().selectExpr("count(value) AS records", "sum(length(value)) AS bytes").collect()
    seconds = time.perf_counter() - begun
    _expect(found.records, options.records)
    return seconds


def triggers(spark: SparkSession, server: Server, options: argparse.Namespace) -> float:
    """Return the seconds of a streaming read of the topic in TRIGGERS micro-batches."""
    begun = time.perf_counter()
    made = spark.readStream.format("kafka").option("kafka.bootstrap.servers", server.bootstrap)
    # Spark rounds each partition's share down.
    most = str(options.records // TRIGGERS + PARTITIONS)
    source = made.options(subscribe=TOPIC, startingOffsets="earliest", maxOffsetsPerTrigger=most).load()
    with tempfile.TemporaryDirectory() as folder:
        writer = source.selectExpr("length(value)").writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - begun
        batches = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    _expect(sum(batches), options.records)
    _expect(len(batches), TRIGGERS)
    return seconds


def archived(spark: SparkSession, server: Server, options: argparse.Namespace) -> float:
    """Return the seconds in which `archive` writes a topic of `--archived` records to Parquet."""
    with tempfile.TemporaryDirectory() as folder:
        chosen = archive.ArchiveOptions(
            brokers=server.bootstrap,
            topic=(ARCHIVED,),
            checkpoint=f"{folder}/checkpoint",
            to=Destination("parquet", f"{folder}/archive"),
            available_now=True,
        )
        begun = time.perf_counter()
        query = archive.start(spark, chosen)
        query.awaitTermination()
        seconds = time.perf_counter() - begun
        _expect(spark.read.parquet(f"{folder}/archive").count(), options.archived)
    return seconds


def latency(spark: SparkSession, server: Server, options: argparse.Namespace) -> float:
    """Return the median milliseconds from the send of a window's last record to its result, over keys and windows."""
    source, results = f"clicks-{time.time_ns()}", f"windows-{time.time_ns()}"
    create_topic(server.port, source, 1)
    create_topic(server.port, results, 1)
    sent_at: list[float] = []
    found: list[float] = []
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(results, 0, 0)])
    with tempfile.TemporaryDirectory() as folder:
        chosen = windows.WindowsOptions(
            brokers=server.bootstrap,
            topic=(source,),
            key="key",
            value="n",
            window=WINDOW,
            lateness="0 seconds",
            start="latest",
            trigger="0 seconds",
            checkpoint=f"{folder}/checkpoint",
            to=Destination("topic", results),
        )
        query = windows.start(spark, chosen)
        try:
            with _fed(server.bootstrap, source, sent_at):
                deadline = time.monotonic() + FIRST_RESULT_S
                while time.monotonic() < deadline:
                    message: Any = consumer.poll(0.1)
                    if message is not None and message.error() is None:
                        if not found:
                            deadline = time.monotonic() + options.seconds
                        # The values of the records are their numbers.
                        last = int(json.loads(message.value())["max"])
                        found.append((time.monotonic() - sent_at[last]) * 1000)
            # Spark takes an interrupted batch for a failed one, and logs it.
            query.processAllAvailable()
        finally:
            consumer.close()
            query.stop()
    if not found:
        raise RuntimeError(f"no window within {FIRST_RESULT_S} s")
    # The query catches up first with what was sent while it started.
    return statistics.median(found[len(found) // 3 :])


MEASURES: Mapping[str, tuple[str, Measure]] = {
    "read": ("batch read, s", read),
    "triggers": ("availableNow in 6 triggers, s", triggers),
    "latency": ("windows at 1,000 records/s: latency, ms", latency),
    "archive": ("archive to Parquet, s", archived),
}


@contextlib.contextmanager
def _fed(bootstrap: str, topic: str, sent_at: list[float]) -> Iterator[None]:
    """Write RATE records a second during the block; append the monotonic time of each to `sent_at`."""
    ended = threading.Event()

    def feed() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        begun = time.monotonic()
        while not ended.wait(0.005):
            while len(sent_at) < (time.monotonic() - begun) * RATE:
                number = len(sent_at)
                sent_at.append(time.monotonic())
                producer.produce(topic, json.dumps({"key": f"k{number % KEYS}", "n": number}))
            producer.poll(0)
        producer.flush(30)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _expect(found: int, wanted: int) -> None:
    if found != wanted:
        raise RuntimeError(f"{found} instead of {wanted}")


def main(arguments: Sequence[str]) -> None:
    """Print each run, and a row of medians for each measure."""
    parser = argparse.ArgumentParser(
        prog="spark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=list(MEASURES), help="measure this, and others so named")
    parser.add_argument("--records", type=int, default=3_000_000, metavar="N", help="of the topic that is read")
    parser.add_argument("--archived", type=int, default=1_000_000, metavar="N", help="of the topic that is archived")
    parser.add_argument(
        "--seconds", type=float, default=12, metavar="S", help="of each run of latency, from its first result"
    )
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="counted runs of each")
    parser.add_argument("--cold", type=int, default=1, metavar="N", help="runs of each that do not count, first")
    parser.add_argument("--beside-kafka", action="store_true", help="measure Apache Kafka too (needs Java and Maven)")
    options = parser.parse_args(arguments)
    chosen = options.only or list(MEASURES)
    names = list(_BROKERS) if options.beside_kafka else [BROKER]
    rows: list[tuple[str, dict[str, list[float]]]] = []
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(running(_BROKERS[name])) for name in names}
        for topic, records, needed in (
            (TOPIC, options.records, {"read", "triggers"}),
            (ARCHIVED, options.archived, {"archive"}),
        ):
            for server in servers.values() if needed & set(chosen) else ():
                create_topic(server.port, topic, PARTITIONS)
                produce_rate(server.bootstrap, topic, "acks=1", records=records)
        spark = spark_session("benchmark", master="local[2]", conf=(*archive.CONF, *CONF))
        stack.callback(spark.stop)
        for measure in chosen:
            label, run = MEASURES[measure]
            found: dict[str, list[float]] = {name: [] for name in names}
            for number in range(-options.cold, options.runs):
                for name in in_turn(names, number):
                    cpu_s = sum(servers[name].cpu())
                    figure = run(spark, servers[name], options)
                    cpu_s = sum(servers[name].cpu()) - cpu_s
                    shown = "cold" if number < 0 else str(number + 1)
                    cells = f"{measure:<10}{name:<16}{shown:>6}{figure:>10.2f}{cpu_s:>8.2f} s of the broker's CPU"
                    print(cells, flush=True)
                    if number >= 0:
                        found[name].append(figure)
            rows.append((label, found))
    if not options.beside_kafka:
        for label, found in rows:
            print(f"{label}: {statistics.median(found[BROKER]):.3g}")
        return
    print(HEADINGS)
    for label, found in rows:
        print(row(label, at_most(1), found[BROKER], found[KAFKA]))


if __name__ == "__main__":
    main(sys.argv[1:])
