"""2,000 partitions in 20 topics created, then one record written to each, with librdkafka; seconds and memory."""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.start import Command, apache_kafka, barnabas, free_port, resident_mb, started, wait_for_answer

TOPICS = 20
PARTITIONS = 100
TIMEOUT_S = 120.0


class Filled(NamedTuple):
    """The seconds to create the topics and to write to each partition, and the broker's memory afterwards."""

    create_s: float
    produce_s: float
    resident_mb: float


def fill(bootstrap: str) -> tuple[float, float]:
    """Create the topics in one request, produce to each partition; return the seconds of both."""
    from confluent_kafka import Message, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    settings: dict[str, object] = {"bootstrap.servers": bootstrap, "log_level": 0, "message.timeout.ms": 20_000}
    names = [f"many-{index}" for index in range(TOPICS)]
    admin, producer = AdminClient(settings), Producer({**settings, "acks": "all"})  # type: ignore[arg-type]  # a dict's values are invariant
    begun = time.perf_counter()
    created = admin.create_topics(
        [NewTopic(name, num_partitions=PARTITIONS, replication_factor=1) for name in names],
        operation_timeout=TIMEOUT_S,
        request_timeout=TIMEOUT_S,
    )
    for future in created.values():
        future.result(TIMEOUT_S)
    create_s = time.perf_counter() - begun
    waiting = {(name, partition) for name in names for partition in range(PARTITIONS)}

    def on_delivery(error: object, message: Message) -> None:
        if error is None:
            waiting.discard((message.topic(), message.partition()))

    # Apache Kafka responds before it serves every partition: refused records are sent again.
    while waiting and time.perf_counter() - begun < TIMEOUT_S:
        for name, partition in sorted(waiting):
            producer.produce(name, b"record", partition=partition, on_delivery=on_delivery)
        producer.flush(TIMEOUT_S)
    if waiting:
        raise RuntimeError(f"{len(waiting)} of {TOPICS * PARTITIONS} records were not delivered")
    return create_s, time.perf_counter() - begun - create_s


def measure(command: Command) -> Filled:
    """Fill one newly started broker."""
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        with started(command(Path(directory), port)) as process:
            wait_for_answer(process, port)
            seconds = fill(f"127.0.0.1:{port}")
            return Filled(*seconds, resident_mb(process.pid))


def run(brokers: Mapping[str, Command], runs: int) -> dict[str, list[Filled]]:
    """Measure the brokers in turn."""
    found: dict[str, list[Filled]] = {name: [] for name in brokers}
    for _ in range(runs):
        for name, command in brokers.items():
            found[name].append(measure(command))
    return found


def main(arguments: Sequence[str]) -> None:
    """Print medians for Barnabas and, on request, for Apache Kafka."""
    parser = argparse.ArgumentParser(prog="many_partitions", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--beside-kafka", action="store_true", help="measure Apache Kafka too (needs Java and Maven)")
    options = parser.parse_args(arguments)
    brokers: dict[str, Command] = {"Barnabas": barnabas}
    if options.beside_kafka:
        brokers["Apache Kafka"] = apache_kafka
    print(f"{'median of ' + str(options.runs):<16}{'create':>12}{'produce':>12}{'memory':>12}")
    for name, filled in run(brokers, options.runs).items():
        create_s, produce_s, memory_mb = (statistics.median(column) for column in zip(*filled, strict=True))
        print(f"{name:<16}{create_s:>10.2f} s{produce_s:>10.2f} s{memory_mb:>9.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
