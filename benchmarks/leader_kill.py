"""Three thousand partitions of three replicas: how long they take to create, and to be led anew after a kill.

Seconds from creating them until every broker knows all of them led and in sync and has made its logs, and from kill -9
of a broker that leads a third of them until both others know of a living leader for every partition. Apache Kafka's
brokers are taken for dead after their session of 9 seconds (`broker.session.timeout.ms`); ours when their connections
have broken.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks._cluster import BARNABAS, CLUSTERS, Command, create_topics, metadata, running, wait_until
from benchmarks._loopback import Server

TOPICS = 30
PARTITIONS = 100
_POLL_S = 0.05  # an answer tells of all partitions, and costs the broker some milliseconds


class Killed(NamedTuple):
    """One run; `led` is how many partitions the victim led, memory is that of all three before the kill."""

    create_s: float
    led: int
    moved_s: float
    resident_mb: float


def measure(command: Command, of_controller: bool = False) -> Killed:
    """Start a cluster, fill it, and kill a broker: the active controller, or one that is not."""
    names = [f"many-{number}" for number in range(TOPICS)]
    with running(command) as cluster:
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
                    lambda at=server: moved(at), f"every partition led by another, as {node} knows", poll_s=_POLL_S
                )
        return Killed(create_s, leaders.count(victim), time.perf_counter() - begun, memory_mb)


def main(arguments: Sequence[str]) -> None:
    """Print each run, and medians for Barnabas and, where asked, for Apache Kafka."""
    parser = argparse.ArgumentParser(prog="leader_kill", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--controller", action="store_true", help="kill the active controller")
    parser.add_argument("--beside-kafka", action="store_true", help="measure Apache Kafka too (needs Java and Maven)")
    options = parser.parse_args(arguments)
    clusters = CLUSTERS if options.beside_kafka else {BARNABAS: CLUSTERS[BARNABAS]}
    print(f"{'median of ' + str(options.runs):<16}{'created':>12}{'led':>8}{'moved':>12}{'memory':>12}")
    for name, command in clusters.items():
        runs = [measure(command, options.controller) for _ in range(options.runs)]
        create_s, led, moved_s, memory_mb = (statistics.median(column) for column in zip(*runs, strict=True))
        print(f"{name:<16}{create_s:>10.2f} s{led:>8.0f}{moved_s:>10.2f} s{memory_mb:>9.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
