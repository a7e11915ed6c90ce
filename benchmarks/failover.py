"""How long writing stops when the leader is killed, and when all brokers are restarted: three brokers at defaults.

A librdkafka producer, idempotent with acks=all and otherwise at its defaults, sends a record every few milliseconds to
one partition that has three replicas, two of which have to be in sync. Its leader is killed (SIGKILL), which is the
active controller too or is not; or all brokers are stopped in good order and started again, one after the other. What
counts is the longest time between two acknowledgements; what was refused, and what is gone or there twice in the end.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count, pairwise
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks._cluster import BARNABAS, CLUSTERS, NODES, Cluster, Command, running

SILENT = {"log_level": 0}
DEADLINE_S = 60.0
PAUSE_S = 0.004
STEADY = 500

KILL_CONTROLLER = "leader killed, the active controller"
KILL_OTHER = "leader killed, not the controller"
ROLL = "rolling restart of all three"


class Interruption(NamedTuple):
    """What a producer noticed of one event."""

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
            if not self._changed.wait_for(lambda: len(self.numbers) >= aim, DEADLINE_S):
                raise RuntimeError(f"{len(self.numbers)} of {aim} records acknowledged after {DEADLINE_S:g} s")

    def close(self) -> None:
        """Stop sending, and wait for all that was sent."""
        self._stopping.set()
        self._thread.join()
        if self._producer.flush(DEADLINE_S):
            raise RuntimeError(f"not everything was acknowledged within {DEADLINE_S:g} s")

    def longest_gap_s(self, since_s: float) -> float:
        """Return the longest time between two acknowledgements, the latter of which came after a moment."""
        return max(after - before for before, after in pairwise(self.acknowledged_s) if after >= since_s)

    def _run(self) -> None:
        for number in count():
            if self._stopping.is_set():
                return
            self._producer.produce(
                self._topic,
                str(number),
                partition=0,
                on_delivery=lambda *told, number=number: self._told(number, *told),
            )
            self._producer.poll(PAUSE_S)

    def _told(self, number: int, error: KafkaError | None, _: Message) -> None:
        with self._changed:
            if error is None:
                self.numbers.add(number)
                self.acknowledged_s.append(time.monotonic())
            else:
                self.refused += 1
            self._changed.notify_all()


def stored(bootstrap: str, topic: str) -> Counter[int]:
    """Return how often each number is in partition 0 of a topic."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True}
    consumer = Consumer(settings | SILENT)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: Counter[int] = Counter()
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        for message in consumer.consume(5000, 0.1):
            if message.error() is None:
                found[int(message.value())] += 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return found
    raise RuntimeError(f"{topic} was not read to its end within {DEADLINE_S:g} s")


def interruption(cluster: Cluster, topic: str, leader: int, event: Callable[[], None]) -> Interruption:
    """Let something happen to a cluster while a producer sends to a partition that begins with this leader."""
    replicas = [leader, *(node for node in NODES if node != leader)]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap} | SILENT)
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[replicas])])[topic].result(DEADLINE_S)
    cluster.wait_until_in_sync(topic)
    producer = SteadyProducer(cluster.bootstrap, topic)
    producer.wait_for_more()
    since_s = time.monotonic()
    event()
    producer.wait_for_more()
    producer.close()
    found = stored(cluster.bootstrap, topic)
    return Interruption(
        producer.longest_gap_s(since_s),
        producer.refused,
        len(producer.numbers - found.keys()),
        sum(times > 1 for times in found.values()),
    )


def _roll(cluster: Cluster, topic: str) -> None:
    for node in NODES:
        cluster.stop(node)
        cluster.start(node)
        cluster.wait_until_in_sync(topic)


def measure(command: Command, runs: int) -> Mapping[str, list[Interruption]]:
    """Interrupt one cluster so many times in each way."""
    found: dict[str, list[Interruption]] = {KILL_OTHER: [], KILL_CONTROLLER: [], ROLL: []}
    with running(command) as cluster:
        for run in range(runs):
            for number, name in enumerate(found):
                topic = f"interrupted-{run}-{number}"
                controller = cluster.controller
                leader = next(node for node in NODES if (node == controller) is not (name == KILL_OTHER))
                event = partial(_roll, cluster, topic) if name == ROLL else partial(cluster.kill, leader)
                found[name].append(interruption(cluster, topic, leader, event))
                if name != ROLL:
                    cluster.start(leader)
                    cluster.wait_until_in_sync(topic)
    return found


def main(arguments: Sequence[str]) -> None:
    """Print what each event comes to: gaps as median and longest, all else in total."""
    parser = argparse.ArgumentParser(prog="failover", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--beside-kafka", action="store_true", help="measure Apache Kafka too (needs Java and Maven)")
    options = parser.parse_args(arguments)
    clusters = CLUSTERS if options.beside_kafka else {BARNABAS: CLUSTERS[BARNABAS]}
    for cluster, command in clusters.items():
        print(f"{cluster + ', runs of each: ' + str(options.runs):<40}", end="")
        print(f"{'median gap':>12}{'longest':>10}{'refused':>9}{'lost':>6}{'twice':>7}")
        for name, runs in measure(command, options.runs).items():
            gaps_s = [one.longest_gap_s for one in runs]
            refused, lost, doubled = (sum(column) for column in zip(*(one[1:] for one in runs), strict=True))
            print(f"{name:<40}{statistics.median(gaps_s):>10.2f} s{max(gaps_s):>8.2f} s", end="")
            print(f"{refused:>9}{lost:>6}{doubled:>7}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
