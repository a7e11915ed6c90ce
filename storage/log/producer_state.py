"""The producer state of one partition: sequences, epochs and transactions (Kafka: `ProducerStateManager`).

An idempotent producer numbers its records; the partition accepts each sequence once and in order:

- The next batch starts one after the last sequence, which wraps from 2^31 - 1 to 0. A batch equal to one of the last
  five is a duplicate, for which the first append's offsets are returned; anything else is out of order. A batch equal
  to one of a transaction that has ended is refused: its records may be new ones of the next transaction, by a producer
  that took the first batch for lost and used its sequences again.
- An unknown producer may start at any sequence: its records may have been deleted, or it expired.
- A lower epoch is fenced. A higher one starts at sequence 0 and clears the window of the one before.
- A transaction is open from its first batch to its marker. The first unstable offset is the smaller of the first
  offsets of the first open transaction and of the first completed one whose marker is not below the high watermark.
- A producer expires `producer.id.expiration.ms` after its last batch or marker, but never while its transaction is
  open.

The state is a function of the log: the leader, followers and recovery `update` it with every batch in order. A snapshot
(`producer_snapshot.py`) only shortens the replay. Sources: KIP-98, KIP-360, KAFKA-9144.
The index of aborted transactions is `transaction_index.py`; `verification.py` explains why the first batch of a
transaction needs a guard (KIP-890).
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import (
    CONTROL_BIT,
    MAX_SEQUENCE,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    EndTxnMarker,
    HeaderFields,
)
from storage.log.verification import MAX_VERIFICATIONS, NOT_VERIFIED, VerificationGuard, VerificationStateEntry

WINDOW = 5
NO_EPOCH = -1
MAX_EPOCH = 2**15 - 1
NO_OFFSET = -1

EPOCH_PER_TRANSACTION = 2
"""The transaction.version from which each transaction has its own producer epoch (KIP-890)."""


class AppendedBatch(NamedTuple):
    """A batch in a producer's window; `timestamp` is its largest one, in ms (Kafka: `BatchMetadata`)."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The first record's sequence."""
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def base_offset(self) -> int:
        """The first record's offset."""
        return self.last_offset - self.offset_delta


class AppendOrigin(NamedTuple):
    """The origin of a batch that the leader appends, on which its checks depend (Kafka: `AppendOrigin`)."""

    from_client: bool
    """Whether a client sent it: the sequences of a coordinator's batches are not checked."""
    marker: EndTxnMarker | None = None
    """What the batch holds, if a transaction coordinator sent it as a marker."""
    transaction_version: int = 0
    """The `transaction.version` of the marker's transaction."""
    guard: VerificationGuard | None = None
    """The guard of the verification that the batch's transaction has passed; None if it has to be open already."""


CLIENT = AppendOrigin(from_client=True, guard=NOT_VERIFIED)
CLIENT_IN_TRANSACTION = AppendOrigin(from_client=True)
COORDINATOR = AppendOrigin(from_client=False, guard=NOT_VERIFIED)


# Equivalent to the class, without a Python call per batch.
_appended_batch = partial(tuple.__new__, AppendedBatch)


class CompletedTxn(NamedTuple):
    """A transaction completed by its marker; both offsets are inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool
    last_stable_offset: int


class ProducerStateEntry:
    """One producer's epoch, window of batches (oldest first) and open transaction (Kafka: `ProducerStateEntry`)."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "txn_first_offset")

    def __init__(
        self,
        epoch: int = NO_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = NO_TIMESTAMP,
        txn_first_offset: int = NO_OFFSET,
        batches: list[AppendedBatch] | None = None,
    ) -> None:
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.txn_first_offset = txn_first_offset
        self.batches: list[AppendedBatch] = batches if batches is not None else []

    def enter_epoch(self, epoch: int) -> None:
        """Set the epoch and clear the window of the one before."""
        self.epoch = epoch
        self.batches.clear()

    def duplicate(self, header: BatchHeader) -> AppendedBatch | None:
        """Return the batch in the window that a batch of this epoch repeats."""
        for batch in self.batches:
            if batch.first_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        return None

    def remember(self, batch: AppendedBatch) -> None:
        """Add the newest batch to the window; drop the oldest if it is full."""
        batches = self.batches
        if len(batches) == WINDOW:
            del batches[0]
        batches.append(batch)


