"""The batches of a Produce request: appended one by one, and their outcomes as rows of the response.

`produce` has the behaviour of the API; `produce_in_transactions` decides when transactional batches are appended.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

from broker.broker_server import BrokerServer
from broker.metadata.metadata_view import current_leader
from broker.network.connection import Disconnect, RequestContext
from broker.replication.partition import ACKS_ALL, Partition
from broker.replication.record_validation import InvalidRecordsError, validate_records
from broker.replication.replica_manager import ReplicaManager
from broker.replication.replica_state import NO_OFFSET
from broker.runtime.deferred import Deferred
from controller.topic_names import INTERNAL_TOPICS
from protocol.compression import Compression
from protocol.errors import DecodeError, ErrorCode, InvariantError, KafkaError
from protocol.headers import RequestHeader
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.produce_fast_path import Appended, encode_plain_response
from protocol.record_batch import check_batch
from protocol.schema import maker
from storage.log.producer_state import CLIENT, AppendOrigin

_VALID_ACKS = (1, ACKS_ALL, 0)
_UNCOUNTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR)
_ADMIN_CLIENT_ID = "__admin_client"
_ZSTD_FROM_VERSION = 7
_CURRENT_LEADER_FROM_VERSION = 10
TOPIC_IDS_FROM_VERSION = 13

_log = logging.getLogger("broker.produce")

_Topic = ProduceResponse.Topic
_Refused = ProduceResponse.Topic.Partition
_make_appended = maker(ProduceResponse.Topic.Partition)

Row: TypeAlias = "Appended | _Refused"
"""The outcome of one batch. Not the exception: its traceback would hold the request's frame, and files open."""


class Rows(NamedTuple):
    """The outcomes of the batches for one topic, which `name` (None: only `topic_id`) names as the request does."""

    name: str | None
    topic_id: bytes
    rows: list[Row]
    uncommitted: list[tuple[int, Partition, int]]
    """Position in `rows`, partition and end offset of each write that the response waits for."""


def append_request(
    broker: BrokerServer, context: RequestContext, request: ProduceRequest, origin: AppendOrigin = CLIENT
) -> ProduceResponse | Deferred[ProduceResponse] | None:
    """Append the batches of `request`; return the response once they are committed, with acks=0 none."""
    version, acks = context.api_version, request.acks
    topics: list[Rows] = []
    for topic in request.topic_data:
        name = None if version >= TOPIC_IDS_FROM_VERSION else topic.name
        batches: list[tuple[int, Any]] = [(wanted.index, wanted.records) for wanted in topic.partition_data]
        for wanted in topic.partition_data:
            wanted.records = None  # drop the view: the request outlives the frame while the response is pending
        rows, uncommitted, _ = append(broker, version, context.client_id, acks, name, topic.topic_id, batches, origin)
        topics.append(Rows(name, topic.topic_id, rows, uncommitted))
    return respond(broker, context, request, topics)


def respond(
    broker: BrokerServer, context: RequestContext, request: ProduceRequest, topics: list[Rows]
) -> ProduceResponse | Deferred[ProduceResponse] | None:
    """Return the response, once the appended batches are committed; with acks=0 none."""
    if request.acks == 0:
        refused = next((row for topic in topics for row in topic.rows if isinstance(row, _Refused)), None)
        if refused is not None:
            error = KafkaError(ErrorCode(refused.error_code), refused.error_message or "")
            raise Disconnect(f"a produce with acks=0 failed: {error}")
        return None
    respond = partial(response_of, broker, context.api_version, context.listener, topics)
    writes = [(partition, end_offset) for topic in topics for _, partition, end_offset in topic.uncommitted]
    return broker.replicas.await_commit(writes, request.timeout_ms).then(respond) if writes else respond(())


def append(
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

    Return `Rows.rows` and `Rows.uncommitted`, and whether any batch was refused: if not, the rows are all `Appended`.
    """
    replicas = broker.replicas
    validate = broker.settings["barnabas.validate.records"]
    rows: list[Row] = []
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
            rows.append(refuse(broker, partition, index, records, error))
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


def refuse(
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


def plain_response(
    broker: BrokerServer,
    header: RequestHeader,
    listener: str,
    topic: bytes,
    answered: Rows,
    outcomes: list[ErrorCode] | BaseException,
) -> bytes | ProduceResponse:
    """Return the encoded response if every write is committed, else the message."""
    if isinstance(outcomes, BaseException) or any(outcomes):
        return response_of(broker, header.api_version, listener, [answered], outcomes)
    return encode_plain_response(header.correlation_id, topic, cast("list[Appended]", answered.rows))


def response_of(
    broker: BrokerServer,
    version: int,
    listener: str,
    topics: list[Rows],
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
