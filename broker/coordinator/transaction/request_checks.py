"""The requests that a transactional id refuses, by its state and the producer that sends them.

The producer that may send requests is the client of the metadata, the latest that the coordinator has sent an id and
epoch to. One before it is fenced, except where its request is a retry whose response it may have lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.transaction.transaction_metadata import (
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    PREPARED,
    TransactionState,
    is_epoch_exhausted,
)
from protocol.errors import ErrorCode
from protocol.record_batch import NO_PRODUCER_ID
from storage.log.producer_state import EPOCH_PER_TRANSACTION, MAX_EPOCH

if TYPE_CHECKING:
    from broker.coordinator.runtime.context import ProducerIdAndEpoch
    from broker.coordinator.transaction.context import EndTransaction, InitProducerId
    from broker.coordinator.transaction.transaction_metadata import TransactionalId


def check_init(one: TransactionalId, request: InitProducerId) -> ErrorCode:
    """Return the error of an InitProducerId, of a new producer or of one that recovers (KIP-360).

    A fenced producer that recovers must not abort the open transaction of its successor, as it does in Kafka.
    """
    metadata = one.metadata
    if one.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if request.producer_id != NO_PRODUCER_ID and not one.is_new:
        is_current = request.producer_id == metadata.client.producer_id
        # A retry of a recovery that changed the producer id, whose response was lost.
        is_rotated = request.producer_id == metadata.previous_producer_id and is_epoch_exhausted(request.producer_epoch)
        is_fenced = metadata.state is ONGOING and request.producer_epoch != metadata.client.epoch
        if is_fenced or not (is_current or is_rotated):
            return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if metadata.state in PREPARED else ErrorCode.NONE


def check_producer(one: TransactionalId | None, producer: ProducerIdAndEpoch) -> ErrorCode:
    """Return the error of a producer that adds or verifies partitions."""
    if one is None or producer.producer_id not in (one.metadata.producer_id, one.metadata.client.producer_id):
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer != one.metadata.client:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if one.metadata.state in PREPARED else ErrorCode.NONE


def check_end_before_2(one: TransactionalId, request: EndTransaction) -> tuple[ErrorCode, bool]:
    """Return the error of an EndTxn with transaction.version 0 or 1, and whether it repeats a completed one."""
    metadata = one.metadata
    if request.producer_id not in (metadata.producer_id, metadata.client.producer_id):
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING, False
    if metadata.client != (request.producer_id, request.producer_epoch):
        return ErrorCode.PRODUCER_FENCED, False
    if one.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS, False
    if metadata.state is ONGOING:
        return ErrorCode.NONE, False
    if metadata.state is EMPTY or _was_committed(metadata.state) != request.commit:
        return ErrorCode.INVALID_TXN_STATE, False
    return (ErrorCode.CONCURRENT_TRANSACTIONS, False) if metadata.state in PREPARED else (ErrorCode.NONE, True)


def check_end(one: TransactionalId, request: EndTransaction) -> tuple[ErrorCode, bool]:
    """Return the error of an EndTxn with transaction.version 2, and whether it repeats a completed one.

    A retry has the epoch before the current one, or the last one of the previous producer id, and the transaction was
    ended with transaction.version 2. In two cases, which Kafka takes for retries, a producer of that epoch is fenced: a
    client of a lower version has ended its own transaction, which changes no epoch, or a new producer has aborted the
    fenced one's. An abort without a transaction is accepted at the current epoch: the producer may not know whether its
    transaction had begun.
    """
    metadata = one.metadata
    # First, because the producer may have the id of a transition that is still pending.
    if one.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS, False
    client, state = metadata.client, metadata.state
    is_overflow_retry = (
        metadata.previous_producer_id == request.producer_id
        and request.producer_epoch == MAX_EPOCH - 1
        and client.epoch == 0
    )
    if request.producer_id not in (metadata.producer_id, client.producer_id) and not is_overflow_retry:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING, False
    is_current = client == (request.producer_id, request.producer_epoch)
    is_previous = is_overflow_retry or client == (request.producer_id, request.producer_epoch + 1)
    has_own_epoch = metadata.client_transaction_version >= EPOCH_PER_TRANSACTION
    is_retry = is_previous and has_own_epoch and not metadata.is_fenced
    if not (is_retry if state in PREPARED else is_current or (is_retry and state not in (EMPTY, ONGOING))):
        return ErrorCode.PRODUCER_FENCED, False
    if state is ONGOING:
        return ErrorCode.NONE, False
    if state is EMPTY or not is_retry:
        return (ErrorCode.INVALID_TXN_STATE if request.commit else ErrorCode.NONE), False
    if _was_committed(state) != request.commit:
        return ErrorCode.INVALID_TXN_STATE, False
    return (ErrorCode.CONCURRENT_TRANSACTIONS, False) if state in PREPARED else (ErrorCode.NONE, True)


def _was_committed(state: TransactionState) -> bool:
    return state in (PREPARE_COMMIT, COMPLETE_COMMIT)
