"""Append latency while a broker compacts and deletes: one record a request, acks=1, and the same on an idle broker.

One topic is full of records of which a fifth are live, another of segments past retention. The same requests are sent
to a third topic, one in flight, once while the broker is idle and once while both are due. The broker has its own core
if there are two. The 99.9th percentile is compared, and may be three times as high.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks._compacted_topic import TOPIC, alter, compacted, fill
from benchmarks._loopback import Client, create_topic
from benchmarks.compaction import Load
from benchmarks.produce_cpu import SMALL_BYTES, produce_frames
from benchmarks.start import barnabas, free_port, started, wait_for_answer

_SETTINGS = "log.cleaner.backoff.ms=100\nlog.retention.check.interval.ms=200\nlog.initial.task.delay.ms=100\n"
_DELETED = "deleted"
_WARM_UP = 2000
_BEGUN_S = 1.5  # the broker checks once a second whether a log is due for compaction


class Latencies(NamedTuple):
    """Latency percentiles, in ms."""

    median_ms: float
    p999_ms: float
    longest_ms: float
    samples: int


def measure(mb: int = 512, least: int = 10_000) -> tuple[Latencies, Latencies]:
    """Return the latencies on an idle broker, and during compaction."""
    with TemporaryDirectory() as folder:
        directory, port = Path(folder), free_port()
        (directory / "server.properties").write_text(_SETTINGS)
        command = (*barnabas(directory, port), "--config", str(directory / "server.properties"))
        with started(command) as process:
            wait_for_answer(process, port)
            fill(port, TOPIC, map(bytes, Load(mb).batches()), {"cleanup.policy": "compact", "segment.bytes": 64 << 20})
            fill(port, _DELETED, map(bytes, Load(64).batches()), {"segment.bytes": 1 << 20})
            client = Client(port)
            frames = produce_frames(create_topic(port, "appended", 1), 1, SMALL_BYTES)
            client.pipeline(frames, _WARM_UP, 1)
            at_rest = _times(client, frames, least)
            alter(port, TOPIC, "min.cleanable.dirty.ratio", "0")
            alter(port, _DELETED, "retention.bytes", "0")
            busy: list[float] = []
            begun = time.perf_counter()
            while not compacted(directory / "data"):
                found = _times(client, frames, 200)
                if time.perf_counter() - begun > _BEGUN_S:
                    busy += found
            client.close()
    return _latencies(at_rest), _latencies(busy)


def _times(client: Client, frames: Sequence[bytes], count: int) -> list[float]:
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        client.pipeline(frames, 1, 1)
        times.append(time.perf_counter() - begun)
    return times


def _latencies(times: list[float]) -> Latencies:
    ordered = sorted(times)
    count = len(ordered)
    median, p999, longest = (1000 * ordered[at] for at in (count // 2, count * 999 // 1000, -1))
    return Latencies(median, p999, longest, count)


def main(arguments: Sequence[str]) -> None:
    """Print both."""
    parser = argparse.ArgumentParser(prog="while_compacting", description=__doc__)
    parser.add_argument("--mb", type=int, default=512, help="of what is compacted")
    options = parser.parse_args(arguments)
    at_rest, busy = measure(options.mb)
    for name, found in (("at rest", at_rest), ("while compacting", busy)):
        print(
            f"{name}: {found.samples} requests, median {found.median_ms:.2f} ms, "
            f"p99.9 {found.p999_ms:.2f} ms, longest {found.longest_ms:.2f} ms"
        )
    print(f"p99.9: {busy.p999_ms / at_rest.p999_ms:.1f} times")
