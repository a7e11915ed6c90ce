"""The broker's CPU time of a request, from its frame to its response, without sockets.

Each row is a request in the version and shape that busy clients send. An incremental fetch without new records is
measured with few and with many partitions: its cost must not grow with them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from broker.network.connection import Connection
from protocol.api import ApiKey
from protocol.headers import RequestHeader, encode_request_header
from protocol.messages.fetch import FetchRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import NO_PRODUCER_ID, NO_SEQUENCE, build_batch
from protocol.schema import Message
from tests.unit.broker.node import LISTENER, START_MS, Node

PARTITIONS = (10, 5000)
TOPIC = "t"

MakeRequest = Callable[[int], tuple[ApiKey, int, Message]]


class Bench:
    """A broker's request path on its own data directory."""

    def __init__(self, directory: str, partitions: int) -> None:
        self.node = Node(directory)
        self.node.start()
        self.node.create(TOPIC, partitions)
        self.partitions = partitions
        self.dispatch = self.node.broker.dispatcher
        self.connection = Connection(1, LISTENER, "127.0.0.1")

    def measure(self, count: int, make: MakeRequest) -> float:
        """Handle `count` requests; return the CPU time of one in microseconds."""
        frames = []
        for number in range(count):
            key, version, request = make(number)
            header = encode_request_header(RequestHeader(key, version, number, "bench"))
            frames.append(memoryview(bytearray(header + request.encode(version))))
        before = time.process_time()
        for frame in frames:
            self.dispatch(frame, self.connection)
        return (time.process_time() - before) / count * 1e6

    def produce(self, size: int, acks: int, *, idempotent: bool = False) -> MakeRequest:
        """Return requests of one batch of `size` bytes each, to the partitions in turn."""

        def make(number: int) -> tuple[ApiKey, int, Message]:
            batch = build_batch(
                [(None, bytes(size))],
                timestamp_ms=START_MS,
                producer_id=7 if idempotent else NO_PRODUCER_ID,
                producer_epoch=0 if idempotent else -1,
                base_sequence=number // self.partitions if idempotent else NO_SEQUENCE,
            )
            partition = ProduceRequest.Topic.Partition(index=number % self.partitions, records=batch)
            topics = [ProduceRequest.Topic(name=TOPIC, partition_data=[partition])]
            return ApiKey.PRODUCE, 9, ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)

        return make

    def fetch(self, max_bytes: int) -> MakeRequest:
        """Return requests of one partition each, outside any session."""

        def make(number: int) -> tuple[ApiKey, int, Message]:
            partition = FetchRequest.Topic.Partition(
                partition=number % self.partitions, fetch_offset=number % 100, partition_max_bytes=max_bytes
            )
            topics = [FetchRequest.Topic(topic=TOPIC, partitions=[partition])]
            return ApiKey.FETCH, 12, FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics)

        return make

    def idle_session(self) -> MakeRequest:
        """Open a session on every partition's end, and return its following requests."""
        partitions = [
            FetchRequest.Topic.Partition(
                partition=index,
                fetch_offset=self.node.partition(TOPIC, index).log.log_end_offset,
                partition_max_bytes=1 << 20,
            )
            for index in range(self.partitions)
        ]
        topics = [FetchRequest.Topic(topic=TOPIC, partitions=partitions)]
        opened = self.node.answer(ApiKey.FETCH, 12, max_wait_ms=0, min_bytes=1, session_epoch=0, topics=topics)

        def make(number: int) -> tuple[ApiKey, int, Message]:
            session = {"session_id": opened.session_id, "session_epoch": number + 1}
            return ApiKey.FETCH, 12, FetchRequest(max_wait_ms=0, min_bytes=1, topics=[], **session)

        return make


def measure(count: int) -> Mapping[str, Sequence[float]]:
    """Return the CPU microseconds of each kind of request, with each number of `PARTITIONS` on the broker."""
    rows: defaultdict[str, list[float]] = defaultdict(list)
    for partitions in PARTITIONS:
        with tempfile.TemporaryDirectory() as directory:
            bench = Bench(directory, partitions)
            bench.measure(partitions, bench.produce(1000, 1))  # opens each partition's files
            rows["produce 1 KB, acks=1"] += [bench.measure(count, bench.produce(1000, 1))]
            rows["produce 1 KB, acks=all, idempotent"] += [
                bench.measure(count, bench.produce(1000, -1, idempotent=True))
            ]
            rows["produce 100 KB, acks=all"] += [bench.measure(count, bench.produce(100_000, -1))]
            rows["fetch up to 50 KB"] += [bench.measure(count, bench.fetch(50_000))]
            rows["fetch, idle session of all partitions"] += [bench.measure(count, bench.idle_session())]
            bench.node.stop()
    return rows


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks requests", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="requests of each kind")
    count = parser.parse_args(arguments).count
    print(f"{'CPU time of a request, us':42}" + "".join(f"{f'{number} partitions':>18}" for number in PARTITIONS))
    for name, costs in measure(count).items():
        print(f"{name:42}" + "".join(f"{cost:18.1f}" for cost in costs))
