"""Compaction speed of one pass over a log that is partly live, and its longest step.

    python -m benchmarks compaction [--mb 1024] [--record-bytes 1024] [--live 0.2] [--slice-bytes 65536]

Prints MB of log per CPU second of the process and per wall-clock second, and the longest step, which is the longest
wait of a client. The log is written first: batches of 16 records with random keys, so that the given fraction is live.
With `--beside-kafka` Apache Kafka writes it, and compacts it after it was copied.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

from protocol.compression import Compression
from protocol.record_batch import build_batch
from storage.cleaner.cleanable_range import cleanable_range
from storage.cleaner.cleaner_pass import CleanerPass
from storage.disk import OsDisk
from storage.log.loader import open_log
from storage.log.log import Log, LogConfig
from storage.log_directory import LogDirectory

_BATCH_RECORDS = 16
_MB = 1 << 20
_SEGMENT_BYTES = 256 * _MB
_TOPIC = "compacted"


class Load(NamedTuple):
    """The records of a log."""

    mb: int = 1024
    record_bytes: int = 1024
    live: float = 0.2
    codec: Compression = Compression.NONE

    def batches(self) -> Iterator[bytearray]:
        """Yield the batches."""
        random = Random(1)
        value = random.randbytes(self.record_bytes)
        count = self.mb * _MB // self.record_bytes // _BATCH_RECORDS
        keys = max(int(count * _BATCH_RECORDS * self.live), 1)
        for _ in range(count):
            pairs = [(b"%016d" % random.randrange(keys), value) for _ in range(_BATCH_RECORDS)]
            yield build_batch(pairs, timestamp_ms=_now_ms(), compression=self.codec)


class Pass(NamedTuple):
    """The cost of one pass."""

    mb: float
    kept_mb: float
    cpu_s: float
    seconds: float
    steps: int
    longest_ms: float

    def __str__(self) -> str:
        return (
            f"{self.mb:.0f} MB -> {self.kept_mb:.0f} MB: {self.mb / self.cpu_s:.0f} MB/s of CPU, "
            f"{self.mb / self.seconds:.0f} MB/s by clock; {self.steps} steps, the longest of {self.longest_ms:.2f} ms"
        )


def measure(load: Load, slice_bytes: int = 64 * 1024) -> Pass:
    """Write a log and compact it."""
    with TemporaryDirectory() as folder:
        log, directory = _open(Path(folder))
        for batch in load.batches():
            log.append_as_leader(batch, 0, _now_ms())
        log.roll(_now_ms())
        log.update_high_watermark(log.log_end_offset)
        return _compact(log, directory, slice_bytes)


def beside_kafka(load: Load, slice_bytes: int = 64 * 1024) -> tuple[float, float]:
    """Compact a log that Apache Kafka wrote; return our MB/s by wall clock, and those of its cleaner."""
    from benchmarks._compacted_topic import cleaned_by_kafka

    with cleaned_by_kafka(map(bytes, load.batches()), _SEGMENT_BYTES) as (folder, their_seconds):
        log, directory = _open(folder)
        log.update_high_watermark(log.log_end_offset)
        ours = _compact(log, directory, slice_bytes)
    return ours.mb / ours.seconds, ours.mb / their_seconds


def _open(folder: Path) -> tuple[Log, LogDirectory]:
    disk = OsDisk()
    directory = LogDirectory(disk, str(folder))
    config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=_SEGMENT_BYTES)
    return open_log(disk, directory, _TOPIC, 0, config, now_ms=_now_ms()), directory


def _compact(log: Log, directory: LogDirectory, slice_bytes: int) -> Pass:
    to_clean = cleanable_range(log, _now_ms())
    rest = log.size_bytes - to_clean.dirty_bytes
    compaction = CleanerPass(
        OsDisk(),
        directory,
        log,
        to_clean,
        now_ms=_now_ms,
        memory_bytes=128 * _MB,
        load_factor=0.9,
        chunk_bytes=256 * 1024,
    )
    longest_s, steps = 0.0, 0
    seconds, cpu_s = time.perf_counter(), time.process_time()
    begun = time.thread_time()
    while not compaction.done:
        call = compaction.step(slice_bytes)
        ended = time.thread_time()
        longest_s = max(longest_s, ended - begun)
        steps, begun = steps + 1, ended
        if call is not None:
            call()
            begun = time.thread_time()
    seconds, cpu_s = time.perf_counter() - seconds, time.process_time() - cpu_s
    return Pass(to_clean.dirty_bytes / _MB, (log.size_bytes - rest) / _MB, cpu_s, seconds, steps, longest_s * 1000)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def main(arguments: Sequence[str]) -> None:
    """Print the cost of a pass."""
    parser = argparse.ArgumentParser(prog="compaction", description=__doc__)
    parser.add_argument("--mb", type=int, default=1024)
    parser.add_argument("--record-bytes", type=int, default=1024)
    parser.add_argument("--live", type=float, default=0.2)
    parser.add_argument("--slice-bytes", type=int, default=64 * 1024)
    parser.add_argument("--codec", type=lambda name: Compression[name.upper()], default=Compression.NONE)
    parser.add_argument("--beside-kafka", action="store_true", help="measure Apache Kafka too (needs Java and Maven)")
    options = parser.parse_args(arguments)
    load = Load(options.mb, options.record_bytes, options.live, options.codec)
    if options.beside_kafka:
        ours, theirs = beside_kafka(load, options.slice_bytes)
        print(f"by clock: {ours:.0f} MB/s, Apache Kafka's cleaner {theirs:.0f} MB/s: {ours / theirs:.2f} times")
    else:
        print(measure(load, options.slice_bytes))
