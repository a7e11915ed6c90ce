"""Produce requests with a transactional id: which of their batches are appended at once, and which wait (KIP-890).

The first batch of a transaction in a partition waits until the coordinator has verified the partition, or added it
(`broker.replication.add_partitions_to_txn_manager`). It is copied, and so are the producer's later batches for the same
partition, which wait behind it: batches are appended in the order of their requests. A request with such a batch waits
as a whole, and so do those behind it for any of its partitions. All others are appended at once, by `produce_appends`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from broker.broker_server import BrokerServer
from broker.handlers.produce_appends import TOPIC_IDS_FROM_VERSION, Rows, append, append_request, refuse, respond
from broker.network.connection import RequestContext
from broker.replication.partition import Partition
from broker.runtime.deferred import Deferred
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.primitives import ZERO_UUID
from protocol.record_batch import HEADER_BYTES, TRANSACTIONAL_BIT, read_header
from storage.log.producer_state import CLIENT_IN_TRANSACTION, AppendOrigin

if TYPE_CHECKING:
    from broker.replication.add_partitions_to_txn_manager import PendingBatches, Verified

_NO_ROW: Any = None
"""The place of a row that is not there yet."""


def append_in_transaction(
    broker: BrokerServer, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Deferred[ProduceResponse] | Awaitable[ProduceResponse | None] | None:
    """Append the batches of `request`, or wait for its producer's earlier ones, and for verifications."""
    manager = broker.add_partitions_to_txn_manager
    if manager is not None and manager.pending:
        batches = _batches(broker, request)
        earlier = [manager.pending[each] for each in batches if each in manager.pending]
        if earlier:
            return _wait_for_earlier(broker, context, request, batches, earlier)
    return _append_request(broker, context, request)


