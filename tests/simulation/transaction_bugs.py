"""Planted bugs of transactions: of the coordinator, the partitions and the groups. See `bugs.py`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker.coordinator.group.offsets import Offsets
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.transaction import request_checks, shard
from broker.coordinator.transaction.context import ProducerResult
from broker.coordinator.transaction.marker_channel_manager import (
    PendingCompleteTxn,
    TransactionMarkerChannelManager,
)
from broker.coordinator.transaction.shard import TransactionCoordinatorShard
from broker.coordinator.transaction.transaction_metadata import (
    ONGOING,
    PREPARED,
    TransactionalId,
    TransactionMetadata,
)
from broker.replication.add_partitions_to_txn_manager import AddPartitionsToTxnManager, Verified
from broker.replication.verification_queue import TransactionOperation
from protocol.errors import ErrorCode
from protocol.record_batch import NO_PRODUCER_ID, BatchHeader
from simulation.violation import Invariant
from storage.log.log import Log
from storage.log.producer_state import AppendedBatch, ProducerStateManager
from storage.log.transaction_index import AbortedTxn, TransactionIndex
from storage.log.verification import NOT_VERIFIED
from tests.planting import Bug, Planter
from tests.simulation import simulation


def sends_markers_before_decision(plant: Planter) -> None:
    """The markers are sent before the decision is committed (rule 16)."""
    transition = TransactionCoordinatorShard._transition

    def decide(
        self: TransactionCoordinatorShard, context: Any, one: TransactionalId, target: TransactionMetadata, *args: Any
    ) -> None:
        transition(self, context, one, target, *args)
        if target.state in PREPARED:
            one.metadata = target
            context.send_markers(one)

    plant.setattr(TransactionCoordinatorShard, "_transition", decide)


def does_not_retry_markers(plant: Planter) -> None:
    """A marker counts as written whatever the leader, or a former one, has answered."""

    def acknowledge(
        self: TransactionMarkerChannelManager,
        pending: PendingCompleteTxn,
        partitions: Iterable[Any],
        *_: Any,
        **__: Any,
    ) -> None:
        pending.missing.difference_update(partitions)
        self._complete_if_written(pending)

    plant.setattr(TransactionMarkerChannelManager, "_acknowledge", acknowledge)


def completes_after_first_marker(plant: Planter) -> None:
    """A transaction is completed once the first leader has written its markers."""
    acknowledge = TransactionMarkerChannelManager._acknowledge

    def complete(
        self: TransactionMarkerChannelManager, pending: PendingCompleteTxn, *args: Any, **options: Any
    ) -> None:
        before = len(pending.missing)
        acknowledge(self, pending, *args, **options)
        if len(pending.missing) < before:
            pending.missing.clear()
            self._complete_if_written(pending)

    plant.setattr(TransactionMarkerChannelManager, "_acknowledge", complete)


def does_not_resume_markers(plant: Planter) -> None:
    """A new coordinator does not send the markers of prepared transactions (rule 16)."""
    plant.setattr(TransactionCoordinatorShard, "loaded", lambda self, context: None)


def loses_epoch_on_load(plant: Planter) -> None:
    """A new coordinator has the epoch before the latest one of each transactional id."""
    replay = TransactionCoordinatorShard.replay

    def replay_earlier(self: TransactionCoordinatorShard, *args: Any) -> None:
        replay(self, *args)
        for one in self.ids.values():
            if one.metadata.state not in PREPARED and one.metadata.producer_epoch > 1:
                one.metadata = one.metadata._replace(producer_epoch=one.metadata.producer_epoch - 1)

    plant.setattr(TransactionCoordinatorShard, "replay", replay_earlier)


def accepts_fenced_producers(plant: Planter) -> None:
    """Partitions and offsets are added to a transaction for any epoch of its producer."""
    check = request_checks.check_producer

    def check_id(one: TransactionalId | None, producer: Any) -> ErrorCode:
        return check(one, producer if one is None else producer._replace(epoch=one.metadata.producer_epoch))

    plant.setattr(shard, "check_producer", check_id)


def accepts_retry_with_other_result(plant: Planter) -> None:
    """An EndTxn that follows a completed transaction is taken for a retry, whatever result it requests."""
    check = request_checks.check_end

    def check_result(one: TransactionalId, request: Any) -> tuple[ErrorCode, bool]:
        error, is_retry = check(one, request)
        if error is ErrorCode.INVALID_TXN_STATE and one.metadata.producer_epoch == request.producer_epoch + 1:
            return ErrorCode.NONE, True
        return error, is_retry

    plant.setattr(shard, "check_end", check_result)


def aborts_timed_out_transaction_in_its_epoch(plant: Planter) -> None:
    """A transaction that timed out is aborted without a new epoch, so that its producer goes on."""
    abort = TransactionCoordinatorShard._abort_ongoing

    def abort_in_epoch(
        self: TransactionCoordinatorShard, context: Any, one: TransactionalId, to: object, **options: Any
    ) -> None:
        if to is not None:
            abort(self, context, one, to, **options)
        else:
            target = shard._decided(context, one.metadata, commit=False, client_transaction_version=0)
            assert target is not None
            self._transition(context, one, target, None, ProducerResult(ErrorCode.NONE))

    plant.setattr(TransactionCoordinatorShard, "_abort_ongoing", abort_in_epoch)


def does_not_verify_transactions(plant: Planter) -> None:
    """The first batch of a transaction of version 1 is appended without verification (rule 14)."""
    verify = AddPartitionsToTxnManager.verify

    def verify_added(self: AddPartitionsToTxnManager, transaction: Any, sequences: Any) -> Any:
        if transaction.operation is TransactionOperation.ADD:
            return verify(self, transaction, sequences)
        return Verified({}, dict.fromkeys(sequences, NOT_VERIFIED))

    plant.setattr(AddPartitionsToTxnManager, "verify", verify_added)


def stable_offset_is_one_too_high(plant: Planter) -> None:
    """The last stable offset is after the first record of an open transaction (rule 13)."""

    def stable(self: Log) -> int:
        first = self.producers.first_unstable_offset
        return self.high_watermark if first is None else min(self.high_watermark, first + 1)

    plant.setattr(Log, "last_stable_offset", property(stable))


def stable_offset_ignores_uncommitted_markers(plant: Planter) -> None:
    """A transaction counts as completed before its marker is below the high watermark (rule 13)."""

    def find(self: ProducerStateManager) -> None:
        self.first_unstable_offset = next(iter(self._open), None)

    plant.setattr(ProducerStateManager, "_find_first_unstable", find)


def truncation_drops_aborted_transactions(plant: Planter) -> None:
    """A truncation drops all aborted transactions of its segment from the index (rule 13)."""
    truncate = TransactionIndex.truncate_to

    def truncate_all(self: TransactionIndex, _offset: int) -> None:
        truncate(self, 0)

    plant.setattr(TransactionIndex, "truncate_to", truncate_all)


def followers_index_no_aborted_transactions(plant: Planter) -> None:
    """Only the leader writes the index of aborted transactions."""
    append, index = Log.append_as_follower, Log._index_completed
    following: list[Log] = []

    def append_records(self: Log, *args: Any) -> Any:
        following.append(self)
        try:
            return append(self, *args)
        finally:
            following.pop()

    def index_if_leader(self: Log, transaction: Any) -> None:
        if not following:
            index(self, transaction)

    plant.setattr(Log, "append_as_follower", append_records)
    plant.setattr(Log, "_index_completed", index_if_leader)


def lists_one_aborted_transaction(plant: Planter) -> None:
    """A fetch lists only the first aborted transaction of its range."""
    aborted = Log.aborted_transactions

    def first(self: Log, *args: Any) -> list[AbortedTxn]:
        return aborted(self, *args)[:1]

    plant.setattr(Log, "aborted_transactions", first)


def takes_batches_of_new_epoch_for_duplicates(plant: Planter) -> None:
    """A batch with the sequences of one of the producer's epoch before is answered as its duplicate (rule 11)."""
    check = ProducerStateManager.check

    def check_all_epochs(self: ProducerStateManager, header: BatchHeader, *args: Any) -> AppendedBatch | None:
        entry = self.producers.get(header.producer_id)
        known = None if entry is None or header.producer_epoch <= entry.epoch else entry.duplicate(header)
        return known or check(self, header, *args)

    plant.setattr(ProducerStateManager, "check", check_all_epochs)


