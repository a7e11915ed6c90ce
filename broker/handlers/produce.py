"""Produce: append one batch to each of some partitions.

Behaviour
- Each partition takes exactly one batch of magic 2, checked by its header and appended as received; if the topic's
  settings require more, `broker.replication.record_validation` checks the records. Partitions fail independently.
- acks=0: no response; an error closes the connection, the only sign of failure for such a producer. acks=1: the
  response is sent after the append. acks=-1: NOT_ENOUGH_REPLICAS before the append if the ISR is too small; the
  response is sent once the batch is below the high watermark, with `barnabas.fsync=always` once it is on disk too. Any
  other value is INVALID_REQUIRED_ACKS.
- A batch that repeats one of the producer's last five gets the original offset (KIP-98).
- Transactional batches need a transactional id (TRANSACTIONAL_ID_AUTHORIZATION_FAILED), are all of one producer
  (INVALID_PRODUCER_ID_MAPPING), and begin a transaction in a partition only once the coordinator has verified it
  (KIP-890, `broker.replication.add_partitions_to_txn_manager`). Until then the first batches are copied and wait, and
  later requests of the producer to these partitions wait, too. The other batches of a transaction are appended as
  usual.
- INVALID_TOPIC_EXCEPTION for internal topics, except from Kafka's admin client, as in Kafka.

Version notes
- 0 to 2 are advertised but cannot be decoded: librdkafka stops compressing if they are not listed (KAFKA-18659).
- 7 and later may have zstd; below, UNSUPPORTED_COMPRESSION_TYPE.
- 8 and later list the records that made a batch fail (KIP-467).
- 11 knows TRANSACTION_ABORTABLE; 12 and later add the partition to the transaction (KIP-890).
- 10 and later return the current leader and its address with NOT_LEADER_OR_FOLLOWER (KIP-951).
- 13 and later name topics by id: UNKNOWN_TOPIC_ID (KIP-516).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from broker.broker_server import BrokerServer
from broker.metadata.metadata_view import current_leader
from broker.network.connection import Connection, Disconnect, RequestContext
from broker.replication.partition import ACKS_ALL, Partition
from broker.replication.record_validation import InvalidRecordsError, validate_records
from broker.replication.replica_manager import ReplicaManager
from broker.replication.replica_state import NO_OFFSET
from broker.runtime.deferred import Deferred
from controller.topic_names import INTERNAL_TOPICS
from protocol import produce_fast_path
from protocol.compression import Compression
from protocol.errors import DecodeError, ErrorCode, InvariantError, KafkaError
from protocol.headers import RequestHeader
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.primitives import ZERO_UUID
from protocol.produce_fast_path import Appended, decode_plain_produce, encode_plain_response, plain_timeout_ms
from protocol.record_batch import HEADER_BYTES, TRANSACTIONAL_BIT, check_batch, read_header
from protocol.schema import maker
from storage.log.producer_state import CLIENT, CLIENT_IN_TRANSACTION, AppendOrigin

if TYPE_CHECKING:
    from broker.replication.add_partitions_to_txn_manager import AddPartitionsToTxnManager, HeldBatches, Verified

_VALID_ACKS = (1, ACKS_ALL, 0)
_UNCOUNTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR)
_ADMIN_CLIENT_ID = "__admin_client"
_ZSTD_FROM_VERSION = 7
_CURRENT_LEADER_FROM_VERSION = 10
_TOPIC_IDS_FROM_VERSION = 13

_log = logging.getLogger("broker.produce")

_Topic = ProduceResponse.Topic
_Refused = ProduceResponse.Topic.Partition
_make_appended = maker(ProduceResponse.Topic.Partition)

_NO_ROW: Any = None
"""The place of a row that is not there yet."""

_Row: TypeAlias = "Appended | _Refused"
"""The outcome of one batch. Not the exception: its traceback would hold the request's frame, and files open."""


class _Rows(NamedTuple):
    """The outcomes of the batches for one topic, which `name` (None: only `topic_id`) names as the request does."""

    name: str | None
    topic_id: bytes
    rows: list[_Row]
    uncommitted: list[tuple[int, Partition, int]]
    """Position in `rows`, partition and end offset of each write that the response waits for."""


