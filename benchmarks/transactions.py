"""Transactions: their rate, their cost for a long producer, and reading committed records only; with `--beside-kafka`.

- `commits`: librdkafka commits transactions of 100 records of 100 bytes, one after another, with acks=all to six
  partitions, or one with `--partitions 1`. Transactions a second, and CPU milliseconds of the broker for each; by one
  producer and by eight at once. After each round the last stable offsets cover all records and a marker of each
  transaction in each partition.
- `cluster`: the same by one producer on three brokers, three replicas of everything. CPU of all three.
- `long`: ProducerPerformance, records of 1,000 bytes, with a transaction every second and without transactions.
- `committed`: ConsumerPerformance and plain Fetch requests of 1 MB on a log of which a tenth of the transactions, of
  1,000 records of 1,000 bytes, are aborted: read_committed and read_uncommitted, in turn. MB/s are of the log, aborted
  records included.

The rates of `long` and `committed` alternate on one broker; their targets are ratios of Barnabas' own rates.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks import _cluster
from benchmarks._cluster import CLUSTERS, Cluster, create_topics
from benchmarks._loads import PARTITIONS, RECORD_BYTES, Load, consume, produce_rate
from benchmarks._loopback import BROKER, Server, create_topic, log_end, running
from benchmarks._rows import HEADINGS, KAFKA, Row, Runs, Target, at_least, at_most, in_turn, row, runs
from benchmarks._warmth import Figures, Warmed, warm_up
from benchmarks.fetch_cpu import LARGE_BYTES, fetch_frames
from benchmarks.start import Command, apache_kafka, barnabas

PARTS = ("commits", "cluster", "long", "committed")
BROKERS = {BROKER: barnabas, KAFKA: apache_kafka}
RECORDS_EACH = 100
TRANSACTIONS = 500
AT_ONCE = {"transactions one after another": 1, "transactions of 8 producers": 8}
REPLICATED = "transactions with three replicas"
RATE, CPU = ": transactions/s", ": CPU ms each"
TARGET: Mapping[str, Target] = {
    name + figure: target
    for name in (*AT_ONCE, REPLICATED)
    for figure, target in ((RATE, at_least(3)), (CPU, at_most(1)))
}

LONG_ROWS = {
    "produce, a transaction every second, MB/s": ("transactions", "plain"),
    "the same: CPU s a GB": ("transactions, CPU", "plain, CPU"),
}
COMMITTED_ROWS = {
    "read_committed, a tenth aborted, MB/s of the log": ("committed", "uncommitted"),
    "the same: CPU s": ("committed, CPU", "uncommitted, CPU"),
    "fetches of 1 MB with read_committed, MB/s": ("committed, fetched", "uncommitted, fetched"),
    "the same: user us each": ("committed, user", "uncommitted, user"),
}

_SILENT = {"log_level": 0}
_TIMEOUT_S = 60.0
_POLL_S = 0.01

_LONG_RECORDS = 500_000
_LONG = ("--transactional-id", "long", "--transaction-duration-ms", "1000")

_LOG_TRANSACTIONS = 300
_LOG_RECORDS_EACH = 1000
_ABORTED_OF = 10
_FETCHES = 2000


class Committer:
    """A librdkafka producer of transactions, one after another."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, transactional_id: str) -> None:
        self._topic = topic
        self._partitions = partitions
        settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
        self._producer = Producer(settings | _SILENT)
        self._producer.init_transactions(_TIMEOUT_S)

    def commit(self, transactions: int, records: int = RECORDS_EACH, value: bytes = bytes(100)) -> None:
        """Commit transactions of `records` records, which go to the partitions in turn."""
        for _ in range(transactions):
            self._send(records, value)
            self._producer.commit_transaction(_TIMEOUT_S)

    def abort(self, records: int, value: bytes) -> None:
        """Write a transaction, and abort it."""
        self._send(records, value)
        if self._producer.flush(_TIMEOUT_S):
            raise RuntimeError("records of a transaction were not acknowledged")
        self._producer.abort_transaction(_TIMEOUT_S)

    def _send(self, records: int, value: bytes) -> None:
        producer, topic, partitions = self._producer, self._topic, self._partitions
        producer.begin_transaction()
        for number in range(records):
            producer.produce(topic, value, partition=number % partitions)
        producer.poll(0)


