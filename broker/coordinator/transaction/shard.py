"""The transactional ids of one partition of `__transaction_state` (Kafka: `TransactionStateManager`).

Pure rules. A transition is decided on the committed metadata, then written, and applied once it is below the high
watermark. While it is pending, others are refused with CONCURRENT_TRANSACTIONS, so every response shows committed
state. A failed write leaves the state unchanged. Markers are sent only for a committed decision, and again after a
load; until they are written, the completion is pending.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from broker.coordinator.runtime.timers import Timer
from broker.coordinator.transaction import records
from broker.coordinator.transaction.context import AdditionTimedOut, MarkersToResume, MarkersWritten, ProducerResult
from broker.coordinator.transaction.request_checks import check_end, check_end_before_2, check_init, check_producer
from broker.coordinator.transaction.transaction_metadata import (
    NO_PRODUCER_EPOCH,
    ONGOING,
    PREPARED,
    TransactionalId,
    TransactionMetadata,
)
from protocol.errors import ErrorCode
from protocol.plural import count_of
from protocol.record_batch import NO_PRODUCER_ID
from storage.log.producer_state import EPOCH_PER_TRANSACTION

if TYPE_CHECKING:
    from broker.coordinator.runtime.context import ProducerIdAndEpoch
    from broker.coordinator.transaction.context import EndTransaction, InitProducerId, TransactionContext
    from broker.coordinator.transaction.transaction_partitions import TransactionPartitions
    from storage.checkpoint import TopicPartition

_RETRY_MS = 100
"""After a completion that could not be written."""
_TOMBSTONES_A_BATCH = 16
"""With the longest ids, of 32,767 bytes, a batch is below the default `max.message.bytes`."""
_RESUMED_A_TIMER = 10
_PARKED_MS = 100
"""How long a request to add partitions waits for the end of the transaction before."""


class _ParkedAddition(NamedTuple):
    """A request to add partitions, parked until the transaction before is complete."""

    producer: ProducerIdAndEpoch
    partitions: TransactionPartitions
    to: object
    timer: Timer


class TransactionCoordinatorShard:
    """The transactional ids of one partition (Kafka: `TxnMetadataCacheEntry`)."""

    def __init__(self) -> None:
        self.ids: dict[str, TransactionalId] = {}
        self.state_counts: Counter[int] = Counter()
        """The number of ids by their committed state, a `TransactionState`."""
        self._waiting: dict[object, Callable[[ErrorCode], object]] = {}
        self._parked: dict[str, _ParkedAddition] = {}
        self.append_retries: set[str] = set()
        """The ids whose completion could not be written yet."""

    # Operations. Each responds at `to`, now or once its record is committed.

    def init_producer_id(self, context: TransactionContext, request: InitProducerId, to: object) -> None:
        """Respond with a `ProducerResult`: a new epoch, which fences the producer before.

        If its transaction is open, abort that and respond with CONCURRENT_TRANSACTIONS: the producer repeats the
        request.
        With `keep_prepared`, keep it for the new producer instead (KIP-939); UNSUPPORTED_VERSION below
        transaction.version 2. PRODUCER_FENCED for a fenced producer that recovers. COORDINATOR_LOAD_IN_PROGRESS, as in
        Kafka, if there is no new producer id.
        """
        one = self.ids.get(request.transactional_id)
        if one is None:
            producer_id = context.take_producer_id()
            if producer_id is None:
                context.answer(to, ProducerResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
                return
            created = TransactionMetadata(producer_id, NO_PRODUCER_EPOCH, request.timeout_ms)
            one = self.ids[request.transactional_id] = TransactionalId(request.transactional_id, created)
        error = check_init(one, request)
        if error != ErrorCode.NONE:
            context.answer(to, ProducerResult(error))
        elif one.metadata.state is not ONGOING:
            self._start_producer(context, one, request, to)
        elif not request.keep_prepared:
            self._abort_ongoing(context, one, to, is_fenced=request.producer_id == NO_PRODUCER_ID)
        elif context.transaction_version < EPOCH_PER_TRANSACTION:
            context.answer(to, ProducerResult(ErrorCode.UNSUPPORTED_VERSION))
        else:
            self._keep_prepared(context, one, request, to)

    def _start_producer(
        self, context: TransactionContext, one: TransactionalId, request: InitProducerId, to: object
    ) -> None:
        metadata = one.metadata
        expected = None if request.producer_id == NO_PRODUCER_ID else request.producer_epoch
        target: TransactionMetadata | None
        if metadata.is_epoch_exhausted and expected in (None, metadata.producer_epoch):
            producer_id = context.take_producer_id()
            if producer_id is None:
                context.answer(to, ProducerResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
                return
            target = metadata.rotate_producer_id(
                producer_id, request.timeout_ms, is_recovery=expected is not None, now_ms=context.now_ms
            )
        else:
            target = metadata.increment_epoch(request.timeout_ms, expected, context.now_ms)
            if target is None:
                context.answer(to, ProducerResult(ErrorCode.PRODUCER_FENCED))
                return
        self._transition(
            context, one, target, to, ProducerResult(ErrorCode.NONE, target.producer_id, target.producer_epoch)
        )

    def _keep_prepared(
        self, context: TransactionContext, one: TransactionalId, request: InitProducerId, to: object
    ) -> None:
        """Keep the open transaction for a new producer, which is to commit or abort it."""
        new_producer_id = _new_producer_id(context, one.metadata)
        if new_producer_id is None:
            context.answer(to, ProducerResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        target = one.metadata.keep_prepared(request.timeout_ms, new_producer_id, context.now_ms)
        result = ProducerResult(ErrorCode.NONE, *target.client, target.producer_id, target.producer_epoch)
        self._transition(context, one, target, to, result)

    def add_partitions(
        self,
        context: TransactionContext,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: TransactionPartitions,
        client_transaction_version: int,
        to: object,
    ) -> None:
        """Add partitions to the open transaction, or begin one with them; respond with an `ErrorCode`.

        TRANSACTION_ABORTABLE above the limits of `TransactionPartitions`; clients without support for that error abort
        the transaction, too. INVALID_TXN_STATE if the open transaction was kept: it was prepared. While the producer's
        former transaction is completed, one client request of each id (`client_transaction_version` 0) is parked for up
        to `_PARKED_MS`: the client's backoff would cost more. All others get CONCURRENT_TRANSACTIONS.
        """
        one = self.ids.get(transactional_id)
        # First, because the producer may have the id of a transition that is still pending.
        if one is not None and one.pending is not None:
            if (
                one.metadata.state in PREPARED
                and one.metadata.client == producer
                and client_transaction_version == 0
                and transactional_id not in self._parked
            ):
                timer = Timer(AdditionTimedOut(transactional_id))
                self._parked[transactional_id] = _ParkedAddition(producer, partitions, to, timer)
                self._waiting[to] = ErrorCode
                context.schedule(timer, _PARKED_MS)
            else:
                context.answer(to, ErrorCode.CONCURRENT_TRANSACTIONS)
            return
        error = check_producer(one, producer)
        if one is None or error != ErrorCode.NONE:
            context.answer(to, error)
        elif one.metadata.is_kept:
            context.answer(to, ErrorCode.INVALID_TXN_STATE)
        elif one.metadata.state is ONGOING and partitions <= one.metadata.partitions:
            context.answer(to, ErrorCode.NONE)
        else:
            target = one.metadata.add_partitions(partitions, client_transaction_version, context.now_ms)
            if target.partitions.is_too_large(records.record_version(context.transaction_version)):
                context.answer(to, ErrorCode.TRANSACTION_ABORTABLE)
                return
            self._transition(context, one, target, to, ErrorCode.NONE)

    def _unpark(self, name: str) -> _ParkedAddition | None:
        """Remove and return the request that is parked until the end of a transaction."""
        parked = self._parked.pop(name, None)
        if parked is not None:
            parked.timer.cancel()
            self._waiting.pop(parked.to, None)
        return parked

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return an error code for each partition: NONE if the open transaction has it, else TRANSACTION_ABORTABLE.

        INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or CONCURRENT_TRANSACTIONS for all of another producer, and
        INVALID_TXN_STATE if the transaction was kept. A pending transition is ignored: the append checks the producer
        again.
        """
        one = self.ids.get(transactional_id)
        error = check_producer(one, producer)
        if one is None or error != ErrorCode.NONE:
            return dict.fromkeys(partitions, error)
        if one.metadata.is_kept:
            return dict.fromkeys(partitions, ErrorCode.INVALID_TXN_STATE)
        added = one.metadata.partitions
        return {each: ErrorCode.NONE if each in added else ErrorCode.TRANSACTION_ABORTABLE for each in partitions}

    def end(self, context: TransactionContext, request: EndTransaction, to: object) -> None:
        """Commit or abort a transaction; respond with a `ProducerResult` once the decision is committed.

        The errors are those of `check_end` and `check_end_before_2`, and COORDINATOR_LOAD_IN_PROGRESS if the next
        transaction needs a new producer id and there is none.
        """
        one = self.ids.get(request.transactional_id)
        if one is None or one.is_new:
            context.answer(to, ProducerResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
            return
        check = check_end if request.client_transaction_version >= EPOCH_PER_TRANSACTION else check_end_before_2
        error, is_retry = check(one, request)
        if error != ErrorCode.NONE:
            context.log.debug("%s: EndTxn is refused in state %s: %s", one.name, one.metadata.state.name, error.name)
            context.answer(to, ProducerResult(error))
        elif is_retry:
            given = one.metadata if request.client_transaction_version >= EPOCH_PER_TRANSACTION else None
            context.answer(to, _producer(given))
        else:
            version = request.client_transaction_version
            target = _decided(context, one.metadata, commit=request.commit, client_transaction_version=version)
            if target is None:
                context.answer(to, ProducerResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
                return
            next_transaction = target.complete(context.now_ms) if version >= EPOCH_PER_TRANSACTION else None
            self._transition(context, one, target, to, _producer(next_transaction))

    def _abort_ongoing(
        self, context: TransactionContext, one: TransactionalId, to: object, *, is_fenced: bool = False
    ) -> None:
        """Fence the producer and abort its transaction; respond with CONCURRENT_TRANSACTIONS or the error of the write.

        With `to` None, nothing is responded. `is_fenced`: a new producer takes the id, so this one must not go on.
        After a timeout it may.
        """
        version, metadata = context.transaction_version, one.metadata
        if version < EPOCH_PER_TRANSACTION:
            metadata = metadata.fence()
        target = _decided(context, metadata, commit=False, client_transaction_version=version, is_fenced=is_fenced)
        if target is not None:
            self._transition(context, one, target, to, ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS))
        elif to is not None:
            context.answer(to, ProducerResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))

    def abort_timed_out(self, names: Iterable[str], context: TransactionContext) -> None:
        """Abort the transactions of these ids that are open for longer than their timeout."""
        for name in names:
            one = self.ids.get(name)
            if one is not None and one.pending is None and one.metadata.has_timed_out(context.now_ms):
                age_ms = context.now_ms - one.metadata.start_ms
                timeout_ms = one.metadata.timeout_ms
                context.log.info(
                    "%s: aborting its transaction, open for %d ms, timeout %d ms", name, age_ms, timeout_ms
                )
                self.abort(context, one)

    def abort(self, context: TransactionContext, one: TransactionalId) -> None:
        """Fence the producer of an open transaction and abort it, unless a transition is being written."""
        if one.pending is None and one.metadata.state is ONGOING:
            self._abort_ongoing(context, one, None)

    def expire(self, names: Iterable[str], context: TransactionContext) -> None:
        """Remove the ids of `names` that are unused for `transactional.id.expiration.ms`."""
        expired = []
        for name in names:
            one = self.ids.get(name)
            if one is None or one.pending is not None or one.is_new:
                continue
            if one.metadata.has_expired(context.now_ms, context.settings.expiration_ms):
                one.pending = one.metadata.expire()
                expired.append(one)

        for at in range(0, len(expired), _TOMBSTONES_A_BATCH):
            self._remove(expired[at : at + _TOMBSTONES_A_BATCH], context)

    def _remove(self, expired: list[TransactionalId], context: TransactionContext) -> None:
        """Write the tombstones of expired ids in one batch; remove the ids once they are committed."""

        def then(context: TransactionContext, error: ErrorCode) -> None:
            for one in expired:
                one.pending = None
                if error == ErrorCode.NONE:
                    self._drop(one.name)
            if error != ErrorCode.NONE:
                context.log.info("Removing %d expired transactional ids failed: %s", len(expired), error.name)

        context.append([records.tombstone(one.name) for one in expired], then)

    # Transitions.

    def _transition(
        self, context: TransactionContext, one: TransactionalId, target: TransactionMetadata, to: object, result: object
    ) -> None:
        """Write `target`, apply it once it is committed; respond with `result`, or the error of the write, at `to`."""
        one.pending = target
        if to is not None:
            self._waiting[to] = _refusal(result)

        def then(context: TransactionContext, error: ErrorCode) -> None:
            one.pending = None
            if error == ErrorCode.NONE:
                self._apply(one, target)
                if target.state in PREPARED:
                    self._send_markers(context, one)
            elif one.is_new and self.ids.get(one.name) is one:
                del self.ids[one.name]
            refusal = self._waiting.pop(to, None)
            if refusal is not None:
                context.answer(to, result if error == ErrorCode.NONE else refusal(error))

        context.append([records.transaction_record(one.name, target, context.transaction_version)], then)

    def _apply(self, one: TransactionalId, metadata: TransactionMetadata) -> None:
        """Replace the committed metadata of an id."""
        if not one.is_new:
            self.state_counts[one.metadata.state] -= 1
        self.state_counts[metadata.state] += 1
        one.metadata = metadata

    def _drop(self, name: str) -> None:
        one = self.ids.pop(name, None)
        if one is not None and not one.is_new:
            self.state_counts[one.metadata.state] -= 1

    def _send_markers(self, context: TransactionContext, one: TransactionalId) -> None:
        one.pending = one.metadata.complete(context.now_ms)
        context.send_markers(one)

    def fire(self, context: TransactionContext, event: MarkersWritten | MarkersToResume | AdditionTimedOut) -> None:
        """Handle a timer's event, or `MarkersWritten` of the marker channel manager."""
        if isinstance(event, MarkersWritten):
            self._complete(context, event)
            return
        if isinstance(event, AdditionTimedOut):
            if parked := self._unpark(event.transactional_id):
                context.answer(parked.to, ErrorCode.CONCURRENT_TRANSACTIONS)
            return
        for name in event.transactional_ids:
            self._send_markers(context, self.ids[name])

    def _complete(self, context: TransactionContext, event: MarkersWritten) -> None:
        """Write the completion of a transaction; retry after `_RETRY_MS` if that fails.

        If the request that begins the next transaction waits, write both in one batch: one round of replication.
        """
        one = self.ids.get(event.transactional_id)
        if one is None or one.metadata.state not in PREPARED or one.pending is None:
            return
        steps = [one.pending]
        to = None
        parked = self._parked.get(one.name)
        if parked is not None and (begun := _begin(one.name, one.pending, parked, context)) is not None:
            steps.append(begun)
            to = parked.to
            self._parked.pop(one.name).timer.cancel()

        def then(context: TransactionContext, error: ErrorCode) -> None:
            self.append_retries.discard(one.name)
            if to is not None and self._waiting.pop(to, None) is not None:
                context.answer(to, error)
            if error == ErrorCode.NONE:
                self._apply(one, steps[-1])
                one.pending = None
                if parked := self._unpark(one.name):
                    self.add_partitions(context, one.name, parked.producer, parked.partitions, 0, parked.to)
            else:  # also for a full disk, with which the broker stays the leader; timers of a closed shard do not fire
                self.append_retries.add(one.name)
                context.schedule(Timer(event), _RETRY_MS)

        version = context.transaction_version
        context.append([records.transaction_record(one.name, each, version) for each in steps], then)

    # The partition's log and leadership.

    @property
    def content(self) -> str:
        """Return the number of ids for the log: "3 transactional ids", or empty."""
        return count_of(len(self.ids), "transactional id") if self.ids else ""

    def replay(
        self, _now_ms: int, _offset: int, key: bytes, value: bytes | None, _producer: ProducerIdAndEpoch | None = None
    ) -> None:
        """Apply a record while the shard is loading; raise DecodeError."""
        name = records.read_transactional_id(key)
        if name is None:
            return
        if value is None:
            self._drop(name)
            return
        metadata = records.read_transaction(value)
        self._drop(name)
        self.ids[name] = TransactionalId(name, metadata)
        self.state_counts[metadata.state] += 1

    def replay_end_transaction_marker(self, producer: ProducerIdAndEpoch, committed: bool) -> None:
        """Ignore a marker: records of `__transaction_state` are in no transaction."""

    def loaded(self, context: TransactionContext) -> None:
        """Send the markers of prepared transactions again, from timers of `_RESUMED_A_TIMER` ids."""
        prepared = [one.name for one in self.ids.values() if one.metadata.state in PREPARED]
        for at in range(0, len(prepared), _RESUMED_A_TIMER):
            context.schedule(Timer(MarkersToResume(tuple(prepared[at : at + _RESUMED_A_TIMER]))), 0)

    def unloaded(self, context: TransactionContext) -> None:
        """Respond to every waiting request with NOT_COORDINATOR."""
        for to, refusal in self._waiting.items():
            context.answer(to, refusal(ErrorCode.NOT_COORDINATOR))
        self._waiting.clear()
        self._parked.clear()


