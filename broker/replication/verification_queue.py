"""AddPartitionsToTxn requests to coordinators: their batching, and the errors in their responses (KIP-890).

Each coordinator gets one request at a time, with the transactions that wait for it. A request names a transactional id
once, to verify partitions or to add them. Partitions to verify join those to verify, partitions to add those to add;
the other kind goes into the next request. A client has both if it supports other versions of Produce than of
TxnOffsetCommit.

A second batch for a partition comes from a producer that repeats a request after a disconnect, or from another instance
of the producer:

- a higher epoch ends the wait of the lower one with INVALID_PRODUCER_EPOCH;
- the same epoch ends the earlier wait with NETWORK_EXCEPTION: its response is not read any more;
- a lower epoch is refused with INVALID_PRODUCER_EPOCH.

Pure. `add_partitions_to_txn_manager` sends the requests. Kafka: `AddPartitionsToTxnManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from storage.checkpoint import TopicPartition

PartitionErrors: TypeAlias = "dict[TopicPartition, ErrorCode]"

_ADDS_FROM_PRODUCE_VERSION = 12
_ABORTABLE_FROM_PRODUCE_VERSION = 11
_ADDS_FROM_OFFSET_COMMIT_VERSION = 5
_ABORTABLE_FROM_OFFSET_COMMIT_VERSION = 4


class TransactionOperation(IntEnum):
    """The operation of a client's request version (Kafka: `TransactionSupportedOperation`)."""

    VERIFY = 0
    """Verify: AddPartitionsToTxn has added the partition. The client does not support TRANSACTION_ABORTABLE."""
    VERIFY_ABORTABLE = 1
    """Verify; the client supports TRANSACTION_ABORTABLE."""
    ADD = 2
    """Add the partition to the transaction; each transaction has its own epoch (transaction.version 2)."""


def produce_operation(version: int) -> TransactionOperation:
    """Return the operation for a version of Produce."""
    return _operation(version, _ADDS_FROM_PRODUCE_VERSION, _ABORTABLE_FROM_PRODUCE_VERSION)


def txn_offset_commit_operation(version: int) -> TransactionOperation:
    """Return the operation for a version of TxnOffsetCommit."""
    return _operation(version, _ADDS_FROM_OFFSET_COMMIT_VERSION, _ABORTABLE_FROM_OFFSET_COMMIT_VERSION)


def _operation(version: int, adds_from: int, abortable_from: int) -> TransactionOperation:
    if version >= adds_from:
        return TransactionOperation.ADD
    return TransactionOperation.VERIFY_ABORTABLE if version >= abortable_from else TransactionOperation.VERIFY


class PendingVerification(NamedTuple):
    """Partitions to verify in a transaction, or to add to it; `complete` gets the errors, none for a success."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    operation: TransactionOperation
    complete: Callable[[PartitionErrors], None]
    joined_from: tuple[PendingVerification, ...] = ()

    @property
    def adds(self) -> bool:
        """Whether the partitions are to be added."""
        return self.operation is TransactionOperation.ADD

    def fail(self, code: ErrorCode) -> None:
        """Complete with one error for all partitions."""
        self.complete(dict.fromkeys(self.partitions, code))

    def respond(self, codes: PartitionErrors) -> None:
        """Complete with the coordinator's error codes, as those that the versions of the requests handle."""
        for one in self.joined_from or (self,):
            one.complete({each: _client_error(codes[each], one.operation) for each in one.partitions if each in codes})

    def may_join(self, other: PendingVerification) -> bool:
        """Return whether `other` has other partitions of the same transaction, to be verified or added like these."""
        same = (self.producer_id, self.producer_epoch, self.adds) == (
            other.producer_id,
            other.producer_epoch,
            other.adds,
        )
        return same and set(self.partitions).isdisjoint(other.partitions)

    def joined(self, other: PendingVerification) -> PendingVerification:
        """Return both as one, which completes each of those that were joined."""
        all_of_it = (*(self.joined_from or (self,)), other)

        def complete_each(errors: PartitionErrors) -> None:
            for one in all_of_it:  # not one within the other: a client decides how many join
                one.complete({each: errors[each] for each in one.partitions if each in errors})

        partitions = [*self.partitions, *other.partitions]
        return self._replace(partitions=partitions, complete=complete_each, joined_from=all_of_it)


