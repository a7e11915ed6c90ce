"""Checks of a segment's indexes against its batches: every entry must refer to a batch, and to the right one."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from protocol.record_batch import NO_TIMESTAMP, BatchHeader
from storage.inspection.findings import Finding
from storage.inspection.layouts import OFFSET_ENTRY, TIME_ENTRY, TXN_ENTRY, Layout
from storage.inspection.layouts import unpack as unpack_fields
from storage.log.index import OffsetIndex, TimeIndex
from storage.log.producer_state import CompletedTxn
from storage.log.record_search import largest_timestamp


class Batches:
    """The batches of a segment as columns, since a segment may hold millions."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] | None = None
        self._is_rising = True
        self.positions = array("q")
        self.base_offsets = array("q")
        self.last_offsets = array("q")
        self.timestamps = array("q")
        """For each batch, the largest timestamp of the segment up to it."""

    def add(self, position: int, header: BatchHeader) -> None:
        """Add the next batch."""
        self._is_rising = self._is_rising and not (self.last_offsets and header.last_offset <= self.last_offsets[-1])
        self.positions.append(position)
        self.base_offsets.append(header.base_offset)
        self.last_offsets.append(header.last_offset)
        largest = header.max_timestamp or largest_timestamp(header.base_timestamp)
        self.timestamps.append(max(largest, self.largest_timestamp))

    def starting_at(self, position: int) -> int | None:
        """Return the number of the batch that begins at byte `position`, or None."""
        at = bisect_left(self.positions, position)
        return at if at < len(self.positions) and self.positions[at] == position else None

    def ending_with(self, offset: int) -> int | None:
        """Return the number of the batch with that last offset, or None; damaged offsets may be out of order."""
        if self._is_rising:
            at = bisect_left(self.last_offsets, offset)
            return at if at < len(self.last_offsets) and self.last_offsets[at] == offset else None
        if self._numbers is None:
            self._numbers = {last: number for number, last in reversed(list(enumerate(self.last_offsets)))}
        return self._numbers.get(offset)

    @property
    def largest_timestamp(self) -> int:
        """The segment's largest timestamp in ms; -1 if there is none."""
        return self.timestamps[-1] if self.timestamps else NO_TIMESTAMP


def check_offset_index(path: str, base_offset: int, data: bytes, batches: Batches) -> Iterator[Finding]:
    """Yield entries that do not have the position and the last offset of one batch."""
    before = -1
    entries = OffsetIndex.ENTRY.iter_unpack(data[: len(data) - len(data) % OFFSET_ENTRY.size])
    for number, (relative, position) in enumerate(entries):
        if _zeros(data, number, OFFSET_ENTRY):
            yield _finding(path, OFFSET_ENTRY, number, "relative_offset", _AHEAD)
            return
        at = batches.starting_at(position)
        meant = batches.ending_with(base_offset + relative)
        if at is not None and meant is None:
            expected = batches.last_offsets[at] - base_offset
            problem = f"{relative} instead of {expected} for the batch at byte {position}"
            yield _finding(path, OFFSET_ENTRY, number, "relative_offset", problem)
        elif at is None or batches.last_offsets[at] != base_offset + relative:
            where = "" if meant is None else f"; last offset {relative} is at byte {batches.positions[meant]}"
            yield _finding(path, OFFSET_ENTRY, number, "position", f"no such batch at byte {position}{where}")
        elif position <= before:
            yield _finding(path, OFFSET_ENTRY, number, "position", f"{position} is not above {before}")
        before = max(before, position)
    yield from _rest(path, data, OFFSET_ENTRY)


def check_time_index(
    path: str, base_offset: int, data: bytes, batches: Batches, *, complete: bool
) -> Iterator[Finding]:
    """Yield entries that do not have the last offset of the first batch with their timestamp, the largest so far.

    The index of a `complete` segment must end with the segment's largest timestamp.
    """
    before, last = NO_TIMESTAMP, NO_TIMESTAMP
    entries = TimeIndex.ENTRY.iter_unpack(data[: len(data) - len(data) % TIME_ENTRY.size])
    for number, (timestamp, relative) in enumerate(entries):
        if _zeros(data, number, TIME_ENTRY) and batches.largest_timestamp != 0:
            yield _finding(path, TIME_ENTRY, number, "timestamp", _AHEAD)
            return
        last = timestamp
        at = batches.ending_with(base_offset + relative)
        if at is None:
            problem = f"no batch ends with offset {base_offset + relative}"
            yield _finding(path, TIME_ENTRY, number, "relative_offset", problem)
        elif batches.timestamps[at] != timestamp:
            problem = f"{timestamp} instead of {batches.timestamps[at]}, the largest up to {base_offset + relative}"
            yield _finding(path, TIME_ENTRY, number, "timestamp", problem)
        elif timestamp <= before:
            yield _finding(path, TIME_ENTRY, number, "timestamp", f"{timestamp} is not above {before}")
        before = max(before, timestamp)
    yield from _rest(path, data, TIME_ENTRY)
    if complete and last < batches.largest_timestamp:
        problem = f"the last entry has {last}, but the segment's largest timestamp is {batches.largest_timestamp}"
        yield Finding(path, len(data), "timestamp", problem)


def check_txn_index(path: str, data: bytes, aborted: Iterable[CompletedTxn]) -> Iterator[Finding]:
    """Yield entries that contradict the segment's abort markers, and markers without an entry."""
    expected = {txn.last_offset: txn for txn in aborted}
    for number in range(len(data) // TXN_ENTRY.size):
        values = unpack_fields(TXN_ENTRY, data, number * TXN_ENTRY.size)
        if values["version"] != 0:
            yield _finding(path, TXN_ENTRY, number, "version", f"{values['version']} is unknown; 0 is the only version")
            continue
        txn = expected.pop(values["last_offset"], None)
        if txn is None:
            # The first offset identifies the transaction if only the last offset is damaged.
            txn = next((one for one in expected.values() if one.first_offset == values["first_offset"]), None)
            if txn is not None:
                del expected[txn.last_offset]
            problem = f"no abort marker at offset {values['last_offset']}"
            yield _finding(path, TXN_ENTRY, number, "last_offset", problem)
            continue
        for name in ("producer_id", "first_offset", "last_stable_offset"):
            if values[name] != getattr(txn, name):
                problem = f"{values[name]} instead of {getattr(txn, name)}, the value in the log"
                yield _finding(path, TXN_ENTRY, number, name, problem)
    yield from _rest(path, data, TXN_ENTRY)
    for txn in expected.values():
        problem = f"the transaction of producer {txn.producer_id} aborted at offset {txn.last_offset} has no entry"
        yield Finding(path, len(data), "last_offset", problem)


_AHEAD = "only preallocated zeros from here on"


def _zeros(data: bytes, number: int, layout: Layout) -> bool:
    """Return whether an entry other than the first is all zeros."""
    return number > 0 and not any(data[number * layout.size : (number + 1) * layout.size])


def _rest(path: str, data: bytes, layout: Layout) -> Iterator[Finding]:
    rest = len(data) % layout.size
    if rest:
        yield Finding(path, len(data) - rest, layout.fields[0].name, f"{rest} bytes of an incomplete entry")


def _finding(path: str, layout: Layout, number: int, name: str, problem: str) -> Finding:
    return Finding(path, number * layout.size + layout.field(name).offset, name, problem)