class Ended:
    """Checks after each round that the last stable offsets cover its records and markers."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "ends", "isolation.level": "read_committed"}
        self._consumer = Consumer(settings | _SILENT)
        self._partitions = [TopicPartition(topic, index) for index in range(partitions)]
        self._end = 0

    def check(self, transactions: int, records: int = RECORDS_EACH) -> None:
        """Raise RuntimeError unless so many transactions have ended since the last check, all in each partition."""
        self._end += transactions * (records + len(self._partitions))
        deadline = time.monotonic() + _TIMEOUT_S
        while (found := self._stable()) != self._end:
            if time.monotonic() > deadline or found > self._end:
                raise RuntimeError(f"the last stable offsets are {found} in all, not {self._end}")
            time.sleep(_POLL_S)

    def _stable(self) -> int:
        return sum(
            self._consumer.get_watermark_offsets(one, timeout=_TIMEOUT_S, cached=False)[1] for one in self._partitions
        )


def commits(
    name: str, bootstrap: str, cpu: Callable[[], float], transactions: int, partitions: int, at_once: int = 1
) -> Callable[[], Figures]:
    """Return what runs a round of transactions to the topic "transactions"; `cpu` are the brokers' CPU seconds."""
    committers = [Committer(bootstrap, "transactions", partitions, f"commits-{at}") for at in range(at_once)]
    ended = Ended(bootstrap, "transactions", partitions)
    each = transactions // at_once

    def run() -> Figures:
        before_s, begun = cpu(), time.perf_counter()
        with ThreadPoolExecutor(at_once) as pool:
            for done in [pool.submit(one.commit, each) for one in committers]:
                done.result()
        seconds, cpu_s = time.perf_counter() - begun, cpu() - before_s
        ended.check(each * at_once)
        return {name + RATE: each * at_once / seconds, name + CPU: cpu_s * 1e3 / (each * at_once)}

    return run


def prepare(name: str, transactions: int, partitions: int, at_once: int, server: Server) -> Callable[[], Figures]:
    """Create the topic on one broker, and return what runs a round."""
    create_topic(server.port, "transactions", partitions)
    return commits(name, server.bootstrap, lambda: sum(server.cpu()), transactions, partitions, at_once)


def loads(transactions: int = TRANSACTIONS, partitions: int = PARTITIONS) -> Sequence[Load]:
    """Return the loads of one broker."""
    return [
        Load(name, partial(prepare, name, transactions, partitions, at_once), name + RATE)
        for name, at_once in AT_ONCE.items()
    ]


def measure(load: Load, command: Command) -> Warmed:
    """Start a broker, and commit transactions on it until it is warm."""
    with running(command) as server:
        return warm_up(load.prepare(server), load.settles_on)


def measure_cluster(
    command: _cluster.Command, transactions: int = TRANSACTIONS, partitions: int = PARTITIONS
) -> Warmed:
    """Start a cluster, and commit transactions on it until it is warm."""

    def cpu(cluster: Cluster) -> float:
        return sum(map(sum, cluster.cpu()))

    with _cluster.running(command) as cluster:
        create_topics(cluster, ("transactions",), partitions)
        run = commits(REPLICATED, cluster.bootstrap, lambda: cpu(cluster), transactions, partitions)
        return warm_up(run, REPLICATED + RATE)


def long(command: Command, rounds: int) -> Mapping[str, Sequence[float]]:
    """Return rates and CPU of a producer with and without transactions on one broker, after an uncounted round."""
    ways: Mapping[str, Sequence[str]] = {"plain": (), "transactions": _LONG}
    with running(command) as server:
        create_topic(server.port, "produced", PARTITIONS)

        def figures(way: str) -> Figures:
            before_s = sum(server.cpu())
            rate = produce_rate(server.bootstrap, "produced", "acks=all", records=_LONG_RECORDS, options=ways[way])
            cpu_s = sum(server.cpu()) - before_s
            return {way: rate, f"{way}, CPU": cpu_s / (_LONG_RECORDS * RECORD_BYTES / 1e9)}

        return _alternate(tuple(ways), figures, rounds)


