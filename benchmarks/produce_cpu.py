"""The broker's CPU time for Produce: seconds a GB with large batches, microseconds a request with small ones.

Five requests are in flight, of one uncompressed batch each, with acks=1; a bare loop that only receives, checks
CRC-32C and writes receives the same frames. With `--partitions N` the requests go to N partitions in turn.
"""

import argparse
import sys
from collections.abc import Sequence

from benchmarks._loopback import (
    HEADINGS,
    TOPIC,
    Costs,
    bare_server,
    cheapest,
    create_topic,
    request_frame,
    row,
    running,
    take_turns,
)
from benchmarks.start import barnabas
from protocol.api import ApiKey
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch

VERSION = 13
LARGE_BYTES = 128 * 1024
SMALL_BYTES = 1024


def records_of(batch_bytes: int) -> int:
    """Return the number of records in a batch of about that size."""
    return max(1, batch_bytes // 1000)


def produce_frames(
    topic_id: bytes, partitions: int, batch_bytes: int, acks: int = 1, key: bytes | None = None
) -> list[bytes]:
    """Return a request for each partition, with a batch of about that size."""
    records = build_batch([(key, bytes(min(batch_bytes, 1000) - 80))] * records_of(batch_bytes))
    return [
        request_frame(
            ApiKey.PRODUCE,
            VERSION,
            ProduceRequest(
                acks=acks,
                timeout_ms=30_000,
                topic_data=[
                    ProduceRequest.Topic(
                        topic_id=topic_id,
                        partition_data=[ProduceRequest.Topic.Partition(index=index, records=records)],
                    )
                ],
            ),
        )
        for index in range(partitions)
    ]


def measure(runs: int, batch_bytes: int, count: int, partitions: int = 6) -> Costs:
    """Let the broker and the bare loop handle `count` requests of one batch each, in turn; return the costs."""
    with running(barnabas) as broker, bare_server("produce") as bare:
        frames = produce_frames(create_topic(broker.port, TOPIC, partitions), partitions, batch_bytes)
        return take_turns(runs, broker, bare, frames, count)


def main(arguments: Sequence[str]) -> None:
    """Print the costs of each size for the broker and the bare loop."""
    parser = argparse.ArgumentParser(prog="produce_cpu", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument("--partitions", type=int, default=6, metavar="N")
    options = parser.parse_args(arguments)
    print(HEADINGS)
    for batch_bytes, count in ((LARGE_BYTES, 3000), (SMALL_BYTES, 30_000)):
        for name, costs in measure(options.runs, batch_bytes, count, options.partitions).items():
            print(row(f"{name}, batches of {batch_bytes // 1024} KB", cheapest(costs)))


if __name__ == "__main__":
    main(sys.argv[1:])
