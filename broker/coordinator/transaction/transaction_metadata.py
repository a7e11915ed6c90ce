"""The state machine of a transactional id (Kafka: `TransactionMetadata`, `TransactionState`, `TxnTransitMetadata`).

    Empty ------> Ongoing ----+--> PrepareCommit --> CompleteCommit --+
      |              ^        |                                       |
      |              |        +--> PrepareAbort ---> CompleteAbort ---+--> Ongoing, PrepareAbort, Empty, Dead
      |              +------------------^                             |
      +--------------- (transaction.version 2, no partitions) --------+

A `TransactionMetadata` is immutable (Kafka: `TxnTransitMetadata`): each method under "Transitions" returns the metadata
after one. The coordinator writes it. A `TransactionalId` (Kafka: `TransactionMetadata`) has it as `pending` until it is
below the high watermark, then as `metadata`; meanwhile other transitions are refused with CONCURRENT_TRANSACTIONS.

With transaction.version 2 (KIP-890) each transaction has its own epoch: `end` increments it. Epoch 32,767 is never sent
to a producer, so that the coordinator can always fence it: `end` stores the next producer id instead, and `complete`
sets that at epoch 0. Until then `producer_id` is that of the markers.

A producer that starts may keep the open transaction of the one before, which prepared it for two-phase commit
(KIP-939): `keep_prepared` stores the new producer as the next id and epoch, again at each start, and leaves
`producer_id` and `producer_epoch`, with which the transaction is found again and its markers are written:

    Ongoing 42/100 --keep_prepared--> Ongoing 42/100 next 42/101 --end--> PrepareCommit 42/101 next 42/102
                                                              --complete--> CompleteCommit 42/102

`client` is the producer that may send requests, the only one.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.coordinator.transaction.transaction_partitions import TransactionPartitions
from protocol.errors import InvariantError
from protocol.record_batch import NO_PRODUCER_ID
from storage.log.producer_state import EPOCH_PER_TRANSACTION, MAX_EPOCH

NO_PRODUCER_EPOCH = -1
NO_START_MS = -1
NO_PARTITIONS = TransactionPartitions.of(())
NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of a two-phase commit transaction, which is never aborted for its age (KIP-939)."""


