"""The state machine of a transactional id (Kafka: `TransactionMetadata`, `TransactionState`, `TxnTransitMetadata`).

    Empty ------> Ongoing ----+--> PrepareCommit --> CompleteCommit --+
      |              ^        |                                       |
      |              |        +--> PrepareAbort ---> CompleteAbort ---+--> Ongoing, PrepareAbort, Empty, Dead
      |              +------------------^                             |
      +--------------- (transaction.version 2, no partitions) --------+

A `TransactionMetadata` never changes. Each `begin_...`, `add_...`, `end` and `complete` returns the metadata after a
transition. The coordinator writes it, and a `TransactionalId` takes it as its `metadata` once it is below the high
watermark; until then it is `pending`, and other transitions are refused with CONCURRENT_TRANSACTIONS.

With transaction.version 2 (KIP-890) each transaction has its own epoch: `end` increases it. An epoch of 32,767 is never
sent to a producer, so that the coordinator can always fence it; when it is reached, `end` stores a next producer id and
`complete` begins with that one at epoch 0. `producer_id` is the id of the markers until then.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeAlias

from broker.coordinator.transaction.transaction_partitions import TransactionPartitions
from protocol.errors import InvariantError

TopicPartition: TypeAlias = tuple[str, int]

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_START_MS = -1
NO_PARTITIONS = TransactionPartitions.of(())
MAX_EPOCH = 32_767
NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of a two-phase commit transaction, which is never aborted for its age (KIP-939)."""

EPOCH_PER_TRANSACTION = 2
"""The transaction.version from which each transaction has its own producer epoch (KIP-890)."""


class TransactionState(IntEnum):
    """The states; the values are those of the records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """The id has expired, and is removed once its tombstone is committed."""
    PREPARE_EPOCH_FENCE = 7
    """Between the fencing of a producer and the abort of its transaction, which are one step here: never stored."""

    @property
    def display_name(self) -> str:
        """Return the name that clients see: "CompleteCommit"."""
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
    """The state of a transactional id at one time.

    `last_producer_epoch` is the epoch before the latest one, if its producer requested that with its own id and epoch
    (KIP-360); it is not stored. `previous_producer_id` is the id before the latest transition.
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
    client_version: int = 0
    """The transaction.version of the client that made the latest transition."""

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether no more epoch can be sent to a producer with this id."""
        return is_epoch_exhausted(self.producer_epoch)

    def has_timed_out(self, now_ms: int) -> bool:
        """Return whether the transaction is open for longer than its timeout."""
        return self.state is ONGOING and self.timeout_ms != NO_TIMEOUT_MS and self.start_ms + self.timeout_ms < now_ms

    def has_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Return whether the id is unused for `transactional.id.expiration.ms`."""
        return self.state in IDLE and self.last_update_ms <= now_ms - expiration_ms

    # Transitions.

    def increment_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> TransactionMetadata | None:
        """Return the metadata for a new producer, or for one that recovers with its `expected_epoch` (KIP-360).

        A retry of a recovery gets the epoch that it already has. None: another producer has fenced this one.
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
        """Return the metadata with a new producer id, because the epochs of the current one are used up."""
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
            timeout_ms=timeout_ms,
            partitions=NO_PARTITIONS,
            start_ms=NO_START_MS,
            last_update_ms=now_ms,
        )

    def add_partitions(
        self, partitions: TransactionPartitions, client_version: int, now_ms: int
    ) -> TransactionMetadata:
        """Return the metadata of the open transaction with more partitions; begin one if none is open."""
        return self._to(
            ONGOING,
            partitions=self.partitions.with_all(partitions) if self.partitions else partitions,
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def end(self, *, commit: bool, client_version: int, next_producer_id: int, now_ms: int) -> TransactionMetadata:
        """Return the metadata with the decision to commit or abort.

        With transaction.version 2 the epoch increases; `next_producer_id` is the one after this transaction if no epoch
        is left. An abort without a transaction begins and ends one.
        """
        decided = PREPARE_COMMIT if commit else PREPARE_ABORT
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if client_version >= EPOCH_PER_TRANSACTION:
            epoch, last_epoch = min(epoch + 1, MAX_EPOCH), epoch
        return self._to(
            decided,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=next_producer_id,
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def fence(self) -> TransactionMetadata:
        """Return the open transaction with the epoch of its abort for transaction.version 0 and 1, never sent out."""
        return self._replace(
            producer_epoch=min(self.producer_epoch + 1, MAX_EPOCH), last_producer_epoch=NO_PRODUCER_EPOCH
        )

    def complete(self, now_ms: int) -> TransactionMetadata:
        """Return the metadata once all markers are written."""
        completed = COMPLETE_COMMIT if self.state is PREPARE_COMMIT else COMPLETE_ABORT
        producer_id, epoch = self.producer_id, self.producer_epoch
        if self.client_version >= EPOCH_PER_TRANSACTION and self.next_producer_id != NO_PRODUCER_ID:
            producer_id, epoch = self.next_producer_id, 0
        return self._to(
            completed,
            producer_id=producer_id,
            producer_epoch=epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=NO_PARTITIONS,
            last_update_ms=now_ms,
        )

    def expire(self) -> TransactionMetadata:
        """Return the metadata of an expired id."""
        return self._to(DEAD, partitions=NO_PARTITIONS)

    def _to(self, state: TransactionState, **changes: object) -> TransactionMetadata:
        if self.state not in _PREVIOUS_STATES[state]:
            raise InvariantError(f"a transaction cannot go from {self.state.display_name} to {state.display_name}")
        return self._replace(state=state, previous_producer_id=self.producer_id, **changes)  # type: ignore[arg-type]


class TransactionalId:
    """A transactional id: its committed metadata, and the pending one while a transition is being written."""

    __slots__ = ("metadata", "name", "pending")

    def __init__(self, name: str, metadata: TransactionMetadata) -> None:
        self.name = name
        self.metadata = metadata
        self.pending: TransactionMetadata | None = None

    @property
    def is_new(self) -> bool:
        """Whether nothing of it is committed yet."""
        return self.metadata.producer_epoch == NO_PRODUCER_EPOCH


def is_epoch_exhausted(epoch: int) -> bool:
    """Return whether no higher epoch can be sent to a producer."""
    return epoch >= MAX_EPOCH - 1
