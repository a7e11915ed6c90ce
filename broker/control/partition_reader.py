"""The committed records of a partition led here, decoded: without transaction markers.

With READ_COMMITTED, the records of aborted transactions are left out too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from broker.replication.partition import Isolation
from protocol.primitives import read_parts
from protocol.record import Record
from protocol.record_batch import BatchHeader, end_txn_marker, iter_batches, iter_records

if TYPE_CHECKING:
    from broker.replication.partition import Partition
    from storage.log.transaction_index import AbortedTxn

_READ_BYTES = 1 << 20


class PartitionReader:
    """Reads records of a partition from `offset` on; `offset` follows."""

    def __init__(self, partition: Partition, isolation: Isolation, offset: int) -> None:
        self.offset = offset
        self._partition = partition
        self._isolation = isolation

    def records(self, limit: int) -> Iterator[Record]:
        """Yield at most `limit` records; KafkaError if they cannot be read, or there is no such offset."""
        self._partition.read(self.offset, 0, self._isolation, min_one=False)
        while limit > 0 and self.offset < committed_end(self._partition, self._isolation):
            found = self._partition.read(self.offset, _READ_BYTES, self._isolation)
            if not found.slices:
                return
            for header, batch in _visible(read_parts(found.slices), found.aborted):
                for record in () if batch is None else iter_records(batch):
                    if record.offset < self.offset:
                        continue
                    if limit == 0:
                        return
                    limit -= 1
                    self.offset = record.offset + 1
                    yield record
                self.offset = header.next_offset


def committed_end(partition: Partition, isolation: Isolation) -> int:
    """Return the offset below which a consumer of that isolation level reads."""
    log = partition.log
    return log.last_stable_offset if isolation is Isolation.READ_COMMITTED else log.high_watermark


def _visible(data: bytes, aborted: Sequence[AbortedTxn]) -> Iterator[tuple[BatchHeader, bytes | None]]:
    """Yield the batches; those that are markers or in an aborted transaction without their bytes."""
    pending = sorted(aborted, key=lambda one: one.first_offset)
    aborting: set[int] = set()
    for at, header in iter_batches(data):
        batch = data[at : at + header.size_bytes]
        while pending and pending[0].first_offset <= header.last_offset:
            aborting.add(pending.pop(0).producer_id)
        is_hidden = header.is_control or (header.is_transactional and header.producer_id in aborting)
        if header.is_control and (marker := end_txn_marker(batch)) is not None and not marker.committed:
            aborting.discard(header.producer_id)
        yield header, None if is_hidden else batch
