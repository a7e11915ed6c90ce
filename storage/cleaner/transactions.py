"""The transactions that a pass meets: which batches and markers may be removed (Kafka: `CleanedTransactionMetadata`).

Records of an aborted transaction are removed at once; no read_committed consumer reads them. The transaction indexes of
all segments list these transactions, since the marker may be in a segment that is not cleaned in this pass. A marker
may be removed, after its delete horizon, if the pass met no batch of its transaction before it. Otherwise readers need
it, and an abort marker needs its entry in the new transaction index. A batch reduced to its header counts: the last
sequence of a producer stays together with the marker that ends its transaction.
"""

from collections.abc import Iterable, Sequence

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import BatchHeader, EndTxnMarker
from storage.log.segment import LogSegment
from storage.log.transaction_index import AbortedTxn, TransactionIndexError
from storage.steps import Steps

_INDEXES_A_STEP = 16


class Transactions:
    """The open transactions at one point of a pass; the pass calls it with all batches and markers in log order."""

    __slots__ = ("_aborted", "_aborted_batches", "_committed_batches", "_ended", "_next")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        """Set the aborted transactions of the range to clean."""
        self._next = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTxn] = {}
        # Producer ids of the open transactions with a batch in the pass.
        self._aborted_batches: set[int] = set()
        self._committed_batches: set[int] = set()
        self._ended: list[AbortedTxn] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether the next batch belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        txn = self._aborted.get(header.producer_id)
        if txn is not None and header.base_offset < txn.last_offset:
            self._aborted_batches.add(header.producer_id)
            return True
        self._committed_batches.add(header.producer_id)
        return False

    def ends_nothing(self, header: BatchHeader, marker: EndTxnMarker | None) -> bool:
        """Return whether the next control batch is the marker of a transaction without remaining batches."""
        self._begin_up_to(header.last_offset)
        if marker is None:
            return header.record_count == 0  # other control records are kept; an empty batch is not
        producer_id = header.producer_id
        batches = self._committed_batches if marker.committed else self._aborted_batches
        found = producer_id in batches
        batches.discard(producer_id)
        if not marker.committed:
            txn = self._aborted.pop(producer_id, None)
            if found and txn is not None:
                self._ended.append(txn)
        return not found

    def take_ended(self) -> list[AbortedTxn]:
        """Return the aborted transactions whose markers were kept since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def _begin_up_to(self, offset: int) -> None:
        while self._next and self._next[-1].first_offset <= offset:
            txn = self._next.pop()
            self._aborted[txn.producer_id] = txn


def find_aborted(segments: Sequence[LogSegment], end_offset: int) -> Steps[list[AbortedTxn]]:
    """Return the aborted transactions of `segments` that begin below `end_offset`; KafkaError for a damaged index."""
    found: list[AbortedTxn] = []
    for number, segment in enumerate(segments, 1):
        try:
            found += [txn for txn in segment.transaction_index.entries if txn.first_offset < end_offset]
        except TransactionIndexError as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
        if number % _INDEXES_A_STEP == 0:
            yield None
    return found
