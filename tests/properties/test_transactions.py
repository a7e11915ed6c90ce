"""Rule 13: the last stable offset and the aborted transactions below it, against a scan of the log.

Under any appends, rolls, truncations, deletions and restarts, clean or not, on a leader or on a follower.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.record_batch import BatchHeader, EndTxnMarker, end_txn_marker, iter_batches, read_header
from storage.log.log import Log, LogConfig
from storage.log.transaction_index import AbortedTxn, decode_entries
from storage.log.transaction_marker import build_marker
from tests.examples import examples
from tests.logs import NOW_MS, append_marker, batch, content, open_log

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100, file_delete_delay_ms=0)
PRODUCERS = range(1, 5)

# (action, producer, a number)
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["write"] * 8
            + ["abort"] * 4
            + [
                "commit",
                "plain",
                "plain",
                "follow",
                "commit to",
                "truncate",
                "delete to",
                "roll",
                "flush",
                "stop",
                "crash",
            ]
        ),
        st.sampled_from(PRODUCERS),
        st.integers(0, 99),
    ),
    max_size=60,
)


Logged = tuple[BatchHeader, EndTxnMarker | None]


class Txn(NamedTuple):
    """A transaction; `marker` is None while it is open."""

    producer_id: int
    first_offset: int
    marker: int | None
    aborted: bool


def transactions(batches: list[Logged]) -> list[Txn]:
    """Return the transactions in the order of their ends, the open ones last."""
    ended, started = list[Txn](), dict[int, int]()
    for header, marker in batches:
        if not header.is_transactional:
            continue
        if marker is None:
            started.setdefault(header.producer_id, header.base_offset)
        elif header.producer_id in started:
            first = started.pop(header.producer_id)
            ended.append(Txn(header.producer_id, first, header.base_offset, not marker.committed))
    return ended + [Txn(producer_id, first, None, False) for producer_id, first in started.items()]


def unstable(log: Log, found: list[Txn]) -> int:
    """Return the last stable offset, computed literally by the rule."""
    undecided = [txn.first_offset for txn in found if txn.marker is None or txn.marker >= log.high_watermark]
    return max(min([log.high_watermark, *undecided]), log.log_start_offset)


class Replica:
    """A log and its producers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = open_log(folder, CONFIG)
        self.batches: list[Logged] = []

    def do(self, action: str, producer: int, number: int) -> None:
        log = self.log
        span = log.log_end_offset - log.log_start_offset
        offset = log.log_start_offset + span * number // 100
        doings: dict[str, Callable[[], object]] = {
            "write": lambda: self.write(producer, number % 3 + 1),
            "plain": lambda: self.append(batch(number % 3 + 1)),
            "abort": lambda: self.end(producer, committed=False),
            "commit": lambda: self.end(producer, committed=True),
            "follow": self.follow,
            "commit to": lambda: log.update_high_watermark(max(offset, log.high_watermark)),
            "truncate": lambda: self.truncate(max(offset, log.high_watermark)),
            "delete to": lambda: self.delete(min(offset, log.last_stable_offset)),
            "roll": lambda: log.roll(NOW_MS),
            "flush": lambda: log.flush(NOW_MS),
            "stop": lambda: self.restart(clean=True),
            "crash": lambda: self.restart(clean=False),
        }
        doings[action]()

    def write(self, producer: int, count: int) -> None:
        fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": self.sequence(producer)}
        self.append(batch(count, is_transactional=True, **fields))

    def sequence(self, producer: int) -> int:
        known = self.log.producers.producers.get(producer)
        return known.batches[-1].last_sequence + 1 if known is not None and known.batches else 0

    def end(self, producer: int, *, committed: bool) -> None:
        records = build_marker(producer, 0, EndTxnMarker(committed, 0), NOW_MS)
        append_marker(self.log, records, 0, NOW_MS)
        self.batches.append((read_header(records), end_txn_marker(records)))

    def append(self, records: bytearray) -> None:
        self.log.append_as_leader(records, 0, NOW_MS)
        self.batches.append((read_header(records), None))

    def truncate(self, offset: int) -> None:
        self.log.truncate_to(offset)
        self.batches = [one for one in self.batches if one[0].next_offset <= self.log.log_end_offset]

    def follow(self) -> None:
        """Copy the batches to another replica, as many at a time as a fetch returns."""
        log = self.log
        with TemporaryDirectory() as name:
            copy = open_log(Path(name), CONFIG)
            start = log.log_start_offset
            while start < log.log_end_offset:
                data = content(log, start)[:600]
                first = next(iter_batches(data))[1].base_offset
                if copy.log_end_offset < first:
                    copy.truncate_fully_and_start_at(first)
                copy.append_as_follower(data, 0, NOW_MS)
                start = copy.log_end_offset
            copy.update_high_watermark(log.high_watermark)
            copy.advance_log_start(log.log_start_offset)
            check(copy, [one for one in self.batches if one[0].next_offset > copy.segments[0].base_offset])

    def delete(self, offset: int) -> None:
        self.log.advance_log_start(offset)
        self.log.delete_old_segments(NOW_MS)
        self.log.delete_files(NOW_MS)

    def restart(self, *, clean: bool) -> None:
        log = self.log
        if clean:
            log.close(NOW_MS)
        self.log = open_log(
            self.folder,
            CONFIG,
            clean=clean,
            recovery_point=log.recovery_point,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
        )


