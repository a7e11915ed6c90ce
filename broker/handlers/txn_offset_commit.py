"""TxnOffsetCommit: commit offsets of a group in a transaction; they are pending until it commits (KIP-98, KIP-447).

Behaviour
- The group coordinator verifies first, with the transaction coordinator, that the group's partition of
  `__consumer_offsets` is in the transaction, or adds it (KIP-890, `broker.replication.add_partitions_to_txn_manager`).
  It responds once the offsets are committed to that partition. All valid offsets are written, or none.
- A member commits with its id and generation, during a rebalance too: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID and
  FENCED_INSTANCE_ID keep zombies out. A producer that names neither is accepted; an unknown group becomes a simple one.
- A partition that does not exist, or metadata longer than `offset.metadata.max.bytes`, fails alone.
- Offsets are stored with their topic's id, as by OffsetCommit. In Kafka, those of transactions have none, and apply to
  a topic that is created later with the same name.
- COORDINATOR_LOAD_IN_PROGRESS, which clients retry, also if the transaction coordinator cannot be reached.

Version notes
- Up to 1 it is COORDINATOR_NOT_AVAILABLE instead of COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296).
- 2 and later have the leader epoch (KIP-320), 3 and later the member and its generation (KIP-447).
- Up to 3 a partition that is not in the transaction is INVALID_TXN_STATE, from 4 on TRANSACTION_ABORTABLE (KIP-1050).
- 5 and later add the partition to the transaction: AddOffsetsToTxn is not sent before (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.group.shard import Commit, Offset
from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.replication.add_partitions_to_txn_manager import Transaction
from broker.replication.verification_queue import txn_offset_commit_operation
from controller.topic_names import CONSUMER_OFFSETS
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from protocol.record_batch import NO_SEQUENCE
from storage.log.producer_state import COORDINATOR

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext
    from storage.log.producer_state import AppendOrigin

_LOADING_FROM_VERSION = 2
_OFFSET_BYTES = 500  # about what a decoded offset takes, without its metadata

_Result = TxnOffsetCommitResponse.Topic.Partition


def handle(
    broker: BrokerServer, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """Commit the offsets of existing partitions."""
    offsets: list[Offset] = []
    accepted: list[_Result] = []
    response = TxnOffsetCommitResponse(topics=[_accept(broker, topic, offsets, accepted) for topic in request.topics])
    return _commit(broker, context, request, offsets, accepted, response) if offsets else response


def _accept(
    broker: BrokerServer, requested: TxnOffsetCommitRequest.Topic, offsets: list[Offset], accepted: list[_Result]
) -> TxnOffsetCommitResponse.Topic:
    """Return a topic's part of the response; append its valid offsets to `offsets`, their results to `accepted`."""
    topic = broker.image.topic(requested.name)
    results = []
    for partition in requested.partitions:
        index = partition.partition_index
        result = _Result(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        results.append(result)
        if topic is not None and index in topic.partitions:
            accepted.append(result)
            offset, epoch = partition.committed_offset, partition.committed_leader_epoch
            offsets.append(Offset(topic.name, topic.topic_id, index, offset, epoch, partition.committed_metadata or ""))
    return TxnOffsetCommitResponse.Topic(name=requested.name, partitions=results)


async def _commit(
    broker: BrokerServer,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    offsets: list[Offset],
    accepted: list[_Result],
    response: TxnOffsetCommitResponse,
) -> TxnOffsetCommitResponse:
    version = context.api_version
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    transaction = Transaction(request.transactional_id, *producer, txn_offset_commit_operation(version))
    committer = Commit(request.group_id, request.member_id, request.group_instance_id, request.generation_id)
    size_bytes = sum(_OFFSET_BYTES + len(one.metadata) for one in offsets)

    async def verify(index: int) -> AppendOrigin:
        return await _verify(broker, transaction, index, size_bytes)

    try:
        errors = await broker.groups.commit_transactional(committer, producer, offsets, verify)
    except KafkaError as error:
        code = error.code
        if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_FROM_VERSION:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        errors = [code] * len(accepted)
    for result, outcome in zip(accepted, errors, strict=True):
        result.error_code = outcome
    return response


async def _verify(broker: BrokerServer, transaction: Transaction, index: int, size_bytes: int) -> AppendOrigin:
    """Verify the transaction for a partition of `__consumer_offsets`, or add it; return the origin to append with."""
    verification = broker.transaction_verification
    verification.check_room(size_bytes)
    verification.add_request(size_bytes)
    try:
        partition = broker.replicas.partition(CONSUMER_OFFSETS, index)
        guard = await verification.verify_one(transaction, partition, NO_SEQUENCE)
    finally:
        verification.remove_request(size_bytes)
    return COORDINATOR._replace(guard=guard)
