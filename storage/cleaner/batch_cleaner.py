"""Cleaning of one batch: kept unchanged, rewritten with fewer records, reduced to its header, or removed.

A record is kept if no later record of its key is in the offset map and its value is not null. A tombstone (null value)
is kept until the delete horizon of its batch. A record without a key is removed. The first pass that keeps a tombstone,
or finds a marker whose transaction has no batches left, sets the delete horizon: now + `delete.retention.ms`, stored in
the header in place of the base timestamp (KIP-534). So a consumer that has read the older record has that long to read
its tombstone.

A rewritten batch keeps its base offset, last offset delta, epochs, sequence and codec. A batch without records is kept,
as its header, if it holds a producer's last sequence or last marker, and if it is the last of its new segment: segments
must follow on each other, since recovery after a power failure treats a gap between two segments as data loss.

Kafka: `Cleaner.cleanInto` and `MemoryRecords.filterTo` make the same decisions, but for one: Kafka keeps only the last
batch of the cleanable range, not of each segment.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from protocol.compression import Compression
from protocol.primitives import Buffer
from protocol.record import decode_record, put_record
from protocol.record_batch import DELETE_HORIZON_BIT, NO_TIMESTAMP, BatchHeader, end_txn_marker, repack, unpack
from protocol.record_scan import Span, record_spans
from storage.cleaner.offset_map import REPLACED, TOMBSTONE, OffsetMap
from storage.cleaner.transactions import Transactions
from storage.steps import Steps

_QUICK_BYTES = 16 * 1024  # compressed batches up to this size are unpacked and packed on the loop
RECORDS_A_STEP = 128
_RECORDS_AT_ONCE = 1024  # up to this many when only their lengths are read


class LastBatch(NamedTuple):
    """A producer's epoch and the last offset of its data; None if it has written only markers."""

    epoch: int
    last_offset: int | None


class BatchCleaner:
    """The state of a pass that cleaning a batch needs."""

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
        """Set up a pass: `producers` as at its start, `segment_end_offset` that of the first new segment."""
        self._offsets = offsets
        self._transactions = transactions
        self._producers = producers
        self.segment_end_offset = segment_end_offset
        """The base offset of the segment after the one being written."""
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms

    def clean(self, batch: Buffer, header: BatchHeader) -> Steps[Buffer | None]:
        """Return what remains of `batch`: the same object if nothing changes, None if it is removed.

        Batches must be passed in log order.
        """
        if header.is_control:
            return (yield from self._clean_control(batch, header))
        if self._transactions.is_aborted(header):
            return self._emptied(header)
        return (yield from self._clean_records(batch, header))

    def _clean_control(self, batch: Buffer, header: BatchHeader) -> Steps[Buffer | None]:
        horizon_ms = header.delete_horizon_ms
        empty = self._transactions.ends_nothing(header, end_txn_marker(batch))
        if header.record_count == 0 or (empty and horizon_ms is not None and horizon_ms <= self._now_ms):
            return self._emptied(header)
        if empty and horizon_ms is None:
            data = unpack(batch, header)
            kept = list(record_spans(data, header.record_count))
            return (yield from self._rebuilt(header, data, kept, dated=True))
        return batch

    def _clean_records(self, batch: Buffer, header: BatchHeader) -> Steps[Buffer | None]:
        fates = self._offsets.fates(header.base_offset, header.last_offset)
        if fates is not None and header.record_count == len(fates) and TOMBSTONE not in fates:
            gone = fates.count(REPLACED)
            if gone == len(fates):
                return self._emptied(header)
            if gone == 0:
                return batch
            if header.record_count <= _RECORDS_AT_ONCE:
                data = yield from unpacked(batch, header)
                some = list(record_spans(data, header.record_count, fates))
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
        """Return the header as an empty batch if it is still needed, else None."""
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
        # A batch kept only as the end of its segment has no timestamp: the time index must not refer to an empty batch.
        return repack(bare, b"", Compression.NONE, None, header.max_timestamp if needed else NO_TIMESTAMP)

    def _rebuilt(self, header: BatchHeader, data: bytes, kept: list[Span], *, dated: bool) -> Steps[Buffer]:
        """Return the batch with only the records `kept`; if `dated`, with a delete horizon."""
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


def unpacked(batch: Buffer, header: BatchHeader) -> Steps[bytes]:
    """Return the uncompressed records of `batch`; large compressed ones are unpacked in a thread."""
    return (yield partial(unpack, batch, header)) if _takes_long(header) else unpack(batch, header)


def _takes_long(header: BatchHeader) -> bool:
    return header.size_bytes > _QUICK_BYTES and header.compression is not Compression.NONE


def _put_rebased(out: bytearray, data: bytes, kept: Sequence[Span], shift_ms: int) -> None:
    """Append the records `kept` with `shift_ms` added to their timestamp deltas, as the base timestamp changes."""
    for start, *_ in kept:
        record, _ = decode_record(data, start, 0, shift_ms)
        put_record(out, record.timestamp, record.offset, record.key, record.value, record.headers)