def expires_producers_in_transactions(plant: Planter) -> None:
    """A producer expires although its transaction is open (rule 12)."""
    expire = ProducerStateManager.expire

    def expire_all(self: ProducerStateManager, now_ms: int, expiration_ms: int) -> int:
        idle = [key for key, entry in self.producers.items() if entry.last_timestamp <= now_ms - expiration_ms]
        for producer_id in idle:
            del self.producers[producer_id]
        return expire(self, now_ms, expiration_ms)

    plant.setattr(ProducerStateManager, "expire", expire_all)
    plant.tune(
        simulation,
        "SETTINGS",
        {"producer.id.expiration.ms": 1_500, "producer.id.expiration.check.interval.ms": 200},
    )


def shows_pending_offsets(plant: Planter) -> None:
    """The offsets of a transaction are visible before it is committed (rule 17)."""
    put = Offsets.put

    def put_visibly(self: Offsets, key: Any, committed: Any, producer_id: int = -1) -> None:
        put(self, key, committed)
        if producer_id >= 0:
            put(self, key, committed, producer_id)

    plant.setattr(Offsets, "put", put_visibly)


def loses_pending_offsets_on_load(plant: Planter) -> None:
    """A new group coordinator does not load the offsets of open transactions (rule 17)."""
    replay_marker = GroupCoordinatorShard.loaded

    def loaded(self: GroupCoordinatorShard, *args: Any) -> None:
        self.offsets._pending.clear()
        self.offsets._producers.clear()
        replay_marker(self, *args)

    plant.setattr(GroupCoordinatorShard, "loaded", loaded)


