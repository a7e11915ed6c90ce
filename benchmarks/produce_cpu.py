"""The broker's CPU time for Produce: seconds a GB with large batches, microseconds a request with small ones.

Five requests are in flight, of one uncompressed batch each, with acks=1; a bare loop that only receives, checks
CRC-32C and writes gets the same frames. With `--partitions N` the requests go to N partitions in turn.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from benchmarks._loopback import HEADINGS, TOPIC, bare_server, barnabas_server, compare, create_topic, request_frame
from protocol.api import ApiKey
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch

VERSION = 13
LARGE_BYTES = 128 * 1024
SMALL_BYTES = 1024


def produce_frames(topic_id: bytes, partitions: int, batch_bytes: int) -> list[bytes]:
    """Return a request for each partition, with a batch of about that size."""
    records = build_batch([(None, bytes(min(batch_bytes, 1000) - 80))] * max(1, batch_bytes // 1000), timestamp_ms=0)
    return [
        request_frame(
            ApiKey.PRODUCE,
            VERSION,
            ProduceRequest(
                acks=1,
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


def main(arguments: Sequence[str]) -> None:
    """Print what each size costs the broker and the bare loop, measured in turn."""
    parser = argparse.ArgumentParser(prog="produce_cpu", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument("--partitions", type=int, default=6, metavar="N")
    options = parser.parse_args(arguments)
    with barnabas_server() as barnabas, bare_server("produce") as bare:
        topic_id = create_topic(barnabas.port, TOPIC, options.partitions)
        print(HEADINGS)
        for batch_bytes, count in ((LARGE_BYTES, 3000), (SMALL_BYTES, 30_000)):
            frames = produce_frames(topic_id, options.partitions, batch_bytes)
            what = f"batches of {batch_bytes // 1024} KB"
            compare(
                options.runs,
                {
                    f"Barnabas, {what}": partial(barnabas.measure, frames, count),
                    f"bare loop, {what}": partial(bare.measure, frames, count),
                },
            )


if __name__ == "__main__":
    main(sys.argv[1:])
