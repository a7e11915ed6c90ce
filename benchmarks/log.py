"""The cost of the log alone: appends, reads and look-ups, without a broker.

    append     64-KB batches, their CRC-32C checked as Produce does, beside a loop that only checks it and writes;
               and the same batches checked before the clock starts: the log alone
    read       one megabyte after another, in the slices that Fetch sends, beside a loop of `pread`
    look-ups   by offset and by timestamp, at random in a log of 10 GB; its files are sparse: one page per batch

The log and the bare loop take turns in one process, on files in the same directory.
"""

import argparse
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

from benchmarks._loopback import BARE_LOOP, BROKER, HEADINGS, Cost, Costs, cheapest, row
from protocol.checksum import crc32c
from protocol.record import Record
from protocol.record_batch import build_batch, check_batch, read_header
from storage.disk import OsDisk
from storage.log.loader import open_log
from storage.log.log import Log, LogConfig
from storage.log.segment import LogSegment
from storage.log_directory import LogDirectory
from storage.steps import finish

LOG_ALONE = "Log.append alone"
BATCH_BYTES = 64 * 1024
ANSWER_BYTES = 1000 * 1000
PIECE_BYTES = 512 * 1024
NOW_MS = 1_700_000_000_000
_FILE_BYTES = 1000 * 1000 * 1000
_CRC_FROM = 21
_PAGE_BYTES = 4096
_SPARSE_BATCH_BYTES = 128 * 1024
_SPARSE_RECORDS = 16  # in each batch; the last record is nearly all of it: zeros, a hole in the file