class VerificationQueue:
    """The transactions that wait for each coordinator."""

    def __init__(self) -> None:
        # Coordinator -> transactional id -> those to verify, by False, and to add, by True; in order of arrival.
        self._waiting: dict[int, dict[str, dict[bool, PendingVerification]]] = {}
        self._in_flight: set[int] = set()

    def add(self, coordinator: int, new: PendingVerification) -> None:
        """Queue `new` for a coordinator; fail what it replaces, or `new` itself if its epoch is lower."""
        waiting = self._waiting.setdefault(coordinator, {}).setdefault(new.transactional_id, {})
        earlier = waiting.get(new.adds)
        if earlier is not None and earlier.may_join(new):
            waiting[new.adds] = earlier.joined(new)
            return
        if any(one.producer_epoch > new.producer_epoch for one in waiting.values()):
            new.fail(ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        fenced = [one for one in waiting.values() if one.producer_epoch < new.producer_epoch]
        for one in fenced:
            del waiting[one.adds]
        repeated = waiting.pop(new.adds, None)
        waiting[new.adds] = new
        for one in fenced:
            one.fail(ErrorCode.INVALID_PRODUCER_EPOCH)
        if repeated is not None:
            repeated.fail(ErrorCode.NETWORK_EXCEPTION)

    def take(self, coordinator: int) -> list[PendingVerification]:
        """Remove and return the batch to send to a coordinator; empty while one is in flight."""
        if coordinator in self._in_flight or coordinator not in self._waiting:
            return []
        self._in_flight.add(coordinator)
        waiting = self._waiting.pop(coordinator)
        batch = [by_kind.pop(next(iter(by_kind))) for by_kind in waiting.values()]
        left = {name: by_kind for name, by_kind in waiting.items() if by_kind}
        if left:
            self._waiting[coordinator] = left
        return batch

    def finished(self, coordinator: int) -> None:
        """Allow the next request to a coordinator."""
        self._in_flight.discard(coordinator)


def request_of(batch: Iterable[PendingVerification]) -> AddPartitionsToTxnRequest:
    """Return the request for a batch of transactions."""
    transactions = []
    for pending in batch:
        topics: dict[str, list[int]] = {}
        for topic, index in pending.partitions:
            topics.setdefault(topic, []).append(index)
        transactions.append(
            AddPartitionsToTxnRequest.Transaction(
                transactional_id=pending.transactional_id,
                producer_id=pending.producer_id,
                producer_epoch=pending.producer_epoch,
                verify_only=not pending.adds,
                topics=[
                    AddPartitionsToTxnRequest.Topic(name=topic, partitions=indexes) for topic, indexes in topics.items()
                ],
            )
        )
    return AddPartitionsToTxnRequest(transactions=transactions)


def complete(batch: Iterable[PendingVerification], response: AddPartitionsToTxnResponse | None) -> None:
    """Complete the transactions of a request with its response; None if it was lost.

    A transaction without a result counts as lost, too.
    """
    if response is None:
        _fail_all(batch, ErrorCode.NETWORK_EXCEPTION)
        return
    if response.error_code:
        code = ErrorCode(response.error_code)
        # The broker is not authorized; the producer may be.
        unauthorized = code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        _fail_all(batch, ErrorCode.INVALID_TXN_STATE if unauthorized else code)
        return
    results = {result.transactional_id: result for result in response.results_by_transaction}
    for pending in batch:
        result = results.get(pending.transactional_id)
        if result is None:
            pending.fail(ErrorCode.NETWORK_EXCEPTION)
            continue
        pending.respond(
            {
                (topic.name, one.partition_index): ErrorCode(one.partition_error_code)
                for topic in result.topic_results
                for one in topic.results_by_partition
                if one.partition_error_code
            }
        )


def _fail_all(batch: Iterable[PendingVerification], code: ErrorCode) -> None:
    for pending in batch:
        pending.fail(code)


def _client_error(code: ErrorCode, operation: TransactionOperation) -> ErrorCode:
    """Return the error code for the producer, which differs from the coordinator's for some."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and operation is TransactionOperation.VERIFY:
        return ErrorCode.INVALID_TXN_STATE
    return code
