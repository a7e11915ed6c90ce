"""Start of three brokers on empty directories until each serves and lists the others; resident memory of all three."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence

from benchmarks._cluster import BARNABAS, CLUSTERS, Command, running
from benchmarks.start import SETTLING_S, Start


def measure(command: Command) -> Start:
    """Start one cluster on empty directories."""
    with running(command) as cluster:
        time.sleep(SETTLING_S)
        return Start(cluster.ready_s, cluster.resident_mb)


def main(arguments: Sequence[str]) -> None:
    """Print medians for Barnabas and, on request, for Apache Kafka."""
    parser = argparse.ArgumentParser(prog="cluster_start", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--beside-kafka", action="store_true", help="measure Apache Kafka too (needs Java and Maven)")
    options = parser.parse_args(arguments)
    clusters = CLUSTERS if options.beside_kafka else {BARNABAS: CLUSTERS[BARNABAS]}
    print(f"{'median of ' + str(options.runs):<16}{'ready':>12}{'memory':>12}")
    for name, command in clusters.items():
        ready_s, memory_mb = zip(*(measure(command) for _ in range(options.runs)), strict=True)
        print(f"{name:<16}{statistics.median(ready_s):>10.2f} s{statistics.median(memory_mb):>9.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