def _new_producer_id(context: TransactionContext, metadata: TransactionMetadata) -> int | None:
    """Return a new producer id if the client's epochs are exhausted, -1 if not; None if it needs one and gets none."""
    return context.take_producer_id() if metadata.is_epoch_exhausted else NO_PRODUCER_ID


def _decided(
    context: TransactionContext,
    metadata: TransactionMetadata,
    *,
    commit: bool,
    client_transaction_version: int,
    is_fenced: bool = False,
) -> TransactionMetadata | None:
    """Return the metadata with the decision; None if the next transaction needs a producer id and there is none."""
    has_new_epoch = client_transaction_version >= EPOCH_PER_TRANSACTION
    new_producer_id = _new_producer_id(context, metadata) if has_new_epoch else NO_PRODUCER_ID
    if new_producer_id is None:
        return None
    return metadata.end(
        commit=commit,
        client_transaction_version=client_transaction_version,
        new_producer_id=new_producer_id,
        now_ms=context.now_ms,
        is_fenced=is_fenced,
    )


def _begin(
    name: str, completed: TransactionMetadata, parked: _ParkedAddition, context: TransactionContext
) -> TransactionMetadata | None:
    """Return the transaction that a waiting request begins after a completed one; None if it is to be refused."""
    if check_producer(TransactionalId(name, completed), parked.producer) != ErrorCode.NONE:
        return None
    begun = completed.add_partitions(parked.partitions, 0, context.now_ms)
    too_large = begun.partitions.is_too_large(records.record_version(context.transaction_version))
    return None if too_large else begun


def _producer(metadata: TransactionMetadata | None) -> ProducerResult:
    """Return the result with the id and epoch of `metadata`; None: without them, as before transaction.version 2."""
    if metadata is None:
        return ProducerResult(ErrorCode.NONE)
    return ProducerResult(ErrorCode.NONE, metadata.producer_id, metadata.producer_epoch)


def _refusal(result: object) -> Callable[[ErrorCode], object]:
    """Return the function that turns an error code into a response of the type of `result`."""
    return ProducerResult if isinstance(result, ProducerResult) else ErrorCode