class TransactionState(IntEnum):
    """The state of a transactional id; the values are those of the records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """Expired; only pending: the id is removed once its tombstone is committed."""
    PREPARE_EPOCH_FENCE = 7
    """Never used: fencing a producer and aborting its transaction are one transition here. For filters of states."""

    @property
    def display_name(self) -> str:
        """Return the name in responses: "CompleteCommit"."""
        return self.name.title().replace("_", "")


EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
DEAD = TransactionState.DEAD

IDLE = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
PREPARED = (PREPARE_COMMIT, PREPARE_ABORT)

_PREVIOUS_STATES = {
    EMPTY: IDLE,
    ONGOING: (ONGOING, *IDLE),
    PREPARE_COMMIT: (ONGOING,),
    PREPARE_ABORT: (ONGOING, *IDLE),
    COMPLETE_COMMIT: (PREPARE_COMMIT,),
    COMPLETE_ABORT: (PREPARE_ABORT,),
    DEAD: IDLE,
}


class TransactionMetadata(NamedTuple):
    """The state of a transactional id between two transitions (Kafka: `TxnTransitMetadata`).

    Times are the wall clock's, in ms. `start_ms` is that of the latest transaction. `previous_producer_id` is the
    producer id before the latest transition, of the producer that made it. `next_producer_id` and `next_producer_epoch`
    are those of the next transaction, if this one is the last of its id or is kept for another producer; else -1. A
    next id without an epoch, as Kafka 4.3 stores it, has epoch 0. `last_producer_epoch` is the epoch before the latest
    one, if its producer requested that with its own id and epoch (KIP-360) or ended a transaction; it is not stored, as
    in Kafka.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = EMPTY
    partitions: TransactionPartitions = NO_PARTITIONS
    start_ms: int = NO_START_MS
    last_update_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    client_transaction_version: int = 0
    """The transaction.version of the client that made the latest transition."""
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    is_fenced: bool = False
    """Whether the transaction was aborted for a new producer, which has no epoch yet.

    It is not stored: after a failover, an EndTxn of the fenced producer is taken for a retry, as in Kafka.
    """

    @property
    def client(self) -> ProducerIdAndEpoch:
        """Return the latest id and epoch that were sent to a producer (KIP-939)."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)
        return ProducerIdAndEpoch(self.next_producer_id, max(self.next_producer_epoch, 0))

    @property
    def is_kept(self) -> bool:
        """Return whether the open transaction is one of a former producer, which the client may only end."""
        return self.state is ONGOING and self.next_producer_id != NO_PRODUCER_ID

    @property
    def is_epoch_exhausted(self) -> bool:
        """Return whether no higher epoch of the client's producer id can be sent to a producer."""
        return is_epoch_exhausted(self.client.epoch)

    def has_timed_out(self, now_ms: int) -> bool:
        """Return whether the transaction is open for longer than its timeout, at wall-clock time `now_ms`."""
        return self.state is ONGOING and self.timeout_ms != NO_TIMEOUT_MS and self.start_ms + self.timeout_ms < now_ms

    def has_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Return whether no transaction is open, and the latest transition was at least `expiration_ms` ago."""
        return self.state in IDLE and self.last_update_ms <= now_ms - expiration_ms

    # Transitions.

    def increment_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> TransactionMetadata | None:
        """Return the metadata for a new producer, or for one that recovers with its `expected_epoch` (KIP-360).

        A retry of a recovery gets the current epoch. None if another producer has fenced this one.
        """
        epoch, last_epoch = self.producer_epoch + 1, NO_PRODUCER_EPOCH
        if expected_epoch is not None:
            if self.producer_epoch in (NO_PRODUCER_EPOCH, expected_epoch):
                last_epoch = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch:
                epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
            else:
                return None
        return self._to_empty(self.producer_id, epoch, last_epoch, timeout_ms, now_ms)

    def rotate_producer_id(
        self, producer_id: int, timeout_ms: int, *, is_recovery: bool, now_ms: int
    ) -> TransactionMetadata:
        """Return the metadata with a new producer id at epoch 0: the epochs of the current one are exhausted."""
        last_epoch = self.producer_epoch if is_recovery else NO_PRODUCER_EPOCH
        return self._to_empty(producer_id, 0, last_epoch, timeout_ms, now_ms)

    def _to_empty(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> TransactionMetadata:
        return self._to(
            EMPTY,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_PRODUCER_EPOCH,
            timeout_ms=timeout_ms,
            partitions=NO_PARTITIONS,
            start_ms=NO_START_MS,
            last_update_ms=now_ms,
        )

    def add_partitions(
        self, partitions: TransactionPartitions, client_transaction_version: int, now_ms: int
    ) -> TransactionMetadata:
        """Return the metadata of the open transaction with more partitions, or of a new one."""
        return self._to(
            ONGOING,
            partitions=self.partitions.with_all(partitions) if self.partitions else partitions,
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            last_update_ms=now_ms,
            client_transaction_version=client_transaction_version,
        )

    def keep_prepared(self, timeout_ms: int, new_producer_id: int, now_ms: int) -> TransactionMetadata:
        """Return the open transaction with the next client, which may only end it (KIP-939).

        `new_producer_id` is that of the client if the epochs are exhausted, else -1. The timeout of a prepared
        transaction never becomes shorter.
        """
        client = self.client
        is_new = new_producer_id != NO_PRODUCER_ID
        return self._to(
            ONGOING,
            next_producer_id=new_producer_id if is_new else client.producer_id,
            next_producer_epoch=0 if is_new else client.epoch + 1,
            timeout_ms=max(self.timeout_ms, timeout_ms),
            last_update_ms=now_ms,
        )

    def end(
        self,
        *,
        commit: bool,
        client_transaction_version: int,
        new_producer_id: int,
        now_ms: int,
        is_fenced: bool = False,
    ) -> TransactionMetadata:
        """Return the metadata with the decision to commit or abort.

        With transaction.version 2 the epoch is incremented, that of the client too if the transaction was kept for it;
        `new_producer_id` is the client's for the next transaction if its epochs are exhausted, else -1. An abort
        without a transaction begins and ends one. `is_fenced`: the abort is that of a new producer.
        """
        decided = PREPARE_COMMIT if commit else PREPARE_ABORT
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        next_id, next_epoch = self.next_producer_id, self.next_producer_epoch
        if client_transaction_version >= EPOCH_PER_TRANSACTION:
            epoch = min(epoch + 1, MAX_EPOCH)
            last_epoch = NO_PRODUCER_EPOCH if is_fenced else self.client.epoch
            if new_producer_id != NO_PRODUCER_ID:
                next_id, next_epoch = new_producer_id, NO_PRODUCER_EPOCH
            elif self.is_kept:
                next_epoch = self.client.epoch + 1
        return self._to(
            decided,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=next_id,
            next_producer_epoch=next_epoch,
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            last_update_ms=now_ms,
            client_transaction_version=client_transaction_version,
            is_fenced=is_fenced,
        )

    def fence(self) -> TransactionMetadata:
        """Return the open transaction with the epoch of its abort, for transaction.version 0 and 1: never sent out."""
        fenced = self._replace(
            producer_epoch=min(self.producer_epoch + 1, MAX_EPOCH), last_producer_epoch=NO_PRODUCER_EPOCH
        )
        if self.is_kept:
            return fenced._replace(next_producer_epoch=min(self.client.epoch + 1, MAX_EPOCH))
        return fenced

    def complete(self, now_ms: int) -> TransactionMetadata:
        """Return the metadata once all markers are written."""
        completed = COMPLETE_COMMIT if self.state is PREPARE_COMMIT else COMPLETE_ABORT
        client = self.client
        return self._to(
            completed,
            producer_id=client.producer_id,
            producer_epoch=client.epoch,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_PRODUCER_EPOCH,
            partitions=NO_PARTITIONS,
            last_update_ms=now_ms,
            is_fenced=self.is_fenced,
        )

    def expire(self) -> TransactionMetadata:
        """Return the metadata of an expired id."""
        return self._to(DEAD, partitions=NO_PARTITIONS)

    def _to(self, state: TransactionState, **changes: object) -> TransactionMetadata:
        if self.state not in _PREVIOUS_STATES[state]:
            raise InvariantError(f"a transaction cannot go from {self.state.display_name} to {state.display_name}")
        defaults = {"previous_producer_id": self.client.producer_id, "is_fenced": False}
        return self._replace(state=state, **{**defaults, **changes})  # type: ignore[arg-type]


class TransactionalId:
    """A transactional id (Kafka: `TransactionMetadata`).

    `metadata` is committed; `pending` is that of the transition that is being written, or waits for its markers.
    `partition` is that of `__transaction_state`, None until it is needed: to hash a long name takes 2 ms.
    """

    __slots__ = ("metadata", "name", "partition", "pending")

    def __init__(self, name: str, metadata: TransactionMetadata) -> None:
        self.name = name
        self.metadata = metadata
        self.partition: int | None = None
        self.pending: TransactionMetadata | None = None

    @property
    def is_new(self) -> bool:
        """Return whether no metadata of it is committed yet."""
        return self.metadata.producer_epoch == NO_PRODUCER_EPOCH


def is_epoch_exhausted(epoch: int) -> bool:
    """Return whether no epoch above `epoch` can be sent to a producer."""
    return epoch >= MAX_EPOCH - 1
