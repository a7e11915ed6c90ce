"""3,000 partitions with three replicas: time to create them, and to elect new leaders after a kill.

Seconds from the creation until every broker has all of them with leaders, full ISRs and logs, and from kill -9 of a
broker that leads a third of them until both others have an active leader for every partition. Apache Kafka fences a
broker after its session of 9 seconds (`broker.session.timeout.ms`); Barnabas when its connections are lost.

A log is a directory with five files, so creating 9,000 of them depends on the file system: ext4 without a journal skips
every inode that was freed in the last minutes, one by one. A plain loop creates the same directories and files first;
its time is printed too. With `--directory /dev/shm` only the brokers' own time remains.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks._cluster import BARNABAS, CLUSTERS, NODES, Command, create_topics, metadata, running, wait_until
from benchmarks._loopback import Server

TOPICS = 30
PARTITIONS = 100
_LOG_FILES = ("log", "index", "timeindex", "leader-epoch-checkpoint", "partition.metadata")
_POLL_S = 0.05  # a response lists all partitions, and costs the broker some milliseconds


class Killed(NamedTuple):
    """One run; `led` is the number of partitions that the killed broker led, memory is of all three before the kill."""

    files_s: float
    create_s: float
    led: int
    moved_s: float
    resident_mb: float


def make_files(directory: Path) -> float:
    """Create the directories and files of the logs of three brokers, and return the seconds it took."""
    begun = time.perf_counter()
    for number in range(len(NODES) * TOPICS * PARTITIONS):
        log = directory / str(number)
        log.mkdir()
        for name in _LOG_FILES:
            (log / name).touch()
    return time.perf_counter() - begun


def measure(command: Command, of_controller: bool = False, directory: str | None = None) -> Killed:
    """Start a cluster, create the partitions, and kill a broker: the active controller, or another one."""
    names = [f"many-{number}" for number in range(TOPICS)]
    with TemporaryDirectory(dir=directory) as folder, running(command, directory=directory) as cluster:
        files_s = make_files(Path(folder))
        create_s = create_topics(cluster, names, PARTITIONS)
        memory_mb = cluster.resident_mb
        found = metadata(next(iter(cluster.nodes.values())), names)
        leaders = [one.leader_id for topic in found.topics for one in topic.partitions]
        active = cluster.controller
        victim = active if of_controller else next(node for node in cluster.nodes if node != active)
        begun = time.perf_counter()
        cluster.nodes[victim].process.kill()

        def moved(server: Server) -> bool:
            topics = metadata(server, names).topics
            return all(one.leader_id not in (-1, victim) for topic in topics for one in topic.partitions)

        for node, server in cluster.nodes.items():
            if node != victim:
                wait_until(
                    lambda at=server: moved(at),  # type: ignore[misc]  # a lambda with a default has no inferred type
                    f"every partition led by another, as {node} knows",
                    poll_s=_POLL_S,
                )
        return Killed(files_s, create_s, leaders.count(victim), time.perf_counter() - begun, memory_mb)


def main(arguments: Sequence[str]) -> None:
    """Print each run, and medians for Barnabas and, on request, for Apache Kafka."""
    parser = argparse.ArgumentParser(prog="leader_kill", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--controller", action="store_true", help="kill the active controller")
    parser.add_argument("--directory", metavar="DIR", help="where the brokers' data is (default: temporary files)")
    parser.add_argument("--beside-kafka", action="store_true", help="measure Apache Kafka too (needs Java and Maven)")
    options = parser.parse_args(arguments)
    clusters = CLUSTERS if options.beside_kafka else {BARNABAS: CLUSTERS[BARNABAS]}
    print(
        f"{'median of ' + str(options.runs):<16}{'plain loop':>12}{'created':>12}{'led':>8}{'moved':>12}{'memory':>12}"
    )
    for name, command in clusters.items():
        runs = [measure(command, options.controller, options.directory) for _ in range(options.runs)]
        files_s, create_s, led, moved_s, memory_mb = (statistics.median(column) for column in zip(*runs, strict=True))
        print(f"{name:<16}{files_s:>10.2f} s{create_s:>10.2f} s{led:>8.0f}{moved_s:>10.2f} s{memory_mb:>9.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