def handle(
    broker: BrokerServer, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Deferred[ProduceResponse] | Awaitable[ProduceResponse | None] | None:
    """Append the batches of `request`; wait only for replicas, the disk, or the verification of a transaction."""
    manager = broker.add_partitions_to_txn_manager
    if request.transactional_id is not None and manager is not None and manager.held:
        earlier = _earlier(manager, broker, request)
        if earlier:
            return _wait_for_earlier(broker, context, request, earlier)
    return _append_request(broker, context, request)


def _append_request(
    broker: BrokerServer, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Deferred[ProduceResponse] | Coroutine[Any, Any, ProduceResponse | None] | None:
    """Append the batches of `request`, whose earlier ones are appended; a coroutine if a verification is awaited."""
    if request.transactional_id is not None:
        starting = _starting(broker, request)
        if starting is not None:
            return _start_transaction(broker, context, request, starting)
    origin = CLIENT if request.transactional_id is None else CLIENT_IN_TRANSACTION
    version, acks = context.api_version, request.acks
    topics: list[_Rows] = []
    for topic in request.topic_data:
        name = None if version >= _TOPIC_IDS_FROM_VERSION else topic.name
        batches: list[tuple[int, Any]] = [(wanted.index, wanted.records) for wanted in topic.partition_data]
        for wanted in topic.partition_data:
            wanted.records = None  # drop the view: the request outlives the frame while the response is pending
        rows, uncommitted, _ = _append(broker, version, context.client_id, acks, name, topic.topic_id, batches, origin)
        topics.append(_Rows(name, topic.topic_id, rows, uncommitted))
    return _respond(broker, context, request, topics)


def _respond(
    broker: BrokerServer, context: RequestContext, request: ProduceRequest, topics: list[_Rows]
) -> ProduceResponse | Deferred[ProduceResponse] | None:
    """Return the response, once the appended batches are committed; with acks=0 none."""
    if request.acks == 0:
        refused = next((row for topic in topics for row in topic.rows if isinstance(row, _Refused)), None)
        if refused is not None:
            error = KafkaError(ErrorCode(refused.error_code), refused.error_message or "")
            raise Disconnect(f"a produce with acks=0 failed: {error}")
        return None
    respond = partial(_response, broker, context.api_version, context.listener, topics)
    writes = [(partition, end_offset) for topic in topics for _, partition, end_offset in topic.uncommitted]
    return broker.replicas.await_commit(writes, request.timeout_ms).then(respond) if writes else respond(())


def handle_frame(
    broker: BrokerServer, header: RequestHeader, connection: Connection, frame: memoryview, body_at: int
) -> bytes | ProduceResponse | Deferred[Any] | None:
    """Append the batches of a plain request, without decoding it to a message (fast path); None for any other."""
    version = header.api_version
    plain = decode_plain_produce(frame, body_at, version) if version >= produce_fast_path.FIRST_VERSION else None
    if plain is None:
        return None
    acks, topic, batches, transactional_id = plain
    if acks not in (ACKS_ALL, 1):
        return None
    name, topic_id = None, topic
    if version < _TOPIC_IDS_FROM_VERSION:
        try:
            name, topic_id = str(topic[1:], "utf-8"), ZERO_UUID
        except UnicodeDecodeError:
            return None
    origin = CLIENT
    if transactional_id is not None:
        verified = _verified_origin(broker, version, transactional_id, name, topic_id, batches)
        if verified is None:
            return None
        origin = verified
    rows, uncommitted, refused = _append(broker, version, header.client_id, acks, name, topic_id, batches, origin)
    if not (uncommitted or refused):
        return encode_plain_response(header.correlation_id, topic, rows)
    answered = _Rows(name, topic_id, rows, uncommitted)
    if not uncommitted:
        return _response(broker, version, connection.listener, [answered], ())
    writes = [(partition, end_offset) for _, partition, end_offset in uncommitted]
    outcomes = broker.replicas.await_commit(writes, plain_timeout_ms(frame, body_at))
    if refused:
        return outcomes.then(partial(_response, broker, version, connection.listener, [answered]))
    return outcomes.then(partial(_plain_response, broker, header, connection.listener, topic, answered))


def _verified_origin(
    broker: BrokerServer,
    version: int,
    transactional_id: str,
    name: str | None,
    topic_id: bytes,
    batches: list[tuple[int, memoryview]],
) -> AppendOrigin | None:
    """Return the origin to append transactional batches with; None if `handle` has to verify them.

    The batches are of one transaction, which is open in their partitions. Or there is one batch, and this broker is
    the coordinator, which has its partition in the open transaction.
    """
    first, is_open = None, True
    manager = broker.add_partitions_to_txn_manager
    held = None if manager is None else manager.held
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
        if held and (partition, producer_id, epoch) in held:
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

    topic: _Rows
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


def _partition(broker: BrokerServer, topic: ProduceRequest.Topic, index: int) -> Partition | None:
    return _find(broker, topic.name if topic.topic_id == ZERO_UUID else None, topic.topic_id, index)


def _find(broker: BrokerServer, name: str | None, topic_id: bytes, index: int) -> Partition | None:
    return broker.replicas.find(topic_id, index) if name is None else broker.replicas.find_named(name, index)


def _start_transaction(
    broker: BrokerServer, context: RequestContext, request: ProduceRequest, starting: _Starting
) -> ProduceResponse | Deferred[ProduceResponse] | Coroutine[Any, Any, ProduceResponse | None] | None:
    """Append the batches of a request some of which begin a transaction in their partition.

    Where the coordinator does not decide at once, these wait, and so do the producer's next ones for these partitions.
    """
    from broker.replication.add_partitions_to_txn_manager import HeldBatches, Transaction, Verified
    from broker.replication.verification_queue import produce_operation

    verification = broker.transaction_verification
    verification.check_room(starting.size_bytes)
    operation = produce_operation(context.api_version)
    transaction = Transaction(request.transactional_id or "", starting.producer_id, starting.producer_epoch, operation)
    topics: list[_Rows] = []
    held: list[_Batch] = []
    for topic in request.topic_data:
        name = None if context.api_version >= _TOPIC_IDS_FROM_VERSION else topic.name
        rows = _Rows(name, topic.topic_id, [_NO_ROW] * len(topic.partition_data), [])
        topics.append(rows)
        for at, wanted in enumerate(topic.partition_data):
            records, wanted.records = cast("memoryview | None", wanted.records), None
            batch = _Batch(rows, at, wanted.index, _partition(broker, topic, wanted.index), records)
            if batch.partition in starting.sequences:
                held.append(batch)
            else:
                _append_one(broker, context, request.acks, batch, CLIENT_IN_TRANSACTION)
    # After the appends: a coroutine must not be left behind if the process fails in one.
    verified = verification.verify_produce(transaction, starting.sequences)
    if isinstance(verified, Verified):
        _append_verified(broker, context, request.acks, held, verified)
        return _respond(broker, context, request, topics)
    held = [batch._replace(records=memoryview(bytearray(batch.records or b""))) for batch in held]
    verification.hold(starting.size_bytes)
    batches = [HeldBatches(each, starting.producer_id, starting.producer_epoch) for each in starting.sequences]
    appended = partial(verification.appended, batches, verification.hold_back(batches))
    return _append_later(broker, context, request, topics, held, verified, starting.size_bytes, appended)


async def _append_later(
    broker: BrokerServer,
    context: RequestContext,
    request: ProduceRequest,
    topics: list[_Rows],
    held: list[_Batch],
    verified: Awaitable[Verified],
    size_bytes: int,
    appended: Callable[[], None],
) -> ProduceResponse | None:
    try:
        _append_verified(broker, context, request.acks, held, await verified)
    finally:
        held.clear()
        broker.transaction_verification.release(size_bytes)
        appended()
    outcome = _respond(broker, context, request, topics)
    return await outcome if isinstance(outcome, Deferred) else outcome


def _earlier(
    manager: AddPartitionsToTxnManager, broker: BrokerServer, request: ProduceRequest
) -> dict[HeldBatches, asyncio.Future[None]]:
    """Return those batches of a request for which earlier ones of the same producer and partition are held."""
    from broker.replication.add_partitions_to_txn_manager import HeldBatches

    earlier = {}
    for topic in request.topic_data:
        for wanted in topic.partition_data:
            records = cast("memoryview | None", wanted.records)
            partition = _partition(broker, topic, wanted.index)
            if records is None or len(records) < HEADER_BYTES or partition is None:
                continue
            header = read_header(records)
            each = HeldBatches(partition, header.producer_id, header.producer_epoch)
            if each in manager.held:
                earlier[each] = manager.held[each]
    return earlier


def _wait_for_earlier(
    broker: BrokerServer,
    context: RequestContext,
    request: ProduceRequest,
    earlier: Mapping[HeldBatches, asyncio.Future[None]],
) -> Awaitable[ProduceResponse | None]:
    """Copy the batches of a request; they wait until the `earlier` ones are appended."""
    verification = broker.transaction_verification
    all_wanted = [wanted for topic in request.topic_data for wanted in topic.partition_data if wanted.records]
    size_bytes = sum(len(cast("memoryview", wanted.records)) for wanted in all_wanted)
    verification.check_room(size_bytes)
    for wanted in all_wanted:
        wanted.records = memoryview(bytearray(cast("memoryview", wanted.records)))
    verification.hold(size_bytes)
    appended = partial(verification.appended, [*earlier], verification.hold_back(earlier, is_next=True))
    return _append_next(broker, context, request, [*earlier.values()], size_bytes, appended)


async def _append_next(
    broker: BrokerServer,
    context: RequestContext,
    request: ProduceRequest,
    earlier: Iterable[asyncio.Future[None]],
    size_bytes: int,
    appended: Callable[[], None],
) -> ProduceResponse | None:
    try:
        try:
            await asyncio.wait(earlier)
        finally:
            broker.transaction_verification.release(size_bytes)
        outcome = _append_request(broker, context, request)
        if isinstance(outcome, Coroutine):  # the earlier batches were refused
            return await outcome
    finally:
        appended()
    return await outcome if isinstance(outcome, Deferred) else outcome


def _append_verified(
    broker: BrokerServer, context: RequestContext, acks: int, batches: Iterable[_Batch], verified: Verified
) -> None:
    """Append the batches whose transaction was verified, with the guards, and refuse the others."""
    for batch in batches:
        error = None if batch.partition is None else verified.errors.get(batch.partition)
        guard = None if batch.partition is None else verified.guards.get(batch.partition)
        if error is not None:
            batch.topic.rows[batch.at] = _refuse(broker, batch.partition, batch.partition_index, batch.records, error)
        else:
            _append_one(broker, context, acks, batch, AppendOrigin(from_client=True, guard=guard))


def _append_one(broker: BrokerServer, context: RequestContext, acks: int, batch: _Batch, origin: AppendOrigin) -> None:
    """Append a batch, and put its outcome into its place."""
    (name, topic_id, rows, uncommitted), at, index, _, records = batch
    version, client_id = context.api_version, context.client_id
    found, writes, _ = _append(broker, version, client_id, acks, name, topic_id, [(index, records)], origin)
    rows[at] = found[0]
    uncommitted += [(at, partition, end_offset) for _, partition, end_offset in writes]


def _append(
    broker: BrokerServer,
    version: int,
    client_id: str | None,
    acks: int,
    name: str | None,
    topic_id: bytes,
    batches: Iterable[tuple[int, memoryview | None]],
    origin: AppendOrigin = CLIENT,
) -> tuple[list[Any], list[tuple[int, Partition, int]], bool]:
    """Append one batch to each of some partitions of a topic.

    Return `_Rows.rows` and `_Rows.uncommitted`, and whether any batch was refused: if not, the rows are all `Appended`.
    """
    replicas = broker.replicas
    validate = broker.settings["barnabas.validate.records"]
    rows: list[_Row] = []
    uncommitted: list[tuple[int, Partition, int]] = []
    refused = False
    for index, records in batches:
        partition = replicas.find(topic_id, index) if name is None else replicas.find_named(name, index)
        try:
            if acks not in _VALID_ACKS:
                raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, not {acks}")
            if partition is None:
                raise _not_here(replicas, name, topic_id, index)
            if records is None:
                raise KafkaError(ErrorCode.INVALID_RECORD, "no record batch")
            header = check_batch(records)
            if header.is_transactional and origin is CLIENT:
                raise KafkaError(
                    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional batch without a transactional id"
                )
            if version < _ZSTD_FROM_VERSION and header.compression is Compression.ZSTD:
                raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 7 of Produce")
            if partition.topic in INTERNAL_TOPICS and client_id != _ADMIN_CLIENT_ID:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only the broker writes to {partition.topic}")
            batch = validate_records(records, header, partition.log.config, validate)
            info = replicas.append(partition, batch, acks, header if batch is records else None, origin)
        except Exception as error:
            rows.append(_refuse(broker, partition, index, records, error))
            refused = True
            continue
        base_offset, last_offset, _, log_append_time_ms, log_start_offset, _, _ = info
        if acks == ACKS_ALL and partition.log.high_watermark <= last_offset:
            uncommitted.append((len(rows), partition, last_offset + 1))
        rows.append((index, base_offset, log_append_time_ms, log_start_offset))
    return rows, uncommitted, refused


def _not_here(replicas: ReplicaManager, name: str | None, topic_id: bytes, index: int) -> KafkaError:
    """Return the error for a partition that is not hosted here."""
    try:
        known = replicas.topic_name(topic_id) if name is None else name
        if known is not None:
            replicas.partition(known, index)
    except KafkaError as error:
        return error
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)  # the replica found is one of a deleted topic of that name


def _refuse(
    broker: BrokerServer, partition: Partition | None, index: int, records: memoryview | None, failure: Exception
) -> _Refused:
    """Return the row of a batch that was not appended, and count it; the others are appended regardless.

    Log an unexpected error with its traceback. Raise the ones that end the request: `DecodeError` and `InvariantError`.
    """
    if isinstance(failure, (DecodeError, InvariantError)):
        raise failure
    error = failure
    if not isinstance(error, KafkaError):
        broker.metrics.handler_failures += 1
        _log.error("Appending failed", exc_info=error)
        error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if partition is not None:  # as in Kafka, only failures caused by the batch are counted
        if error.code is ErrorCode.MESSAGE_TOO_LARGE and records is not None:
            partition.topic_metrics.bytes_rejected += len(records)
        elif error.code not in _UNCOUNTED:
            partition.topic_metrics.failed_produces += 1
    row = _Refused(index=index, error_code=error.code, base_offset=NO_OFFSET, error_message=error.message or None)
    if isinstance(error, InvalidRecordsError):
        row.record_errors = [
            _Refused.RecordError(batch_index=at, batch_index_error_message=reason) for at, reason in error.record_errors
        ]
    return row


def _plain_response(
    broker: BrokerServer,
    header: RequestHeader,
    listener: str,
    topic: bytes,
    answered: _Rows,
    outcomes: list[ErrorCode] | BaseException,
) -> bytes | ProduceResponse:
    """Return the encoded response if every write is committed, else the message."""
    if isinstance(outcomes, BaseException) or any(outcomes):
        return _response(broker, header.api_version, listener, [answered], outcomes)
    return encode_plain_response(header.correlation_id, topic, cast("list[Appended]", answered.rows))


def _response(
    broker: BrokerServer,
    version: int,
    listener: str,
    topics: list[_Rows],
    outcomes: Sequence[ErrorCode] | BaseException,
) -> ProduceResponse:
    """Return the response as a message; `outcomes` has the error code of each uncommitted write, in order."""
    if isinstance(outcomes, BaseException):
        raise outcomes
    response = ProduceResponse(responses=[])
    each = iter(outcomes)
    for name, topic_id, rows, uncommitted in topics:
        # By position, not by partition: a request may name one twice.
        codes = {at: next(each) for at, _, _ in uncommitted}
        answers = []
        for at, row in enumerate(rows):
            if isinstance(row, _Refused):
                answer = row
            else:
                index, base_offset, log_append_time_ms, log_start_offset = row
                answer = _make_appended(
                    index=index,
                    error_code=codes.get(at, ErrorCode.NONE),
                    base_offset=base_offset,
                    log_append_time_ms=log_append_time_ms,
                    log_start_offset=log_start_offset,
                )
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= _CURRENT_LEADER_FROM_VERSION:
                topic = broker.replicas.topic_name(topic_id) if name is None else name
                if topic is not None:
                    _add_current_leader(broker, listener, response, topic, answer)
            answers.append(answer)
        response.responses.append(_Topic(name=name or "", topic_id=topic_id, partition_responses=answers))
    return response


def _add_current_leader(
    broker: BrokerServer, listener: str, response: ProduceResponse, topic: str, answer: ProduceResponse.Topic.Partition
) -> None:
    """Add the current leader to `answer`, and its address to `response`."""
    hint = current_leader(broker.image, topic, answer.index, listener)
    answer.current_leader = _Refused.CurrentLeader(leader_id=hint.leader, leader_epoch=hint.leader_epoch)
    if hint.host is not None and all(node.node_id != hint.leader for node in response.node_endpoints):
        response.node_endpoints.append(
            ProduceResponse.NodeEndpoint(node_id=hint.leader, host=hint.host, port=hint.port, rack=hint.rack)
        )