class ProducerStateManager:
    """The producers of one partition, as of `end_offset`.

    `first_unstable_offset` is None when every transaction is completed and its marker below the high watermark.
    """

    __slots__ = ("_ended", "_finished", "_open", "end_offset", "first_unstable_offset", "producers", "verifications")

    def __init__(self, end_offset: int = 0, producers: dict[int, ProducerStateEntry] | None = None) -> None:
        self.end_offset = end_offset
        self.producers: dict[int, ProducerStateEntry] = producers if producers is not None else {}
        self.first_unstable_offset: int | None = None
        self.verifications: dict[int, VerificationStateEntry] = {}
        """The verifications by producer id; not a function of the log, and in no snapshot."""
        # The ids of those that wait for no coordinator, from the one that has waited for none the longest.
        self._finished: OrderedDict[int, None] = OrderedDict()
        # First offset -> producer id of the open transactions, in log order. The first of a plain dict would be behind
        # all that have ended: to find it would take time in proportion to their number.
        self._open: OrderedDict[int, int] = OrderedDict()
        # (last offset, first offset) of the completed transactions whose marker may not be below the high watermark, in
        # log order. One that began after a later one is left out: it is never the first, so the first is the minimum.
        self._ended: list[tuple[int, int]] = []
        if producers:
            self._open.update(
                sorted(
                    (entry.txn_first_offset, producer_id)
                    for producer_id, entry in producers.items()
                    if entry.txn_first_offset != NO_OFFSET
                )
            )
            self._find_first_unstable()

    def check(self, header: BatchHeader, origin: AppendOrigin = CLIENT) -> AppendedBatch | None:
        """Validate a batch before it is appended; return the batch that it duplicates, or None to append it.

        Raise INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, or INVALID_TXN_STATE for a non-transactional batch
        during a transaction, and for a transactional one that neither belongs to the open transaction nor has the
        guard of a verification.
        """
        # Unpacking is several times as fast as access by name.
        _, _, _, _, _, attributes, _, _, _, producer_id, epoch, sequence, _ = header
        entry = self.producers.get(producer_id)
        if attributes & TRANSACTIONAL_BIT and (
            entry is None or entry.txn_first_offset == NO_OFFSET or epoch != entry.epoch
        ):
            self._check_first_of_transaction(header, entry, origin)
        if entry is None:
            return None
        if epoch == entry.epoch:
            last = entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE
            if sequence != last + 1 & MAX_SEQUENCE and origin.from_client:
                duplicate = entry.duplicate(header)
                if duplicate is not None:
                    if attributes & TRANSACTIONAL_BIT and duplicate.base_offset < entry.txn_first_offset:
                        raise _of_ended_transaction(producer_id, sequence)
                    return duplicate
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {producer_id} sent sequence {sequence} after {last}",
                )
        elif epoch < entry.epoch:
            raise _fenced(producer_id, epoch, entry)
        elif sequence != 0 and entry.epoch != NO_EPOCH and origin.from_client:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} began epoch {epoch} with sequence {sequence}",
            )
        if entry.txn_first_offset != NO_OFFSET and not attributes & TRANSACTIONAL_BIT:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} sent a non-transactional batch while its transaction is open",
            )
        return None

    def _check_first_of_transaction(
        self, header: BatchHeader, entry: ProducerStateEntry | None, origin: AppendOrigin
    ) -> None:
        """Validate a batch that would begin a transaction here."""
        producer_id, epoch, sequence = header.producer_id, header.producer_epoch, header.base_sequence
        if entry is not None:
            if epoch < entry.epoch:
                raise _fenced(producer_id, epoch, entry)
            if epoch == entry.epoch and origin.from_client and entry.duplicate(header) is not None:
                raise _of_ended_transaction(producer_id, sequence)
        verification = self.verifications.get(producer_id)
        if origin.guard is not NOT_VERIFIED and (verification is None or origin.guard is not verification.guard):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, f"a batch of producer {producer_id} is not part of an open transaction"
            )
        if verification is None or not origin.from_client:
            return
        if verification.supports_epoch_bump and sequence != 0 and (entry is None or not entry.batches):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} without state began a transaction with sequence {sequence}",
            )
        if sequence > verification.lowest_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent sequence {sequence}, {verification.lowest_sequence} was not appended yet",
            )

    def in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether the producer's transaction in this epoch is open here."""
        entry = self.producers.get(producer_id)
        return entry is not None and entry.epoch == epoch and entry.txn_first_offset != NO_OFFSET

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """Return the guard for a transactional batch, or None if its transaction is open here already.

        Until a batch or marker of the producer is appended, the guard is the same. `finish_verification` follows once
        the coordinator has responded. Raise INVALID_PRODUCER_EPOCH.
        Kafka: `UnifiedLog.maybeStartTransactionVerification`.
        """
        entry = self.producers.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise _fenced(producer_id, epoch, entry)
        if self.in_transaction(producer_id, epoch):
            return None
        verification = self.verifications.get(producer_id)
        if verification is None:
            self._drop_oldest_verifications()
            verification = VerificationStateEntry(now_ms, sequence, epoch, supports_epoch_bump=supports_epoch_bump)
            self.verifications[producer_id] = verification
        else:
            verification.begin(sequence, epoch)
            self._finished.pop(producer_id, None)
        return verification.guard

    def finish_verification(self, producer_id: int, guard: VerificationGuard, *, is_known: bool) -> None:
        """Record that the coordinator has responded, or failed to; `is_known` if it may know the producer id.

        The verification is removed if no response was from a coordinator that may know the id, and the partition does
        not know it either: a client may have made it up.
        """
        verification = self.verifications.get(producer_id)
        if verification is None or verification.guard is not guard:
            return
        verification.in_flight -= 1
        verification.is_known |= is_known
        if verification.in_flight:
            return
        if verification.is_known or producer_id in self.producers:
            self._finished[producer_id] = None
        else:
            del self.verifications[producer_id]

    def _drop_oldest_verifications(self) -> None:
        """Make room for one more among the verifications that wait for no coordinator.

        Those that wait for one are limited by `MAX_PENDING_REQUESTS` (`AddPartitionsToTxnManager`).
        """
        while len(self._finished) >= MAX_VERIFICATIONS:
            oldest, _ = self._finished.popitem(last=False)
            del self.verifications[oldest]

    def _remove_verification(self, producer_id: int) -> None:
        if self.verifications.pop(producer_id, None) is not None:
            self._finished.pop(producer_id, None)

    def check_marker(self, header: BatchHeader, marker: EndTxnMarker, transaction_version: int) -> None:
        """Validate a coordinator's marker before it is appended.

        From `transaction_version` 2 on a marker has a higher epoch than the records of its transaction: a marker of the
        current epoch is accepted only if it repeats that of a completed transaction. Raise INVALID_PRODUCER_EPOCH, or
        TRANSACTION_COORDINATOR_FENCED for an older coordinator epoch.
        """
        entry = self.producers.get(header.producer_id)
        if entry is None:
            return
        epoch = header.producer_epoch
        again = epoch == entry.epoch and (entry.txn_first_offset == NO_OFFSET or epoch == MAX_EPOCH)
        has_own_epoch = transaction_version >= EPOCH_PER_TRANSACTION
        if epoch < entry.epoch or (has_own_epoch and epoch == entry.epoch and not again):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"marker for producer {header.producer_id} with epoch {epoch} after {entry.epoch}",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"marker of coordinator epoch {marker.coordinator_epoch} after {entry.coordinator_epoch}",
            )

    def update(self, header: HeaderFields, marker: EndTxnMarker | None = None) -> CompletedTxn | None:
        """Apply the next batch of the log; return the transaction that it completes, if any.

        The caller reads the `marker` of a control batch with `end_txn_marker`.
        """
        base_offset, _, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, sequence, _ = header
        last_offset = base_offset + delta
        self.end_offset = last_offset + 1
        if producer_id < 0 or (attributes & CONTROL_BIT and marker is None):
            return None
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerStateEntry()
        if epoch != entry.epoch:
            entry.enter_epoch(epoch)
        entry.last_timestamp = timestamp
        if marker is not None:
            entry.coordinator_epoch = marker.coordinator_epoch
            verification = self.verifications.get(producer_id)
            # A marker with the verification's own epoch repeats one of the transaction before, if each has its own.
            if verification is not None and not (verification.supports_epoch_bump and epoch == verification.epoch):
                self._remove_verification(producer_id)
            return self._end_transaction(producer_id, entry, last_offset, aborted=not marker.committed)
        last_sequence = sequence if sequence == NO_SEQUENCE else sequence + delta & MAX_SEQUENCE
        entry.remember(_appended_batch((last_sequence, last_offset, delta, timestamp)))
        if attributes & TRANSACTIONAL_BIT:
            if self.verifications:
                self._remove_verification(producer_id)
            if entry.txn_first_offset != NO_OFFSET:
                return None
            entry.txn_first_offset = base_offset
            self._open[base_offset] = producer_id
            self._find_first_unstable()
        return None

    def _end_transaction(
        self, producer_id: int, entry: ProducerStateEntry, last_offset: int, *, aborted: bool
    ) -> CompletedTxn | None:
        first = entry.txn_first_offset
        if first == NO_OFFSET:
            return None
        entry.txn_first_offset = NO_OFFSET
        del self._open[first]
        while self._ended and self._ended[-1][1] > first:
            self._ended.pop()
        self._ended.append((last_offset, first))
        self._find_first_unstable()
        stable = next(iter(self._open), last_offset + 1)
        return CompletedTxn(producer_id, first, last_offset, aborted, stable)

    @property
    def open_transactions(self) -> list[tuple[int, int]]:
        """The first offset and the producer id of every open transaction, in log order."""
        return list(self._open.items())

    def close_transaction(self, first_offset: int) -> None:
        """Treat the open transaction that began at `first_offset` as completed."""
        self.producers[self._open.pop(first_offset)].txn_first_offset = NO_OFFSET
        self._find_first_unstable()

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Drop the completed transactions whose marker is below `high_watermark`."""
        stable = bisect_left(self._ended, (high_watermark,))
        if stable:
            del self._ended[:stable]
            self._find_first_unstable()

    def log_start_moved(self, log_start_offset: int) -> None:
        """Apply a higher log start offset; producers whose records were deleted are kept (KIP-360)."""
        self.high_watermark_moved(log_start_offset)
        self.end_offset = max(self.end_offset, log_start_offset)

    def _find_first_unstable(self) -> None:
        first_open = next(iter(self._open), None)
        first_ended = self._ended[0][1] if self._ended else None
        if first_open is None or (first_ended is not None and first_ended < first_open):
            self.first_unstable_offset = first_ended
        else:
            self.first_unstable_offset = first_open

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove the producers idle for `expiration_ms` (`producer.id.expiration.ms`); return their number.

        Verifications that began so long ago are removed, too.
        """
        newest_to_go = now_ms - expiration_ms
        expired = [
            producer_id
            for producer_id, entry in self.producers.items()
            if entry.last_timestamp <= newest_to_go and entry.txn_first_offset == NO_OFFSET
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        for producer_id in [known for known, one in self.verifications.items() if one.timestamp <= newest_to_go]:
            self._remove_verification(producer_id)
        return len(expired)

    def refill(self, headers: Iterable[BatchHeader]) -> None:
        """Extend the windows after a snapshot, which has only each producer's last batch.

        `headers` are the batches before the snapshot's offset, from any offset on, in log order.
        """
        earlier = ProducerStateManager()
        for header in headers:
            if not header.is_control:
                earlier.update(header)
        for producer_id, entry in self.producers.items():
            found = earlier.producers.get(producer_id)
            if found is None or found.epoch != entry.epoch or not entry.batches:
                continue
            if found.batches[-1].last_offset == entry.batches[-1].last_offset:
                entry.batches = found.batches


def _of_ended_transaction(producer_id: int, sequence: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"producer {producer_id} sent sequence {sequence} again, of a transaction that has ended",
    )


def _fenced(producer_id: int, epoch: int, entry: ProducerStateEntry) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {producer_id} with epoch {epoch} is fenced by epoch {entry.epoch}",
    )
