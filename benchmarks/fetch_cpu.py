"""The broker's CPU time for Fetch: seconds a GB with large answers, microseconds a request with small ones.

Five requests are in flight, each for one partition, of records that are in the page cache; a bare loop that only
reads a file and sends gives as many bytes. With `--partitions N` the requests go to N partitions in turn.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from benchmarks._loopback import (
    HEADINGS,
    TOPIC,
    Client,
    bare_server,
    barnabas_server,
    compare,
    create_topic,
    request_frame,
)
from benchmarks.produce_cpu import SMALL_BYTES, produce_frames
from protocol.api import ApiKey
from protocol.messages.fetch import FetchRequest

VERSION = 17
LARGE_BYTES = 1000 * 1000


def fetch_frames(topic_id: bytes, partitions: int, answer_bytes: int) -> list[bytes]:
    """Return a request for each partition, from its first record on, outside of any session."""
    return [
        request_frame(
            ApiKey.FETCH,
            VERSION,
            FetchRequest(
                max_wait_ms=500,
                min_bytes=1,
                topics=[
                    FetchRequest.Topic(
                        topic_id=topic_id,
                        partitions=[
                            FetchRequest.Topic.Partition(
                                partition=index, fetch_offset=0, partition_max_bytes=answer_bytes
                            )
                        ],
                    )
                ],
            ),
        )
        for index in range(partitions)
    ]


def main(arguments: Sequence[str]) -> None:
    """Print what each size costs the broker and the bare loop, measured in turn."""
    parser = argparse.ArgumentParser(prog="fetch_cpu", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument("--partitions", type=int, default=6, metavar="N")
    options = parser.parse_args(arguments)
    print(HEADINGS)
    for answer_bytes, count in ((LARGE_BYTES, 3000), (SMALL_BYTES, 20_000)):
        with barnabas_server() as barnabas, bare_server("fetch", str(answer_bytes)) as bare:
            topic_id = create_topic(barnabas.port, TOPIC, options.partitions)
            # As many batches as fill one answer, so that every request finds that much.
            batch_bytes = min(answer_bytes, 100_000)
            writer = Client(barnabas.port)
            writer.pipeline(
                produce_frames(topic_id, options.partitions, batch_bytes),
                options.partitions * -(-answer_bytes // batch_bytes),
                in_flight=1,
            )
            writer.close()
            frames = fetch_frames(topic_id, options.partitions, answer_bytes)
            what = f"answers of {answer_bytes // 1000} KB"
            compare(
                options.runs,
                {
                    f"Barnabas, {what}": partial(barnabas.measure, frames, count),
                    f"bare loop, {what}": partial(bare.measure, frames, count),
                },
            )


if __name__ == "__main__":
    main(sys.argv[1:])