def committed(command: Command, rounds: int) -> Mapping[str, Sequence[float]]:
    """Return rates and CPU of consumers and fetches at both isolation levels, after an uncounted round."""
    count = _LOG_TRANSACTIONS * _LOG_RECORDS_EACH
    received = {"uncommitted": count, "committed": count - count // _ABORTED_OF}
    with running(command) as server:
        topic_id = create_topic(server.port, "log", PARTITIONS)
        _write_log(server)
        end = log_end(server.port, "log", PARTITIONS) // PARTITIONS
        offsets = range(0, end - LARGE_BYTES // RECORD_BYTES, LARGE_BYTES // RECORD_BYTES)

        def figures(way: str) -> Figures:
            consumed = consume(server, "log", received[way], f"isolation.level=read_{way}")
            frames = fetch_frames(topic_id, PARTITIONS, LARGE_BYTES, offsets, int(way == "committed"))
            fetched = server.measure(frames, _FETCHES)
            return {
                way: count * RECORD_BYTES / 2**20 / consumed.seconds,
                f"{way}, CPU": consumed.cpu_s,
                f"{way}, fetched": fetched.size_bytes / 2**20 / fetched.seconds,
                f"{way}, user": fetched.user_us_per_request,
            }

        return _alternate(tuple(received), figures, rounds)


def _write_log(server: Server) -> None:
    writer = Committer(server.bootstrap, "log", PARTITIONS, "writer")
    value = bytes(RECORD_BYTES)
    for number in range(_LOG_TRANSACTIONS):
        if number % _ABORTED_OF:
            writer.commit(1, _LOG_RECORDS_EACH, value)
        else:
            writer.abort(_LOG_RECORDS_EACH, value)
    Ended(server.bootstrap, "log", PARTITIONS).check(_LOG_TRANSACTIONS, _LOG_RECORDS_EACH)


def _alternate(ways: Sequence[str], figures: Callable[[str], Figures], rounds: int) -> Mapping[str, Sequence[float]]:
    """Return each figure of `rounds` rounds in which the ways take turns, after an uncounted round."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(rounds + 1):
        for way in in_turn(ways, number):
            for name, figure in figures(way).items():
                if number:
                    found[name].append(figure)
    return found


def commit_rows(pairs: int, name: str, measures: Mapping[str, Callable[[], Warmed]]) -> list[Row]:
    """Run each side's rounds in turn, `pairs` times, and return the rows of the figures of `name`."""
    found: dict[str, list[Warmed]] = {side: [] for side in measures}
    for pair in range(pairs):
        for side in in_turn(measures, pair):
            print(f"pair {pair + 1}, {name}: {side}", file=sys.stderr, flush=True)
            found[side].append(measures[side]())
    return [
        Row(
            figure,
            TARGET[figure],
            runs(found[BROKER], figure),
            runs(found[KAFKA], figure) if KAFKA in found else Runs(()),
        )
        for figure in (name + RATE, name + CPU)
    ]


def own_rows(rounds: int, command: Command = barnabas, parts: Collection[str] = ("long", "committed")) -> list[Row]:
    """Return the rows of ratios between a broker's own figures; the name of a rate has "/s"."""
    rows = []
    for part, measure_part, names in (("long", long, LONG_ROWS), ("committed", committed, COMMITTED_ROWS)):
        if part in parts:
            print(f"transactions, {part}", file=sys.stderr, flush=True)
            found = measure_part(command, rounds)
            rows += [
                row(name, at_least(0.95) if "/s" in name else at_most(1.05), found[ours], found[other], other)
                for name, (ours, other) in names.items()
            ]
    return rows


def main(arguments: Sequence[str]) -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(prog="transactions", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--pairs", type=int, default=1, metavar="N", help="brokers or clusters of each, in turn")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of `long` and `committed`, on each broker")
    parser.add_argument(
        "--transactions", type=int, default=TRANSACTIONS, metavar="N", help="in each round of `commits`"
    )
    parser.add_argument("--partitions", type=int, default=PARTITIONS, metavar="N", help="of the topic of `commits`")
    parser.add_argument("--beside-kafka", action="store_true", help="measure Apache Kafka too (needs Java and Maven)")
    options = parser.parse_args(arguments)
    sides = (BROKER, KAFKA) if options.beside_kafka else (BROKER,)
    size = {"transactions": options.transactions, "partitions": options.partitions}
    parts = options.only or PARTS
    print(HEADINGS, flush=True)
    for load in loads(**size):
        one_broker = {side: partial(measure, load, BROKERS[side]) for side in sides}
        if "commits" in parts:
            print(*commit_rows(options.pairs, load.name, one_broker), sep="\n", flush=True)
    clusters = {side: partial(measure_cluster, CLUSTERS[side], **size) for side in sides}
    if "cluster" in parts:
        print(*commit_rows(options.pairs, REPLICATED, clusters), sep="\n", flush=True)
    for side in sides:
        print(*own_rows(options.rounds, BROKERS[side], parts), sep="\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
