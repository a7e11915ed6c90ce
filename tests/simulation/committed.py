"""Everything ever below the high watermark of a partition, on any replica: no replica may differ there.

    Committed     of a log that is not compacted: its batches, by base offset
    Compacted     of a compacted log: its records. A record may be removed once a later one of its key is committed; the
                  last one of a key stays at its offset, unless it is an expired tombstone (KIP-534). Records of aborted
                  transactions may be removed, and replace no other; markers are not compared

Each replica compacts by itself, so the bytes differ; the remaining records must be unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from protocol.record_batch import end_txn_marker, iter_batches, iter_records
from simulation.violation import Invariant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.record_batch import BatchHeader
    from storage.log.log import Log

Check = Callable[[Invariant, object, str], None]

_LONG_MS = 60 * 60 * 1000
"""Upper bound of the difference between two hosts' clocks."""


class Batch(NamedTuple):
    """A batch: its first and next offset, and a checksum of its bytes."""

    base_offset: int
    next_offset: int
    sum: int


class Committed:
    """The committed batches of a partition that is not compacted."""

    def __init__(self) -> None:
        self.end = 0
        self.losses = 0
        """Number of power cuts that lost some of them."""
        self._batches: list[Batch] = []

    def advance(self, log: Log, begin: int, end: int, check: Check, name: str) -> None:
        """Compare the batches of `log` from `begin` to `end` with the known ones; keep the new ones."""
        for batch in batches_of(log, begin, end):
            if batch.base_offset >= self.end:
                self._batches.append(batch)
                self.end = batch.next_offset
            else:
                at = next((one for one in reversed(self._batches) if one.base_offset <= batch.base_offset), None)
                check(
                    Invariant.COMMITTED_IS_THE_SAME,
                    at in (None, batch),
                    f"{name}: {batch[:2]} was committed as something else, {at}",
                )

    def compacted(self, log: Log, check: Check, name: str) -> None:
        """Do nothing: the log is not compacted."""

    def lose(self, end: int) -> None:
        """Forget everything at and above `end`."""
        self.losses += end < self.end
        self._batches = [batch for batch in self._batches if batch.next_offset <= end]
        self.end = self._batches[-1].next_offset if self._batches else 0


class _Kept(NamedTuple):
    """A record of a compacted log."""

    key: bytes | None
    has_value: bool
    sum: int


class Compacted(Committed):
    """The committed records of a compacted partition."""

    def __init__(self) -> None:
        super().__init__()
        self._records: dict[int, _Kept] = {}
        self._last: dict[bytes | None, int] = {}
        self._open: dict[int, list[int]] = {}
        """The offsets of the records of open transactions, by producer id."""
        self._aborted: set[int] = set()

    def advance(self, log: Log, begin: int, end: int, check: Check, name: str) -> None:
        found, read = self._compare(log, begin, end, check, name)
        for header, data in headed(log, begin, end):
            if header.base_offset >= self.end:
                self._add(header, data, found)
        self.end = max(self.end, read.stop)
        self._check_missing(found, read, log, check, name)

    def _add(self, header: BatchHeader, data: memoryview, found: dict[int, _Kept]) -> None:
        """Keep the records of a new batch; those of a transaction count for compaction once it is committed."""
        if header.is_control:
            marker = end_txn_marker(data)
            ended = [] if marker is None else self._open.pop(header.producer_id, [])
            if marker is not None and not marker.committed:
                self._aborted.update(ended)
            else:
                self._count(ended)
            return
        offsets = [offset for offset in range(header.base_offset, header.next_offset) if offset in found]
        self._records.update((offset, found[offset]) for offset in offsets)
        if header.is_transactional:
            self._open.setdefault(header.producer_id, []).extend(offsets)
        else:
            self._count(offsets)

    def _count(self, offsets: list[int]) -> None:
        for offset in offsets:
            key = self._records[offset].key
            self._last[key] = max(offset, self._last.get(key, -1))

    def compacted(self, log: Log, check: Check, name: str) -> None:
        """Compare all of `log` below its high watermark, after a cleaner pass or a start."""
        found, read = self._compare(log, log.log_start_offset, min(log.high_watermark, self.end), check, name)
        self._check_missing(found, read, log, check, name)

    def lose(self, end: int) -> None:
        self.losses += end < self.end
        self._records = {offset: kept for offset, kept in self._records.items() if offset < end}
        self._last = {}
        self._count([offset for offset in sorted(self._records) if offset not in self._aborted])
        self.end = min(self.end, end)

    def _compare(self, log: Log, begin: int, end: int, check: Check, name: str) -> tuple[dict[int, _Kept], range]:
        """Return the records of the batches from `begin` to `end`, and the base offsets of these batches.

        A batch that contains the high watermark is read the next time.
        """
        found: dict[int, _Kept] = {}
        first = last = begin
        for header, data in headed(log, begin, end):
            first, last = min(first, header.base_offset), header.next_offset
            if header.is_control:
                continue
            for record in iter_records(data):
                offset = record.offset
                content = crc32(repr((record.timestamp, record.value, record.headers)).encode())
                kept = _Kept(record.key, record.value is not None, content)
                check(Invariant.COMPACTED_KEEPS_OFFSETS, offset not in found, f"{name} has {offset} twice")
                found[offset] = kept
                known = self._records.get(offset) if offset < self.end else kept
                check(
                    Invariant.COMPACTED_KEEPS_OFFSETS,
                    known == kept,
                    f"{name} has {kept} at {offset}, where {known} was committed",
                )
        return found, range(first, last)

    def _check_missing(self, found: dict[int, _Kept], read: range, log: Log, check: Check, name: str) -> None:
        tombstones_go = log.config.delete_retention_ms < _LONG_MS
        for offset in read:
            kept = self._records.get(offset)
            if kept is None or offset in found or offset < log.log_start_offset:
                continue
            if offset in self._aborted:
                continue
            superseded = self._last.get(kept.key, -1) > offset or (tombstones_go and not kept.has_value)
            check(
                Invariant.COMPACTED_KEEPS_LAST, superseded, f"{name} has lost {offset}, the last record of {kept.key!r}"
            )


def batches_of(log: Log, begin: int, end: int) -> list[Batch]:
    """Return the batches of a log between two offsets."""
    return [Batch(header.base_offset, header.next_offset, crc32(data)) for header, data in headed(log, begin, end)]


def headed(log: Log, begin: int, end: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches of a log between two offsets, each with its header."""
    while begin < end:
        slices = log.read(begin, 1 << 20, limit_offset=end).slices
        if not slices:
            return
        for part in slices:
            data = memoryview(part.read(0, part.size_bytes))
            for at, header in iter_batches(data):
                yield header, data[at : at + header.size_bytes]
                begin = header.next_offset
