"""ProducerPerformance with acks=all to six partitions with three replicas and min.insync.replicas=2.

Megabytes (2^20 bytes) a second, CPU seconds of each broker per 10^9 bytes of record values, and the peak resident
memory of all three. Every broker leads two partitions and follows four; with `--one-leader` the first leads all six,
so that its figures are those of a leader only, and the others' of followers.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks._cluster import BARNABAS, CLUSTERS, NODES, Cluster, Command, create_topics, running
from benchmarks._loads import RECORD_BYTES, RECORDS, produce_rate
from benchmarks._rows import in_turn
from benchmarks._warmth import Figures, Warmed, warm_up

PARTITIONS = 6
MB_PER_S = "acks=all, three replicas: MB/s"
CPU = "the same: CPU s/GB of all three"
MEMORY = "the same: memory of all three at most, MB"
_LOOK_S = 0.2


class Produced(NamedTuple):
    """One round; CPU seconds a GB are by node."""

    mb_per_s: float
    user_s_per_gb: Sequence[float]
    system_s_per_gb: Sequence[float]
    resident_mb: float

    @property
    def cpu_s_per_gb(self) -> float:
        """Return the CPU seconds of all three brokers together."""
        return sum(self.user_s_per_gb) + sum(self.system_s_per_gb)

    @property
    def figures(self) -> Figures:
        """Return the compared figures, by name."""
        return {MB_PER_S: self.mb_per_s, CPU: self.cpu_s_per_gb, MEMORY: self.resident_mb}


def measure(command: Command, records: int = RECORDS, one_leader: bool = False) -> Warmed:
    """Start a cluster, and write to it until it is warm."""
    with _prepared(command, one_leader) as cluster:
        return warm_up(lambda: _measure(cluster, records).figures, CPU)


def measure_rounds(command: Command, records: int, one_leader: bool, rounds: int) -> list[Produced]:
    """Start a cluster, and write to it for `rounds` rounds."""
    with _prepared(command, one_leader) as cluster:
        return [_measure(cluster, records) for _ in range(rounds)]


@contextlib.contextmanager
def _prepared(command: Command, one_leader: bool) -> Iterator[Cluster]:
    with running(command) as cluster:
        create_topics(cluster, ("produced",), PARTITIONS, NODES if one_leader else ())
        yield cluster


def _measure(cluster: Cluster, records: int) -> Produced:
    highest_mb = cluster.resident_mb
    over = threading.Event()

    def look() -> None:
        nonlocal highest_mb
        while not over.wait(_LOOK_S):
            highest_mb = max(highest_mb, cluster.resident_mb)

    looking = threading.Thread(target=look)
    before = cluster.cpu()
    looking.start()
    try:
        rate = produce_rate(cluster.bootstrap, "produced", "acks=all", records=records)
    finally:
        over.set()
        looking.join()
    gigabytes = records * RECORD_BYTES / 1e9
    spent = [
        [(end - begun) / gigabytes for begun, end in zip(first, last, strict=True)]
        for first, last in zip(before, cluster.cpu(), strict=True)
    ]
    return Produced(rate, [user for user, _ in spent], [system for _, system in spent], highest_mb)


def main(arguments: Sequence[str]) -> None:
    """Print every round of Barnabas and, on request, of Apache Kafka: the first is cold."""
    parser = argparse.ArgumentParser(prog="replicated_produce", description=__doc__)
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="clusters of each, in turn")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="on each cluster")
    parser.add_argument("--records", type=int, default=RECORDS, metavar="N", help="of 1,000 bytes, in each round")
    parser.add_argument("--one-leader", action="store_true", help="let the first broker lead all partitions")
    parser.add_argument("--beside-kafka", action="store_true", help="measure Apache Kafka too (needs Java and Maven)")
    options = parser.parse_args(arguments)
    clusters = CLUSTERS if options.beside_kafka else {BARNABAS: CLUSTERS[BARNABAS]}
    print(f"{'':<16}{'round':>6}{'MB/s':>8}{'user s/GB of each':>24}{'system s/GB of each':>24}{'memory':>12}")
    for run in range(options.runs):
        for name in in_turn(clusters, run):
            rounds = measure_rounds(clusters[name], options.records, options.one_leader, options.rounds)
            for number, one in enumerate(rounds, 1):
                user, system = (
                    " ".join(f"{figure:.2f}" for figure in column)
                    for column in (one.user_s_per_gb, one.system_s_per_gb)
                )
                print(
                    f"{name:<16}{number:>6}{one.mb_per_s:>8.1f}{user:>24}{system:>24}{one.resident_mb:>9.0f} MB",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])
