"""Which transactions a pass has met, and so which of their batches and markers may go.

Records of an aborted transaction go at once; nobody may read them. Which these are is in the transaction indexes of all
segments: the marker may be in one that is not compacted yet. A marker may go, after its delete horizon, once no batch
of its transaction was met before it: until then a reader needs it, and of an aborted one the entry in the new index.
An emptied batch counts as one, so that the last sequence of a producer, which it keeps, stays with the marker that
ends it.
"""

from collections.abc import Iterable, Sequence

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import BatchHeader, EndTxnMarker
from storage.log.segment import Segment
from storage.log.transaction_index import AbortedTxn, TransactionIndexError
from storage.steps import Search

_INDEXES_A_STEP = 16


class Transactions:
    """What is known of the transactions amid which a pass is; it shows all batches and markers in order."""

    __slots__ = ("_aborted", "_committed", "_ended", "_met", "_next")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        """Take the aborted transactions of what is passed over."""
        self._next = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTxn] = {}
        self._met: set[int] = set()
        self._committed: set[int] = set()
        self._ended: list[AbortedTxn] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Tell whether the next batch belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        txn = self._aborted.get(header.producer_id)
        if txn is not None and header.base_offset < txn.last_offset:
            self._met.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def is_spent(self, header: BatchHeader, marker: EndTxnMarker | None) -> bool:
        """Tell whether the next control batch ends a transaction of which nothing is left."""
        self._begin_up_to(header.last_offset)
        if marker is None:
            return header.record_count == 0  # of another kind, if it has records
        producer_id = header.producer_id
        batches = self._committed if marker.committed else self._met
        found = producer_id in batches
        batches.discard(producer_id)
        if not marker.committed:
            txn = self._aborted.pop(producer_id, None)
            if found and txn is not None:
                self._ended.append(txn)
        return not found

    def take_ended(self) -> list[AbortedTxn]:
        """Return, once, the aborted transactions whose markers were met and stay for their batches' sake."""
        ended, self._ended = self._ended, []
        return ended

    def _begin_up_to(self, offset: int) -> None:
        while self._next and self._next[-1].first_offset <= offset:
            txn = self._next.pop()
            self._aborted[txn.producer_id] = txn


def find_aborted(segments: Sequence[Segment], end_offset: int) -> Search[list[AbortedTxn]]:
    """Return the aborted transactions of the log made of `segments` that begin below `end_offset`."""
    found: list[AbortedTxn] = []
    for number, segment in enumerate(segments, 1):
        try:
            found += [txn for txn in segment.transaction_index.entries if txn.first_offset < end_offset]
        except TransactionIndexError as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
        if number % _INDEXES_A_STEP == 0:
            yield None
    return found
