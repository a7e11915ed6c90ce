"""Write outages when a leader fails and during a rolling restart: three brokers at defaults.

A librdkafka producer, idempotent with acks=all and otherwise at its defaults, sends a record every few milliseconds to
one partition with three replicas and `min.insync.replicas=2`. Then one of:

    kill      SIGKILL to its leader, which is or is not the active controller. On one host the kernel refuses new
              connections immediately, unlike a lost machine.
    pause     SIGSTOP to its leader: connections stay open without responses, so timeouts decide
    cut       all traffic between its leader and the others, brokers and clients, is lost in both directions, as when a
              machine loses its network. In this cluster all connections pass through a proxy.
    roll      each broker in turn is stopped cleanly and restarted

The figures are the longest time between two acknowledgements, and the numbers of records refused, lost, duplicated.
"""

from __future__ import annotations

import argparse
import re
import signal
import statistics
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count, pairwise
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks._cluster import BARNABAS, CLUSTERS, NODES, Cluster, Command, running
from benchmarks._rows import in_turn
from tests.chaos.network import CLIENTS, Link, Network
from tests.typed import present

SILENT = {"log_level": 0}
DEADLINE_S = 60.0
PAUSE_S = 0.004
STEADY = 500

KILL_CONTROLLER = "leader killed, the active controller"
KILL_OTHER = "leader killed, not the controller"
PAUSE = "leader paused (SIGSTOP), not the controller"
CUT = "leader cut off from everything, not the controller"
ROLL = "rolling restart of all three"
PAUSE_DEADLINE_S = 180.0  # librdkafka waits socket.timeout.ms, 60 s, for a response

Undo = Callable[[], None]
Event = Callable[[Cluster, str, int], Undo]
"""Applies an event to a cluster, a topic and the leader of its partition; returns the function that reverts it."""


class Interruption(NamedTuple):
    """The effects of one event on a producer."""

    longest_gap_s: float
    refused: int
    lost: int
    doubled: int


class SteadyProducer:
    """Sends numbers to partition 0 of a topic until it is closed."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self.acknowledged_s: list[float] = []
        self.numbers: set[int] = set()
        self.refused = 0
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all"}
        self._producer = Producer(settings | SILENT)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_for_more(self) -> None:
        """Return once `STEADY` more records are acknowledged."""
        with self._changed:
            aim = len(self.numbers) + STEADY
            if not self._changed.wait_for(lambda: len(self.numbers) >= aim, PAUSE_DEADLINE_S):
                raise RuntimeError(f"{len(self.numbers)} of {aim} records acknowledged after {PAUSE_DEADLINE_S:g} s")

    def close(self) -> None:
        """Stop sending, and wait for the records in flight."""
        self._stopping.set()
        self._thread.join()
        if self._producer.flush(DEADLINE_S):
            raise RuntimeError(f"not everything was acknowledged within {DEADLINE_S:g} s")

    def longest_gap_s(self, since_s: float) -> float:
        """Return the longest time between two acknowledgements, the second of which came after `since_s`."""
        return max(after - before for before, after in pairwise(self.acknowledged_s) if after >= since_s)

    def _run(self) -> None:
        for number in count():
            if self._stopping.is_set():
                return
            self._producer.produce(
                self._topic,
                str(number),
                partition=0,
                on_delivery=lambda *reported, number=number: self._reported(number, *reported),
            )
            self._producer.poll(PAUSE_S)

    def _reported(self, number: int, error: KafkaError | None, _: Message) -> None:
        with self._changed:
            if error is None:
                self.numbers.add(number)
                self.acknowledged_s.append(time.monotonic())
            else:
                self.refused += 1
            self._changed.notify_all()


def stored(bootstrap: str, topic: str) -> Counter[int]:
    """Return the number of occurrences of each number in partition 0 of a topic."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True}
    consumer = Consumer(settings | SILENT)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: Counter[int] = Counter()
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        for message in consumer.consume(5000, 0.1):
            if message.error() is None:
                found[int(message.value())] += 1  # type: ignore[arg-type]  # only this comes here
            elif present(message.error()).code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return found
    raise RuntimeError(f"{topic} was not read to its end within {DEADLINE_S:g} s")


