"""Produce with acks=all to six partitions of three replicas, two of which have to be in sync, by ProducerPerformance.

Megabytes (2^20 bytes) a second, CPU seconds of each broker for each 10^9 bytes of record values, and the resident
memory of all three at its highest. Every broker leads two partitions and follows four; with `--one-leader` the first
leads all six, so that its figures are those of a leader alone, and the others' of followers.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks._cluster import BARNABAS, CLUSTERS, NODES, Cluster, Command, create_topics, running
from benchmarks._loads import RECORD_BYTES, RECORDS, produce_rate

PARTITIONS = 6
_WARM_SHARE = 5
_LOOK_S = 0.2


class Produced(NamedTuple):
    """One run; CPU seconds a GB are by node."""

    mb_per_s: float
    user_s_per_gb: Sequence[float]
    system_s_per_gb: Sequence[float]
    resident_mb: float

    @property
    def cpu_s_per_gb(self) -> float:
        """Return what all three brokers take together."""
        return sum(self.user_s_per_gb) + sum(self.system_s_per_gb)


def measure(command: Command, records: int = RECORDS, one_leader: bool = False) -> Produced:
    """Start a cluster, and write to it, after some records that do not count."""
    replicas = NODES if one_leader else ()
    with running(command) as cluster:
        create_topics(cluster, ("warm", "produced"), PARTITIONS, replicas)
        produce_rate(cluster.bootstrap, "warm", "all", records // _WARM_SHARE)
        return _measure(cluster, records)


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
        rate = produce_rate(cluster.bootstrap, "produced", "all", records)
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
    """Print the runs of Barnabas and, where asked, of Apache Kafka, in turn, and their medians."""
    parser = argparse.ArgumentParser(prog="replicated_produce", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--records", type=int, default=RECORDS, metavar="N", help="of 1,000 bytes, in each run")
    parser.add_argument("--one-leader", action="store_true", help="let the first broker lead all partitions")
    parser.add_argument("--beside-kafka", action="store_true", help="measure Apache Kafka too (needs Java and Maven)")
    options = parser.parse_args(arguments)
    clusters = CLUSTERS if options.beside_kafka else {BARNABAS: CLUSTERS[BARNABAS]}
    rates: dict[str, list[float]] = {name: [] for name in clusters}
    print(f"{'':<16}{'MB/s':>8}{'user s/GB of each':>24}{'system s/GB of each':>24}{'memory':>12}")
    for _ in range(options.runs):
        for name, command in clusters.items():
            run = measure(command, options.records, options.one_leader)
            rates[name].append(run.mb_per_s)
            user, system = (" ".join(f"{one:.2f}" for one in row) for row in (run.user_s_per_gb, run.system_s_per_gb))
            print(f"{name:<16}{run.mb_per_s:>8.1f}{user:>24}{system:>24}{run.resident_mb:>9.0f} MB", flush=True)
    for name, found in rates.items():
        print(f"{name}: {statistics.median(found):.1f} MB/s, median of {options.runs}")


if __name__ == "__main__":
    main(sys.argv[1:])