def _append_request(
    broker: BrokerServer, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Deferred[ProduceResponse] | Coroutine[Any, Any, ProduceResponse | None] | None:
    """Append the batches of `request`, whose earlier ones are appended; a coroutine if a verification is awaited."""
    starting = _starting(broker, request)
    if starting is not None:
        return _start_transaction(broker, context, request, starting)
    return append_request(broker, context, request, CLIENT_IN_TRANSACTION)


def verified_origin(
    broker: BrokerServer,
    version: int,
    transactional_id: str,
    name: str | None,
    topic_id: bytes,
    batches: list[tuple[int, memoryview]],
) -> AppendOrigin | None:
    """Return the origin to append transactional batches with; None if `append_in_transaction` has to verify them.

    The batches are of one transaction, which is open in their partitions. Or there is one batch, and this broker is
    the coordinator, which has its partition in the open transaction.
    """
    first, is_open = None, True
    manager = broker.add_partitions_to_txn_manager
    pending = None if manager is None else manager.pending
    for index, records in batches:
        partition = _find(broker, name, topic_id, index)
        if partition is None or len(records) < HEADER_BYTES:
            return None
        header = read_header(records)
        # Unpacking is several times as fast as access by name.
        _, _, _, _, _, attributes, _, _, _, producer_id, epoch, _, _ = header
        if first is None:
            first = producer_id, epoch
        if not attributes & TRANSACTIONAL_BIT or first != (producer_id, epoch):
            return None
        if pending and (partition, producer_id, epoch) in pending:
            return None
        is_open = is_open and partition.log.producers.in_transaction(producer_id, epoch)
    if is_open:
        return CLIENT_IN_TRANSACTION
    coordinator = broker.transaction_coordinator
    if coordinator is None or partition is None or len(batches) > 1:
        return None
    verification = broker.transaction_verification
    guard = verification.verify_here(coordinator, version, transactional_id, partition, header)
    return None if guard is None else AppendOrigin(from_client=True, guard=guard)


class _Starting(NamedTuple):
    """The batches of a request that would begin a transaction in their partitions."""

    producer_id: int
    producer_epoch: int
    sequences: dict[Partition, int]
    size_bytes: int


class _Batch(NamedTuple):
    """A batch of a request, and the place of its row."""

    topic: Rows
    at: int
    """Position in the topic's rows."""
    partition_index: int
    partition: Partition | None
    records: memoryview | None


def _starting(broker: BrokerServer, request: ProduceRequest) -> _Starting | None:
    """Return the transactional batches whose transaction is not open in their partition; None if there are none.

    Raise INVALID_PRODUCER_ID_MAPPING if transactional batches are of several producers.
    """
    producers: set[tuple[int, int]] = set()
    sequences: dict[Partition, int] = {}
    size_bytes = 0
    for topic in request.topic_data:
        for wanted in topic.partition_data:
            records = cast("memoryview | None", wanted.records)
            if records is None or len(records) < HEADER_BYTES:
                continue
            header = read_header(records)
            if not header.is_transactional or header.producer_id < 0:
                continue
            producer = header.producer_id, header.producer_epoch
            producers.add(producer)
            partition = _partition(broker, topic, wanted.index)
            if partition is not None and not partition.log.producers.in_transaction(*producer):
                sequences[partition] = header.base_sequence
                size_bytes += len(records)
    if len(producers) > 1:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional batches are of several producers")
    return _Starting(*producers.pop(), sequences, size_bytes) if sequences else None


def _start_transaction(
    broker: BrokerServer, context: RequestContext, request: ProduceRequest, starting: _Starting
) -> ProduceResponse | Deferred[ProduceResponse] | Coroutine[Any, Any, ProduceResponse | None] | None:
    """Append the batches of a request some of which begin a transaction in their partition.

    Where the coordinator does not decide at once, these wait, and so do the producer's next ones for these partitions.
    """
    from broker.replication.add_partitions_to_txn_manager import PendingBatches, Transaction, Verified
    from broker.replication.verification_queue import produce_operation

    verification = broker.transaction_verification
    verification.check_room(starting.size_bytes)
    operation = produce_operation(context.api_version)
    transaction = Transaction(request.transactional_id or "", starting.producer_id, starting.producer_epoch, operation)
    topics: list[Rows] = []
    unverified: list[_Batch] = []
    for topic in request.topic_data:
        name = None if context.api_version >= TOPIC_IDS_FROM_VERSION else topic.name
        rows = Rows(name, topic.topic_id, [_NO_ROW] * len(topic.partition_data), [])
        topics.append(rows)
        for at, wanted in enumerate(topic.partition_data):
            records, wanted.records = cast("memoryview | None", wanted.records), None
            batch = _Batch(rows, at, wanted.index, _partition(broker, topic, wanted.index), records)
            if batch.partition in starting.sequences:
                unverified.append(batch)
            else:
                _append_one(broker, context, request.acks, batch, CLIENT_IN_TRANSACTION)
    # After the appends: a coroutine must not be left behind if the process fails in one.
    verified = verification.verify_produce(transaction, starting.sequences)
    if isinstance(verified, Verified):
        _append_verified(broker, context, request.acks, unverified, verified)
        return respond(broker, context, request, topics)
    unverified = [batch._replace(records=memoryview(bytearray(batch.records or b""))) for batch in unverified]
    verification.add_request(starting.size_bytes)
    batches = [PendingBatches(each, starting.producer_id, starting.producer_epoch) for each in starting.sequences]
    finished = partial(verification.remove_pending, batches, verification.add_pending(batches))
    return _append_later(broker, context, request, topics, unverified, verified, starting.size_bytes, finished)


async def _append_later(
    broker: BrokerServer,
    context: RequestContext,
    request: ProduceRequest,
    topics: list[Rows],
    unverified: list[_Batch],
    verified: Awaitable[Verified],
    size_bytes: int,
    finished: Callable[[], None],
) -> ProduceResponse | None:
    try:
        _append_verified(broker, context, request.acks, unverified, await verified)
    finally:
        unverified.clear()
        broker.transaction_verification.remove_request(size_bytes)
        finished()
    outcome = respond(broker, context, request, topics)
    return await outcome if isinstance(outcome, Deferred) else outcome


def _batches(broker: BrokerServer, request: ProduceRequest) -> list[PendingBatches]:
    """Return the batches of a request by producer and partition."""
    from broker.replication.add_partitions_to_txn_manager import PendingBatches

    batches = []
    for topic in request.topic_data:
        for wanted in topic.partition_data:
            records = cast("memoryview | None", wanted.records)
            partition = _partition(broker, topic, wanted.index)
            if records is None or len(records) < HEADER_BYTES or partition is None:
                continue
            header = read_header(records)
            batches.append(PendingBatches(partition, header.producer_id, header.producer_epoch))
    return batches


def _wait_for_earlier(
    broker: BrokerServer,
    context: RequestContext,
    request: ProduceRequest,
    batches: list[PendingBatches],
    earlier: list[asyncio.Future[None]],
) -> Awaitable[ProduceResponse | None]:
    """Copy the batches of a request; all of them wait until the `earlier` ones are appended, and later ones for all."""
    verification = broker.transaction_verification
    all_wanted = [wanted for topic in request.topic_data for wanted in topic.partition_data if wanted.records]
    size_bytes = sum(len(cast("memoryview", wanted.records)) for wanted in all_wanted)
    verification.check_room(size_bytes)
    for wanted in all_wanted:
        wanted.records = memoryview(bytearray(cast("memoryview", wanted.records)))
    verification.add_request(size_bytes)
    finished = partial(verification.remove_pending, batches, verification.add_pending(batches, is_next=True))
    return _append_next(broker, context, request, earlier, size_bytes, finished)


async def _append_next(
    broker: BrokerServer,
    context: RequestContext,
    request: ProduceRequest,
    earlier: Iterable[asyncio.Future[None]],
    size_bytes: int,
    finished: Callable[[], None],
) -> ProduceResponse | None:
    try:
        try:
            await asyncio.wait(earlier)
        finally:
            broker.transaction_verification.remove_request(size_bytes)
        outcome = _append_request(broker, context, request)
        if isinstance(outcome, Coroutine):  # the earlier batches were refused
            return await outcome
    finally:
        finished()
    return await outcome if isinstance(outcome, Deferred) else outcome


def _append_verified(
    broker: BrokerServer, context: RequestContext, acks: int, batches: Iterable[_Batch], verified: Verified
) -> None:
    """Append the batches whose transaction was verified, with the guards, and refuse the others."""
    for batch in batches:
        error = None if batch.partition is None else verified.errors.get(batch.partition)
        guard = None if batch.partition is None else verified.guards.get(batch.partition)
        if error is not None:
            batch.topic.rows[batch.at] = refuse(broker, batch.partition, batch.partition_index, batch.records, error)
        else:
            _append_one(broker, context, acks, batch, AppendOrigin(from_client=True, guard=guard))


def _append_one(broker: BrokerServer, context: RequestContext, acks: int, batch: _Batch, origin: AppendOrigin) -> None:
    """Append a batch, and put its outcome into its place."""
    (name, topic_id, rows, uncommitted), at, index, _, records = batch
    version, client_id = context.api_version, context.client_id
    found, writes, _ = append(broker, version, client_id, acks, name, topic_id, [(index, records)], origin)
    rows[at] = found[0]
    uncommitted += [(at, partition, end_offset) for _, partition, end_offset in writes]


def _partition(broker: BrokerServer, topic: ProduceRequest.Topic, index: int) -> Partition | None:
    return _find(broker, topic.name if topic.topic_id == ZERO_UUID else None, topic.topic_id, index)


def _find(broker: BrokerServer, name: str | None, topic_id: bytes, index: int) -> Partition | None:
    return broker.replicas.find(topic_id, index) if name is None else broker.replicas.find_named(name, index)
