"""Lookup by timestamp against a scan of every record, for any timestamps that producers send."""

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from struct import Struct
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from storage.log.log import Log, LogConfig
from storage.steps import finish
from tests.examples import examples
from tests.logs import NOW_MS, open_log, stamped

CONFIG = LogConfig(segment_bytes=1200, index_interval_bytes=80, message_timestamp_after_max_ms=2**40)
BATCHES = st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=3), max_size=25)


def append(log: Log, batches: Iterable[list[int]]) -> None:
    for timestamps in batches:
        log.append_as_leader(stamped(timestamps), 0, NOW_MS)


def time_entries(log: Log) -> list[list[tuple[int, int]]]:
    """Return the entries of each time index on disk."""
    files = sorted(Path(log.directory).glob("*.timeindex"))
    return [list(Struct(">qi").iter_unpack(path.read_bytes())) for path in files]


@settings(max_examples=examples(100), deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=3), min_size=1, max_size=25),
    cut=st.integers(0, 25),
    damage=st.sampled_from(["none", "torn", "gone", "killed"]),
)
def test_rule_21_time_indexes_are_monotone_and_cover_every_record(
    batches: list[list[int]], cut: int, damage: str
) -> None:
    with TemporaryDirectory() as folder:
        log = open_log(Path(folder), CONFIG)
        append(log, batches)
        kept = batches[: max(cut, 1)]
        log.truncate_to(sum(map(len, kept)))
        append(log, batches)
        if damage != "killed":
            log.close(NOW_MS)
        for path in Path(log.directory).glob("*.timeindex"):
            if damage == "torn":
                path.write_bytes(path.read_bytes()[:-5])
            elif damage == "gone":
                path.unlink()
        log = open_log(Path(folder), CONFIG, clean=damage != "killed")
        timestamps = [timestamp for batch in kept + batches for timestamp in batch]
        for wanted in (0, 1, max(timestamps), max(timestamps) + 1):
            found = finish(log.offset_for_timestamp(wanted))
            expected = next((offset for offset, timestamp in enumerate(timestamps) if timestamp >= wanted), None)
            assert (None if found is None else found.offset) == expected
        log.close(NOW_MS)
        for entries in time_entries(log):
            for earlier, later in pairwise(entries):
                assert earlier[0] < later[0]
                assert earlier[1] < later[1]


@settings(max_examples=examples(200), deadline=None)
@given(first=BATCHES, cut=st.integers(0, 25), second=BATCHES, start=st.integers(0, 30), restart=st.sampled_from("ncu"))
def test_the_first_record_at_or_after_a_timestamp_and_the_largest_are_found(
    first: list[list[int]], cut: int, second: list[list[int]], start: int, restart: str
) -> None:
    with TemporaryDirectory() as folder:
        log = open_log(Path(folder), CONFIG)
        append(log, first)
        kept = first[:cut]
        log.truncate_to(sum(map(len, kept)))
        append(log, second)
        if restart == "c":
            log.close(NOW_MS)
        if restart in "cu":
            log = open_log(Path(folder), CONFIG, clean=restart == "c")
        log.update_high_watermark(log.log_end_offset)
        log.advance_log_start(min(start, log.log_end_offset))

        timestamps = [timestamp for batch in kept + second for timestamp in batch]
        for wanted in range(42):
            expected = next(
                ((found, offset) for offset, found in enumerate(timestamps) if offset >= start and found >= wanted),
                None,
            )
            found = finish(log.offset_for_timestamp(wanted))
            assert (None if found is None else (found.timestamp, found.offset)) == expected

        largest = finish(log.max_timestamp_offset())
        if timestamps:
            assert largest is not None
            assert (largest.timestamp, largest.offset) == (max(timestamps), timestamps.index(max(timestamps)))
        else:
            assert largest is None