def commits_offsets_of_aborted_transactions(plant: Planter) -> None:
    """An abort marker commits the pending offsets, as a commit marker does."""
    end = Offsets.end_transaction
    plant.setattr(Offsets, "end_transaction", lambda self, producer_id, committed: end(self, producer_id, True))


def times_out_prepared_transactions(plant: Planter) -> None:
    """A transaction of two-phase commit is aborted for its age, like any other."""

    def has_timed_out(self: TransactionMetadata, now_ms: int) -> bool:
        return self.state is ONGOING and self.start_ms + min(self.timeout_ms, 1_000) < now_ms

    plant.setattr(TransactionMetadata, "has_timed_out", has_timed_out)


def forgets_kept_producer_on_load(plant: Planter) -> None:
    """A new coordinator does not know the producer for which a prepared transaction is kept."""
    replay = TransactionCoordinatorShard.replay

    def replay_unkept(self: TransactionCoordinatorShard, *args: Any) -> None:
        replay(self, *args)
        for one in self.ids.values():
            if one.metadata.is_kept:
                one.metadata = one.metadata._replace(next_producer_id=NO_PRODUCER_ID, next_producer_epoch=-1)

    plant.setattr(TransactionCoordinatorShard, "replay", replay_unkept)


def lets_producer_before_end_kept_transaction(plant: Planter) -> None:
    """The producer that prepared a transaction may end it, although another one has kept it since."""
    check = request_checks.check_end

    def check_either(one: TransactionalId, request: Any) -> tuple[ErrorCode, bool]:
        prepared = one.metadata.producer_id, one.metadata.producer_epoch
        if one.pending is None and one.metadata.is_kept and prepared == (request.producer_id, request.producer_epoch):
            return ErrorCode.NONE, False
        return check(one, request)

    plant.setattr(shard, "check_end", check_either)


BUGS = (
    Bug(sends_markers_before_decision, Invariant.DECIDED_BEFORE_MARKERS, 1, 0),
    Bug(does_not_retry_markers, Invariant.MARKED_BEFORE_COMPLETED, 1, 0),
    Bug(completes_after_first_marker, Invariant.MARKED_BEFORE_COMPLETED, 2, 0),
    Bug(does_not_resume_markers, Invariant.TRANSACTIONS_COMPLETE, 3, 0),
    Bug(loses_epoch_on_load, Invariant.TRANSACTIONAL_EPOCHS_RISE, 1, 0),
    Bug(accepts_fenced_producers, Invariant.FENCED_PRODUCERS_STAY_FENCED, 0, 0),
    Bug(accepts_retry_with_other_result, Invariant.OUTCOME_AS_ANSWERED, 8, 0),
    Bug(aborts_timed_out_transaction_in_its_epoch, Invariant.TRANSACTIONAL_EPOCHS_RISE, 1, 0),
    Bug(does_not_verify_transactions, Invariant.NO_RECORD_AFTER_MARKER, 2, 0),
    Bug(stable_offset_is_one_too_high, Invariant.STABLE_OFFSET_IS_EXACT, 1, 0),
    Bug(stable_offset_ignores_uncommitted_markers, Invariant.STABLE_OFFSET_IS_EXACT, 1, 0),
    Bug(truncation_drops_aborted_transactions, Invariant.READ_COMMITTED_IS_COMMITTED, 10, 0),
    Bug(followers_index_no_aborted_transactions, Invariant.READ_COMMITTED_IS_COMMITTED, 1, 0),
    Bug(lists_one_aborted_transaction, Invariant.READ_COMMITTED_IS_COMMITTED, 1, 0),
    Bug(takes_batches_of_new_epoch_for_duplicates, Invariant.OUTCOME_AS_ANSWERED, 1, 0),
    Bug(expires_producers_in_transactions, Invariant.STABLE_OFFSET_IS_EXACT, 1, 0),
    Bug(shows_pending_offsets, Invariant.OFFSETS_ARE_OF_COMMITTED, 0, 0),
    Bug(loses_pending_offsets_on_load, Invariant.PROCESSED_ONCE, 6, 0),
    Bug(commits_offsets_of_aborted_transactions, Invariant.OFFSETS_ARE_OF_COMMITTED, 2, 0),
    Bug(times_out_prepared_transactions, Invariant.PREPARED_TRANSACTIONS_STAY, 1, 0),
    Bug(forgets_kept_producer_on_load, Invariant.TRANSACTIONAL_EPOCHS_RISE, 1, 0),
    Bug(lets_producer_before_end_kept_transaction, Invariant.FENCED_PRODUCERS_STAY_FENCED, 3, 0),
)
"""Every bug of transactions."""
