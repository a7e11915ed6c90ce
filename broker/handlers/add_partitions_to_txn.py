"""AddPartitionsToTxn and AddOffsetsToTxn: add partitions to an open transaction, or verify that they are in it.

Behaviour
- A transaction begins with its first partition. All partitions are added, or none: if one does not exist, it gets
  UNKNOWN_TOPIC_OR_PARTITION and the others OPERATION_NOT_ATTEMPTED.
- Each partition gets the error of the coordinator: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, NOT_COORDINATOR,
  COORDINATOR_LOAD_IN_PROGRESS, or CONCURRENT_TRANSACTIONS until the previous transaction is complete.
- Verified partitions that are not in the transaction get TRANSACTION_ABORTABLE. So do all partitions of a request with
  more than a transaction may have (`MAX_PARTITIONS`), if they exist.
- No client may add an internal topic, where markers would be written: TOPIC_AUTHORIZATION_FAILED, as in Kafka.
- A large request is handled in several turns of the event loop.
- AddOffsetsToTxn adds the partition of `__consumer_offsets` that the group belongs to.

Version notes
- Below 2, PRODUCER_FENCED is INVALID_PRODUCER_EPOCH.
- AddPartitionsToTxn 4 and 5 are from brokers: several transactions, on behalf of producers with transaction.version 2
  (KIP-890). Clients' versions stand for transaction.version 0.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.coordinator.runtime.shard_host import then
from broker.coordinator.transaction.transaction_partitions import MAX_PARTITIONS, TransactionPartitions
from controller.topic_names import CONSUMER_OFFSETS, INTERNAL_TOPICS
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from storage.log.producer_state import EPOCH_PER_TRANSACTION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from broker.broker_server import BrokerServer
    from broker.coordinator.runtime.shard_host import Outcome
    from broker.network.connection import RequestContext
    from controller.image import MetadataImage
    from storage.checkpoint import TopicPartition

BATCHED_FROM_VERSION = 4
_FENCED_FROM_VERSION = 2

# The work of a step, of about a millisecond: the characters of transactional ids, which are hashed, and partitions.
_CHARACTERS_A_STEP = 32_768
_CHARACTERS_A_PARTITION = 64
_PARTITIONS_A_STEP = _CHARACTERS_A_STEP // _CHARACTERS_A_PARTITION

_Topic = AddPartitionsToTxnResponse.Topic
_Results: TypeAlias = "list[AddPartitionsToTxnResponse.Topic]"


def handle(
    broker: BrokerServer, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    """Add or verify the partitions; wait until that is committed."""
    return add_or_verify(broker, request, context.api_version)


def add_or_verify(
    broker: BrokerServer, request: AddPartitionsToTxnRequest, version: int
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    """Return the response to a request of `version`, now or once all is committed."""
    if version >= BATCHED_FROM_VERSION:
        return _handle_batched(broker, request, version)
    transaction = AddPartitionsToTxnRequest.Transaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return then(
        _handle_one(broker, transaction, version),
        lambda results: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results),
    )


def _handle_batched(
    broker: BrokerServer, request: AddPartitionsToTxnRequest, version: int
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    if sum(map(_work_of, request.transactions)) > _CHARACTERS_A_STEP:
        return _handle_in_steps(broker, request, version)
    outcomes = [_handle_one(broker, transaction, version) for transaction in request.transactions]
    waiting = [outcome for outcome in outcomes if isinstance(outcome, asyncio.Future)]
    return _respond_later(request, outcomes, waiting) if waiting else _batched_response(request, outcomes)


def _work_of(transaction: AddPartitionsToTxnRequest.Transaction) -> int:
    return len(transaction.transactional_id) + _CHARACTERS_A_PARTITION * _partition_count(transaction)


def _partition_count(transaction: AddPartitionsToTxnRequest.Transaction) -> int:
    return sum(len(topic.partitions) for topic in transaction.topics)


async def _handle_in_steps(
    broker: BrokerServer, request: AddPartitionsToTxnRequest, version: int
) -> AddPartitionsToTxnResponse:
    outcomes: list[Outcome[_Results]] = []
    work = 0
    for transaction in request.transactions:
        outcomes.append(_handle_one(broker, transaction, version))
        work += _work_of(transaction)
        if work > _CHARACTERS_A_STEP:
            work = 0
            await asyncio.sleep(0)
    waiting = [outcome for outcome in outcomes if isinstance(outcome, asyncio.Future)]
    return await _respond_later(request, outcomes, waiting)


async def _respond_later(
    request: AddPartitionsToTxnRequest, outcomes: list[Outcome[_Results]], waiting: list[asyncio.Future[_Results]]
) -> AddPartitionsToTxnResponse:
    if waiting:
        await asyncio.wait(waiting)
    return _batched_response(request, outcomes)


def _batched_response(
    request: AddPartitionsToTxnRequest, outcomes: list[Outcome[_Results]]
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResponse.Transaction(
                transactional_id=transaction.transactional_id,
                topic_results=outcome.result() if isinstance(outcome, asyncio.Future) else outcome,
            )
            for transaction, outcome in zip(request.transactions, outcomes, strict=True)
        ]
    )


def _handle_one(
    broker: BrokerServer, transaction: AddPartitionsToTxnRequest.Transaction, version: int
) -> Outcome[_Results]:
    if _partition_count(transaction) > MAX_PARTITIONS:
        return broker.loop.create_task(_refuse(broker, transaction, version))
    image = broker.image
    partitions = TransactionPartitions.of(
        (topic.name, index) for topic in transaction.topics for index in topic.partitions
    )
    errors = {each: partition_error(image, *each, version) for each in partitions}
    if any(errors.values()):
        return _results({each: error or ErrorCode.OPERATION_NOT_ATTEMPTED for each, error in errors.items()})
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        return _results(broker.transactions.verify_partitions(transaction.transactional_id, producer, partitions))
    client_transaction_version = EPOCH_PER_TRANSACTION if version >= BATCHED_FROM_VERSION else 0
    outcome = broker.transactions.add_partitions(
        transaction.transactional_id, producer, partitions, client_transaction_version
    )

    def results(error: ErrorCode) -> _Results:
        return _results(dict.fromkeys(partitions, error_for_version(error, version)))

    if not isinstance(outcome, asyncio.Future):
        return results(outcome)
    given: asyncio.Future[_Results] = broker.loop.create_future()
    outcome.add_done_callback(lambda done: None if given.done() else given.set_result(results(done.result())))
    return given


def partition_error(image: MetadataImage, topic: str, index: int, version: int) -> ErrorCode:
    """Return the error of a partition that does not exist, or that a client must not add; NONE for the others."""
    if topic in INTERNAL_TOPICS and version < BATCHED_FROM_VERSION:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE if image.partition(topic, index) is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _refuse(broker: BrokerServer, transaction: AddPartitionsToTxnRequest.Transaction, version: int) -> _Results:
    """Return the errors of too many partitions: TRANSACTION_ABORTABLE if all of them could be added."""
    image = broker.image
    refused: dict[str, dict[int, ErrorCode]] = {}
    has_refused = False
    for topic in transaction.topics:
        codes = refused.setdefault(topic.name, {})
        for at in range(0, len(topic.partitions), _PARTITIONS_A_STEP):
            for index in topic.partitions[at : at + _PARTITIONS_A_STEP]:
                error = partition_error(image, topic.name, index, version)
                codes[index] = error or ErrorCode.OPERATION_NOT_ATTEMPTED
                has_refused |= error is not ErrorCode.NONE
            await asyncio.sleep(0)
    results: _Results = []
    for name, codes in refused.items():
        results.append(_Topic(name=name, results_by_partition=[]))
        indexes = list(codes)
        for at in range(0, len(indexes), _PARTITIONS_A_STEP):
            results[-1].results_by_partition += [
                _Topic.Partition(
                    partition_index=index,
                    partition_error_code=codes[index] if has_refused else ErrorCode.TRANSACTION_ABORTABLE,
                )
                for index in indexes[at : at + _PARTITIONS_A_STEP]
            ]
            await asyncio.sleep(0)
    return results


def add_offsets(
    broker: BrokerServer, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    """Add the group's partition of `__consumer_offsets`; wait until that is committed."""
    partition = (CONSUMER_OFFSETS, broker.groups.runtime.partition_of(request.group_id))
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    outcome = broker.transactions.add_partitions(
        request.transactional_id, producer, TransactionPartitions.of([partition]), 0
    )
    return then(
        outcome, lambda error: AddOffsetsToTxnResponse(error_code=error_for_version(error, context.api_version))
    )


def error_for_version(error: ErrorCode, version: int, fenced_from_version: int = _FENCED_FROM_VERSION) -> ErrorCode:
    """Return the error code for a request of `version`.

    INVALID_PRODUCER_EPOCH for PRODUCER_FENCED below `fenced_from_version`, whose clients do not know that.
    """
    if error == ErrorCode.PRODUCER_FENCED and version < fenced_from_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _results(errors: Mapping[TopicPartition, ErrorCode]) -> _Results:
    by_topic: dict[str, list[_Topic.Partition]] = {}
    for topic, index in errors:
        by_topic.setdefault(topic, []).append(
            _Topic.Partition(partition_index=index, partition_error_code=errors[topic, index])
        )
    return [_Topic(name=topic, results_by_partition=results) for topic, results in by_topic.items()]
