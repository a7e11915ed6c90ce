"""One batch -> what is left of it: the batch as it is, a smaller one, an empty one, or nothing.

A record stays if it is the last of its key, as far as the map knows, and has a value; without one (a tombstone) until
the delete horizon of its batch. The first pass that meets a tombstone, or a marker whose transaction is gone, fixes
that horizon: now and `delete.retention.ms`, kept in the header in the place of the base timestamp (KIP-534). Thus a
reader that begins before has that long to see them.

What is left keeps its base offset, last offset delta, epochs, sequence and codec. An empty batch stays where it has a
producer's last sequence or marker, and where it is the last of its new segment, so that segments still follow on each
other: after a power cut, a gap between two segments is a loss. Source: `MemoryRecords.filterTo` and `Cleaner` of Apache
Kafka, as to what they decide; Kafka keeps only the last batch of the cleanable range.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from protocol.compression import Compression
from protocol.primitives import Buffer
from protocol.record import decode_record, put_record
from protocol.record_batch import DELETE_HORIZON_BIT, NO_TIMESTAMP, BatchHeader, end_txn_marker, repack, unpack
from protocol.record_index import Span, record_spans
from storage.cleaner.offset_map import GOES, TOMBSTONE, OffsetMap
from storage.cleaner.transactions import Transactions
from storage.steps import Search

_QUICK_BYTES = 16 * 1024  # of a compressed batch, to be unpacked or packed at once
RECORDS_A_STEP = 128
_RECORDS_AT_ONCE = 1024  # where little but their lengths is looked at


class LastBatch(NamedTuple):
    """A producer's epoch and the last offset of its data; None if it has written only markers."""

    epoch: int
    last_offset: int | None


class BatchCleaner:
    """What a pass knows when it rewrites batches."""

    __slots__ = ("_horizon_ms", "_now_ms", "_offsets", "_producers", "_transactions", "segment_end_offset")

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: Transactions,
        producers: Mapping[int, LastBatch],
        *,
        segment_end_offset: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """Take the keys, the `producers` as of the pass's begin, and where the first new segment is to end."""
        self._offsets = offsets
        self._transactions = transactions
        self._producers = producers
        self.segment_end_offset = segment_end_offset
        """The offset at which the segment behind the one being written begins."""
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms

    def clean(self, batch: Buffer, header: BatchHeader) -> Search[Buffer | None]:
        """Return what is left of the next `batch`: itself if nothing changes, None if it goes."""
        if header.is_control:
            return (yield from self._clean_control(batch, header))
        if self._transactions.is_aborted(header):
            return self._emptied(header)
        return (yield from self._clean_records(batch, header))

    def _clean_control(self, batch: Buffer, header: BatchHeader) -> Search[Buffer | None]:
        horizon_ms = header.delete_horizon_ms
        spent = self._transactions.is_spent(header, end_txn_marker(batch))
        if header.record_count == 0 or (spent and horizon_ms is not None and horizon_ms <= self._now_ms):
            return self._emptied(header)
        if spent and horizon_ms is None:
            data = unpack(batch, header)
            kept = list(record_spans(data, header.record_count))
            return (yield from self._rebuilt(header, data, kept, dated=True))
        return batch

    def _clean_records(self, batch: Buffer, header: BatchHeader) -> Search[Buffer | None]:
        what_stays = self._offsets.what_stays(header.base_offset, header.last_offset)
        if what_stays is not None and header.record_count == len(what_stays) and TOMBSTONE not in what_stays:
            gone = what_stays.count(GOES)
            if gone == len(what_stays):
                return self._emptied(header)
            if gone == 0:
                return batch
            if header.record_count <= _RECORDS_AT_ONCE:
                data = yield from unpacked(batch, header)
                some = list(record_spans(data, header.record_count, what_stays))
                return (yield from self._rebuilt(header, data, some, dated=False))
        data = yield from unpacked(batch, header)
        horizon_ms, base_offset, known_to = header.delete_horizon_ms, header.base_offset, self._offsets.latest_offset
        get, dated = self._offsets.get, False
        tombstones_stay = horizon_ms is None or self._now_ms < horizon_ms
        kept: list[Span] = []
        for number, span in enumerate(record_spans(data, header.record_count), 1):
            _, _, _, offset_delta, key, has_value = span
            offset = base_offset + offset_delta
            if offset > known_to or (key is not None and (has_value or tombstones_stay) and offset >= get(key)):
                kept.append(span)
                dated = dated or not has_value
            if number % RECORDS_A_STEP == 0:
                yield None
        if not kept:
            return self._emptied(header)
        dated = dated and horizon_ms is None
        if len(kept) == header.record_count and not dated:
            return batch
        return (yield from self._rebuilt(header, data, kept, dated=dated))

    def _emptied(self, header: BatchHeader) -> Buffer | None:
        """Return the header alone if something in it is still needed."""
        last = self._producers.get(header.producer_id)
        if last is None or header.producer_id < 0:
            needed = False
        elif last.last_offset is None:
            needed = header.is_control and header.producer_epoch == last.epoch
        else:
            needed = header.last_offset == last.last_offset
        if not needed and header.next_offset != self.segment_end_offset:
            return None
        bare = header._replace(
            attributes=header.attributes & ~DELETE_HORIZON_BIT, base_timestamp=NO_TIMESTAMP, record_count=0
        )
        # One that only marks the end of a segment has no timestamp: the time index may name no batch without records.
        return repack(bare, b"", Compression.NONE, None, header.max_timestamp if needed else NO_TIMESTAMP)

    def _rebuilt(self, header: BatchHeader, data: bytes, kept: list[Span], *, dated: bool) -> Search[Buffer]:
        """Return the batch with only these records; `dated` with the delete horizon for its tombstones or marker."""
        records = bytearray()
        newest = -1
        for start in range(0, len(kept), RECORDS_A_STEP):
            some = kept[start : start + RECORDS_A_STEP]
            newest = max(newest, header.base_timestamp + max(span[2] for span in some))
            if dated:
                _put_rebased(records, data, some, header.base_timestamp - self._horizon_ms)
            else:
                records += b"".join([data[span[0] : span[1]] for span in some])
            if start:
                yield None
        max_timestamp = header.max_timestamp if header.log_append_time else newest
        header = header._replace(record_count=len(kept))
        if dated:
            header = header._replace(attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=self._horizon_ms)
        pack = partial(repack, header, records, header.compression, None, max_timestamp)
        return (yield pack) if _takes_long(header) else pack()


def unpacked(batch: Buffer, header: BatchHeader) -> Search[bytes]:
    """Return the records' bytes of `batch`, in a thread if that takes long."""
    return (yield partial(unpack, batch, header)) if _takes_long(header) else unpack(batch, header)


def _takes_long(header: BatchHeader) -> bool:
    return header.size_bytes > _QUICK_BYTES and header.compression is not Compression.NONE


def _put_rebased(out: bytearray, data: bytes, kept: Sequence[Span], shift_ms: int) -> None:
    """Append the records with other timestamp deltas, so that their timestamps stay when the base changes."""
    for start, *_ in kept:
        record, _ = decode_record(data, start, 0, shift_ms)
        put_record(out, record.timestamp, record.offset, record.key, record.value, record.headers)