def appending(runs: int) -> Costs:
    """Check and append, append already checked batches, and only check and write, the same bytes in turn."""
    batches = [build_batch([(None, bytes(1000))] * (BATCH_BYTES // 1010), timestamp_ms=NOW_MS) for _ in range(32)]
    views = [memoryview(batch) for batch in batches]
    count = _FILE_BYTES // len(batches[0])
    unplaced = bytes(8)
    checked = [check_batch(view) for view in views]

    def append(directory: str) -> Callable[[], None]:
        log = _open(directory)

        def work() -> None:
            for number in range(count):
                batch = views[number & 31]
                batch[:8] = unplaced
                log.append_as_leader(batch, 0, NOW_MS, check_batch(batch))

        return work

    def append_checked(directory: str) -> Callable[[], None]:
        log = _open(directory)

        def work() -> None:
            for number in range(count):
                log.append_as_leader(views[number & 31], 0, NOW_MS, checked[number & 31])

        return work

    def write(directory: str) -> Callable[[], None]:
        file = os.open(f"{directory}/bare", os.O_RDWR | os.O_CREAT)

        def work() -> None:
            position = 0
            for number in range(count):
                batch = views[number & 31]
                crc32c(batch[_CRC_FROM:])
                position += os.pwrite(file, batch, position)
            os.close(file)

        return work

    parties = {BROKER: append, LOG_ALONE: append_checked, BARE_LOOP: write}
    return _take_turns(runs, count, count * len(batches[0]), parties)


def reading(runs: int) -> Costs:
    """Read a log from start to end, as Fetch does, and its file, in turn."""
    records = BATCH_BYTES // 1010
    batch = build_batch([(None, bytes(1000))] * records, timestamp_ms=NOW_MS)
    with tempfile.TemporaryDirectory() as directory:
        log = _open(directory)
        for _ in range(_FILE_BYTES // len(batch)):
            log.append_as_leader(batch, 0, NOW_MS)
        end_offset = log.log_end_offset
        count = -(-log.size_bytes // ANSWER_BYTES)

        def read(_: str) -> Callable[[], None]:
            def work() -> None:
                offset = 0
                while offset < end_offset:
                    found = log.read(offset, ANSWER_BYTES, limit_offset=end_offset)
                    for piece in found.slices:
                        for at in range(0, piece.size_bytes, PIECE_BYTES):
                            size = min(PIECE_BYTES, piece.size_bytes - at)
                            if piece.read_nowait(at, size) is None:
                                piece.read(at, size)
                    offset += found.size_bytes // len(batch) * records

            return work

        def pread(_: str) -> Callable[[], None]:
            file = os.open(f"{log.directory}/{0:020d}.log", os.O_RDONLY)

            def work() -> None:
                position = 0
                while data := os.pread(file, PIECE_BYTES, position):
                    position += len(data)
                os.close(file)

            return work

        return _take_turns(runs, count, log.size_bytes, {BROKER: read, BARE_LOOP: pread})


def finding(runs: int, count: int, segments: int = 10) -> tuple[Sequence[float], Sequence[float]]:
    """Return the microseconds of a look-up by offset, and of one by timestamp, in a log of `segments` GB."""
    by_offset, by_timestamp = [], []
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as directory:
        end_offset = _fill_sparsely(f"{directory}/t-0", segments)
        log = _open(directory)
        places = [chance.randrange(end_offset) for _ in range(count)]
        for place in places:  # the first look-up in a segment reads its indexes
            log.read(place, ANSWER_BYTES, limit_offset=end_offset)
            finish(log.offset_for_timestamp(NOW_MS + place))
        for _ in range(runs):
            begun = time.perf_counter()
            for place in places:
                log.read(place, ANSWER_BYTES, limit_offset=end_offset)
            by_offset.append((time.perf_counter() - begun) / count * 1e6)
            begun = time.perf_counter()
            for place in places:
                found = finish(log.offset_for_timestamp(NOW_MS + place))
                if found is None or found.offset != place:
                    raise RuntimeError(f"not the record of that timestamp: {found}")
            by_timestamp.append((time.perf_counter() - begun) / count * 1e6)
    return by_offset, by_timestamp


def _fill_sparsely(directory: str, segments: int) -> int:
    """Write a log of segments of 1 GB, with records 1 ms apart; return its end offset."""
    disk, offset = OsDisk(), 0
    disk.make_dirs(directory)
    for _ in range(segments):
        segment = LogSegment.create(disk, directory, offset, NOW_MS)
        while segment.size_bytes < 1000 * 1000 * 1000:
            values = [b""] * (_SPARSE_RECORDS - 1) + [bytes(_SPARSE_BATCH_BYTES)]
            records = [Record(0, NOW_MS + offset + number, None, value, ()) for number, value in enumerate(values)]
            batch = build_batch(records, base_offset=offset, leader_epoch=0)
            segment.file.pwrite(batch[:_PAGE_BYTES], segment.size_bytes)
            segment.add(read_header(batch), LogConfig().index_interval_bytes)
            offset += _SPARSE_RECORDS
        segment.file.truncate(segment.size_bytes)
        segment.seal()
    return offset


def _open(directory: str) -> Log:
    disk = OsDisk()
    return open_log(disk, LogDirectory(disk, directory), "t", 0, LogConfig(), now_ms=NOW_MS)


Prepare = Callable[[str], Callable[[], None]]


def _take_turns(runs: int, count: int, size_bytes: int, parties: Mapping[str, Prepare]) -> Costs:
    costs: dict[str, list[Cost]] = {name: [] for name in parties}
    for run in range(runs):
        for name, prepare in list(parties.items())[:: -1 if run % 2 else 1]:
            with tempfile.TemporaryDirectory() as directory:
                work = prepare(directory)
                before, begun = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
                work()
                seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
                user_s, system_s = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
                costs[name].append(Cost(count, size_bytes, user_s, system_s, seconds))
    return costs


def main(arguments: Sequence[str]) -> None:
    """Print the costs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks log", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="how often each is measured")
    runs = parser.parse_args(arguments).runs
    print(HEADINGS)
    for what, measure in (("64-KB batches", appending), ("1-MB reads", reading)):
        for name, costs in measure(runs).items():
            print(row(f"{name}, {what}", cheapest(costs)))
    by_offset, by_timestamp = finding(runs, 5000)
    print(f"\nlook-up in 10 GB: by offset {min(by_offset):.1f} us, by timestamp {min(by_timestamp):.1f} us")


if __name__ == "__main__":
    main(sys.argv[1:])