def check(log: Log, batches: list[Logged]) -> None:
    found = transactions(batches)
    assert log.last_stable_offset == unstable(log, found)
    check_files(log, found)
    for offset in range(log.log_start_offset, log.last_stable_offset):
        for size_bytes in (1, 400):
            check_read(log, found, offset, size_bytes)


def check_files(log: Log, found: list[Txn]) -> None:
    """Each aborted transaction is in the index of the segment of its marker."""
    bases = [segment.base_offset for segment in log.segments]
    for base, following in zip(bases, [*bases[1:], 1 << 62], strict=True):
        path = Path(log.directory, f"{base:020}.txnindex")
        entries = decode_entries(path.read_bytes(), base) if path.exists() else []
        aborted = [txn for txn in found if txn.aborted and base <= (txn.marker or 0) < following]
        assert entries == [
            AbortedTxn(
                txn.producer_id, txn.first_offset, txn.marker or 0, last_stable_offset_at(txn.marker or 0, found)
            )
            for txn in aborted
        ]


def last_stable_offset_at(marker: int, found: list[Txn]) -> int:
    """Return the first offset of the first transaction still open when the marker was appended."""
    begun = [txn for txn in found if txn.first_offset < marker]
    return min((txn.first_offset for txn in begun if txn.marker is None or txn.marker > marker), default=marker + 1)


def check_read(log: Log, found: list[Txn], offset: int, size_bytes: int) -> None:
    limit = log.last_stable_offset
    slices = log.read(offset, size_bytes, limit_offset=limit).slices
    if not slices:
        return
    [part] = slices
    end = [header for _, header in iter_batches(part.read(0, part.size_bytes))][-1].next_offset
    reported = log.aborted_transactions(offset, part)
    needed = [
        (txn.producer_id, txn.first_offset)
        for txn in found
        if txn.aborted and txn.marker is not None and txn.marker >= offset and txn.first_offset < end
    ]
    assert [(one.producer_id, one.first_offset) for one in reported if one.first_offset < end] == needed


@settings(max_examples=examples(200), deadline=None)
@given(ACTIONS)
def test_rule_13_read_committed_results_equal_a_scan_of_the_log(
    actions: list[tuple[str, int, int]],
) -> None:
    with TemporaryDirectory() as name:
        replica = Replica(Path(name))
        for action in actions:
            replica.do(*action)
            if action[0] not in ("write", "plain"):
                check(replica.log, replica.batches)
        check(replica.log, replica.batches)
