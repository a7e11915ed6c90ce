"""Starts on 10,000 partitions that hold 1 GB in all: seconds to the first response, memory and descriptors.

After a clean stop, and after a kill. A broker writes the records before the clock starts; the page cache is warm, as on
a restart.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._loopback import Client, create_topic, request_frame
from benchmarks.start import SETTLING_S, barnabas, free_port, resident_mb, started, wait_for_answer
from protocol.api import ApiKey, request_class
from protocol.record_batch import build_batch

TOPICS = 100
PARTITIONS = 100
BATCHES = 10
BATCH_BYTES = 10_000
FIRST_START_S = 3.0


class ManyLogs(NamedTuple):
    """The cost of a start, and the process's resources once it is idle."""

    seconds: float
    resident_mb: float
    descriptors: int


def descriptors(pid: int) -> int:
    """Return the number of files and sockets that a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def fill(port: int, topics: int, partitions: int) -> None:
    """Create the topics and write to each of their partitions."""
    requests: Any = request_class(ApiKey.PRODUCE)
    batch = build_batch([(None, b"v" * (BATCH_BYTES - 100))], timestamp_ms=time.time_ns() // 1_000_000)
    client = Client(port)
    for number in range(topics):
        topic_id = create_topic(port, f"many-{number}", partitions)
        rows = [requests.Topic.Partition(index=index, records=batch) for index in range(partitions)]
        request = requests(
            acks=-1, timeout_ms=30_000, topic_data=[requests.Topic(topic_id=topic_id, partition_data=rows)]
        )
        client.pipeline([request_frame(ApiKey.PRODUCE, 13, request)], BATCHES, 1)
    client.close()


def start_on(directory: Path, *, kill: bool = False) -> ManyLogs:
    """Start a broker on the directory, measure it once it is idle, and stop or kill it."""
    port = free_port()
    begun = time.perf_counter()
    with started(barnabas(directory, port)) as process:
        wait_for_answer(process, port)
        seconds = time.perf_counter() - begun
        time.sleep(SETTLING_S)
        found = ManyLogs(seconds, resident_mb(process.pid), descriptors(process.pid))
        if kill:
            process.kill()
        return found


def measure(runs: int, topics: int = TOPICS, partitions: int = PARTITIONS) -> tuple[list[ManyLogs], list[ManyLogs]]:
    """Return the starts after a clean stop, and those after a kill."""
    with tempfile.TemporaryDirectory() as name:
        directory, port = Path(name), free_port()
        with started(barnabas(directory, port)) as process:
            wait_for_answer(process, port)
            fill(port, topics, partitions)
        clean = [start_on(directory) for _ in range(runs)]
        start_on(directory, kill=True)
        return clean, [start_on(directory, kill=True) for _ in range(runs)]


def main(arguments: Sequence[str]) -> None:
    """Print medians."""
    parser = argparse.ArgumentParser(prog="many_logs", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--topics", type=int, default=TOPICS, metavar="N", help=f"of {PARTITIONS} partitions each")
    options = parser.parse_args(arguments)
    print(f"{'median of ' + str(options.runs):<20}{'first answer':>14}{'idle memory':>14}{'descriptors':>14}")
    for name, starts in zip(("after a clean stop", "after a kill"), measure(options.runs, options.topics), strict=True):
        seconds, memory_mb, files = (statistics.median(column) for column in zip(*starts, strict=True))
        print(f"{name:<20}{seconds:>12.2f} s{memory_mb:>11.0f} MB{files:>14.0f}")


if __name__ == "__main__":
    main(sys.argv[1:])