def interruption(cluster: Cluster, topic: str, leader: int, event: Event) -> Interruption:
    """Apply an event to a cluster while a producer sends to a partition with this initial leader."""
    replicas = [leader, *(node for node in NODES if node != leader)]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap} | SILENT)  # type: ignore[arg-type]  # a dict's values are invariant
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[replicas])])[topic].result(DEADLINE_S)
    cluster.wait_until_in_sync(topic)
    producer = SteadyProducer(cluster.bootstrap, topic)
    producer.wait_for_more()
    since_s = time.monotonic()
    undo = event(cluster, topic, leader)
    producer.wait_for_more()
    gap_s = producer.longest_gap_s(since_s)
    undo()
    producer.close()
    cluster.wait_until_in_sync(topic)
    found = stored(cluster.bootstrap, topic)
    return Interruption(
        gap_s,
        producer.refused,
        len(producer.numbers - found.keys()),
        sum(times > 1 for times in found.values()),
    )


def _kill(cluster: Cluster, _: str, leader: int) -> Undo:
    cluster.kill(leader)
    return lambda: cluster.start(leader)


def _pause(cluster: Cluster, _: str, leader: int) -> Undo:
    process = cluster.nodes[leader].process
    process.send_signal(signal.SIGSTOP)
    return lambda: process.send_signal(signal.SIGCONT)


def _cut(network: Network, _: Cluster, __: str, leader: int) -> Undo:
    others = {CLIENTS, *NODES} - {leader}
    network.change({leader}, others, Link.cut)
    network.change(others, {leader}, Link.cut)
    return network.heal


def _roll(cluster: Cluster, topic: str, _: int) -> Undo:
    for node in NODES:
        cluster.stop(node)
        cluster.start(node)
        cluster.wait_until_in_sync(topic)
    return lambda: None


def measure(command: Command) -> Mapping[str, Interruption]:
    """Apply each event once to a cluster."""
    events: Mapping[str, Event] = {KILL_OTHER: _kill, KILL_CONTROLLER: _kill, PAUSE: _pause, ROLL: _roll}
    with running(command) as cluster:
        found = {name: _interrupt(cluster, name, event) for name, event in events.items()}
    with Network() as network, running(command, network.gate) as cluster:
        return found | {CUT: _interrupt(cluster, CUT, partial(_cut, network))}


def _interrupt(cluster: Cluster, name: str, event: Event) -> Interruption:
    controller = cluster.controller
    leader = controller if name == KILL_CONTROLLER else next(node for node in NODES if node != controller)
    return interruption(cluster, re.sub(r"\W+", "-", name), leader, event)


def measure_in_turn(clusters: Mapping[str, Command], runs: int) -> Mapping[str, Mapping[str, list[Interruption]]]:
    """Apply each event to each cluster, `runs` times; return the results by cluster and event."""
    found: dict[str, dict[str, list[Interruption]]] = {cluster: defaultdict(list) for cluster in clusters}
    for run in range(runs):
        for cluster in in_turn(clusters, run):
            print(f"failover, run {run + 1}: {cluster}", file=sys.stderr, flush=True)
            for name, one in measure(clusters[cluster]).items():
                found[cluster][name].append(one)
    return found


def main(arguments: Sequence[str]) -> None:
    """Print each event's results: gaps as median and longest, all else in total."""
    parser = argparse.ArgumentParser(prog="failover", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--beside-kafka", action="store_true", help="measure Apache Kafka too (needs Java and Maven)")
    options = parser.parse_args(arguments)
    clusters = CLUSTERS if options.beside_kafka else {BARNABAS: CLUSTERS[BARNABAS]}
    for cluster, events in measure_in_turn(clusters, options.runs).items():
        print(f"{cluster + ', runs of each: ' + str(options.runs):<58}", end="")
        print(f"{'median gap':>12}{'longest':>10}{'refused':>9}{'lost':>6}{'twice':>7}")
        for name, runs in events.items():
            gaps_s = [one.longest_gap_s for one in runs]
            refused, lost, doubled = (sum(column) for column in zip(*(one[1:] for one in runs), strict=True))
            print(f"{name:<58}{statistics.median(gaps_s):>10.2f} s{max(gaps_s):>8.2f} s", end="")
            print(f"{refused:>9}{lost:>6}{doubled:>7}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
