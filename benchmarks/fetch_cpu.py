"""The broker's CPU time for Fetch: seconds a GB with large responses, microseconds a request with small ones.

Five requests are in flight, each for one partition, of records in the page cache; a bare loop that only reads a file
and sends returns the same number of bytes. With `--partitions N` the requests go to N partitions in turn, and the loop
reads N different slices of its file, as much memory as the broker.
"""

import argparse
import sys
from collections.abc import Sequence

from benchmarks._loopback import (
    HEADINGS,
    TOPIC,
    Client,
    Costs,
    bare_server,
    cheapest,
    create_topic,
    request_frame,
    row,
    running,
    take_turns,
)
from benchmarks.produce_cpu import SMALL_BYTES, produce_frames
from benchmarks.start import barnabas
from protocol.api import ApiKey
from protocol.messages.fetch import FetchRequest

VERSION = 17
LARGE_BYTES = 1000 * 1000


def fetch_frames(
    topic_id: bytes, partitions: int, answer_bytes: int, offsets: Sequence[int] = (0,), isolation_level: int = 0
) -> list[bytes]:
    """Return a request for each of the offsets of each partition, without a fetch session."""
    return [
        request_frame(
            ApiKey.FETCH,
            VERSION,
            FetchRequest(
                max_wait_ms=500,
                min_bytes=1,
                isolation_level=isolation_level,
                topics=[
                    FetchRequest.Topic(
                        topic_id=topic_id,
                        partitions=[
                            FetchRequest.Topic.Partition(
                                partition=index, fetch_offset=offset, partition_max_bytes=answer_bytes
                            )
                        ],
                    )
                ],
            ),
        )
        for offset in offsets
        for index in range(partitions)
    ]


def measure(runs: int, answer_bytes: int, count: int, partitions: int = 6) -> Costs:
    """Let the broker and the bare loop send `count` responses of that size, in turn; return the costs."""
    with running(barnabas) as broker, bare_server("fetch", str(answer_bytes), str(partitions)) as bare:
        topic_id = create_topic(broker.port, TOPIC, partitions)
        # Enough batches to fill one response for every request.
        batch_bytes = min(answer_bytes, 100_000)
        writer = Client(broker.port)
        writer.pipeline(
            produce_frames(topic_id, partitions, batch_bytes), partitions * -(-answer_bytes // batch_bytes), in_flight=1
        )
        writer.close()
        frames = fetch_frames(topic_id, partitions, answer_bytes)
        return take_turns(runs, broker, bare, frames, count)


def main(arguments: Sequence[str]) -> None:
    """Print the costs of each size for the broker and the bare loop."""
    parser = argparse.ArgumentParser(prog="fetch_cpu", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument("--partitions", type=int, default=6, metavar="N")
    options = parser.parse_args(arguments)
    print(HEADINGS)
    for answer_bytes, count in ((LARGE_BYTES, 3000), (SMALL_BYTES, 20_000)):
        for name, costs in measure(options.runs, answer_bytes, count, options.partitions).items():
            print(row(f"{name}, answers of {answer_bytes // 1000} KB", cheapest(costs)))


if __name__ == "__main__":
    main(sys.argv[1:])
