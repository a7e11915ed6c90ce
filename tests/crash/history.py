"""The transactions and keys that a full scan of a log finds, and what compaction may leave of them.

below `cleaned`         any batch may be gone, smaller or empty; the rest is unchanged and at its offset, and includes
                        the last durable committed record of each key or a later one
from `cleaned` on       unchanged
"""

from __future__ import annotations

from protocol.record import Record
from protocol.record_batch import end_txn_marker, iter_records
from storage.log.producer_state import ProducerStateManager
from storage.log.transaction_index import AbortedTxn
from tests.crash.promises import Promise, Stored, Version


def fates(batches: list[Stored]) -> dict[int, bool | None]:
    """Return by base offset of each data batch whether it is committed; None while its transaction is open."""
    found: dict[int, bool | None] = {}
    open_batches: dict[int, list[int]] = {}
    for batch in batches:
        header = batch.header
        if header.is_control:
            marker = end_txn_marker(batch.data) if header.record_count else None
            if marker is not None:
                for base_offset in open_batches.pop(header.producer_id, []):
                    found[base_offset] = marker.committed
        elif header.is_transactional:
            found[batch.base_offset] = None
            open_batches.setdefault(header.producer_id, []).append(batch.base_offset)
        else:
            found[batch.base_offset] = True
    return found


def committed(batches: list[Stored]) -> list[Record]:
    """Return the records that read_committed consumers receive."""
    fate = fates(batches)
    return [record for batch in batches if fate.get(batch.base_offset) for record in iter_records(batch.data)]


def aborted(batches: list[Stored], end: int) -> list[AbortedTxn]:
    """Return the entries of the transaction indexes of a log of these batches, up to `end`."""
    state = ProducerStateManager()
    entries = []
    for batch in batches:
        header = batch.header
        if batch.next_offset <= end and header.producer_id >= 0:
            ended = state.update(header, end_txn_marker(batch.data) if header.is_control else None)
            if ended is not None and ended.aborted:
                entries.append(
                    AbortedTxn(ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset)
                )
    return entries


def is_remnant(batches: list[Stored], version: Version, length: int) -> bool:
    """Return whether compaction of a version may leave these batches."""
    for batch in batches:
        number = version.numbers.get(batch.base_offset, length)
        if number >= length or version.batches[number].next_offset != batch.next_offset:
            return False
        written = {record.offset: record for record in iter_records(version.batches[number].data)}
        if any(written.get(record.offset) != record for record in iter_records(batch.data)):
            return False
    return True


def lost_keys(found: list[Stored], promise: Promise) -> list[Record]:
    """Return the last durable records of their keys that are missing without a later replacement."""
    history = promise.versions[-1].batches[: promise.lengths[-1]]
    latest = {
        record.key: record
        for record in committed([batch for batch in history if batch.next_offset <= promise.durable_end])
    }
    there = {record.key: record.offset for record in committed(found)}
    ends = {record.key: record.offset for record in committed(history) if record.value is None}
    return [
        record
        for record in latest.values()
        if record.value is not None
        and record.offset >= promise.start
        and there.get(record.key, -1) < record.offset
        and ends.get(record.key, -1) < record.offset
    ]
