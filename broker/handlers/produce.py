"""Produce: append one batch to each of some partitions.

Behaviour
- Each partition takes exactly one batch of magic 2, checked by its header and appended as received; if the topic's
  settings require more, `broker.replication.record_validation` checks the records. Partitions fail independently.
- acks=0: no response; an error closes the connection, the only sign of failure for such a producer. acks=1: the
  response is sent after the append. acks=-1: NOT_ENOUGH_REPLICAS before the append if the ISR is too small; the
  response is sent once the batch is below the high watermark, with `barnabas.fsync=always` once it is on disk too. Any
  other value is INVALID_REQUIRED_ACKS.
- A batch that repeats one of the producer's last five gets the original offset (KIP-98).
- Transactional batches are refused with INVALID_TXN_STATE: without a coordinator the transaction could never end.
- INVALID_TOPIC_EXCEPTION for internal topics, except from Kafka's admin client, as in Kafka.

Version notes
- 0 to 2 are advertised but cannot be decoded: librdkafka stops compressing if they are not listed (KAFKA-18659).
- 7 and later may have zstd; below, UNSUPPORTED_COMPRESSION_TYPE.
- 8 and later list the records that made a batch fail (KIP-467).
- 10 and later return the current leader and its address with NOT_LEADER_OR_FOLLOWER (KIP-951).
- 13 and later name topics by id: UNKNOWN_TOPIC_ID (KIP-516).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.metadata.current_leader import current_leader
from broker.network.connection import Disconnect, context_of
from broker.replication.partition import ACKS_ALL, Partition
from broker.replication.record_validation import InvalidRecordsError, prepare
from broker.replication.replica_state import NO_OFFSET
from broker.runtime.deferred import Deferred
from controller.topic_names import INTERNAL_TOPICS
from protocol import produce_fast_path
from protocol.compression import Compression
from protocol.errors import DecodeError, ErrorCode, InvariantError, KafkaError
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.primitives import ZERO_UUID
from protocol.produce_fast_path import Appended, decode_plain_produce, encode_plain_response, plain_timeout_ms
from protocol.record_batch import check_batch
from protocol.schema import maker

if TYPE_CHECKING:
    from broker.network.connection import Connection, RequestContext
    from broker.node import Node
    from protocol.headers import RequestHeader
    from storage.log.log import LogAppendInfo

_NO_FAILURES = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR)
_ADMIN_CLIENT_ID = "__admin_client"
_ZSTD_FROM_VERSION = 7
_HINTS_FROM_VERSION = 10
_TOPIC_IDS_FROM_VERSION = 13

_log = logging.getLogger("broker.produce")

_Wanted = ProduceRequest.Topic.Partition
_Topic = ProduceResponse.Topic
_Appended = ProduceResponse.Topic.Partition
_make_appended = maker(_Appended)


def handle(
    broker: Node, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Deferred[ProduceResponse] | None:
    """Append the batches of `request`; wait only for replicas or the disk."""
    produce = _Produce(broker, context, request.acks)
    response = ProduceResponse(
        responses=[produce.append_topic(topic) for topic in request.topic_data],
        node_endpoints=produce.node_endpoints,
    )
    if request.acks == 0:
        if produce.first_error is not None:
            raise Disconnect(f"a produce with acks=0 failed: {produce.first_error}")
        return None
    return produce.acknowledged(response, request.timeout_ms) if produce.uncommitted else response


def handle_frame(
    broker: Node, header: RequestHeader, connection: Connection, frame: memoryview, body_at: int
) -> bytes | ProduceResponse | Deferred[Any] | None:
    """Append the batches of a plain request, without decoding it to a message (fast path).

    Return None, with nothing appended, for every other request and for one with an error: `handle` makes its response.
    """
    version = header.api_version
    plain = decode_plain_produce(frame, body_at, version) if version >= produce_fast_path.FIRST_VERSION else None
    if plain is None:
        return None
    acks, topic, batches = plain
    if acks not in (ACKS_ALL, 1):
        return None
    replicas = broker.replicas
    name = None if version >= _TOPIC_IDS_FROM_VERSION else str(topic[1:], "utf-8", "replace")
    validate = broker.settings["barnabas.validate.records"]
    checked = []
    for index, records in batches:
        partition = replicas.find(topic, index) if name is None else replicas.find_named(name, index)
        if partition is None or not partition.is_leader or partition.topic in INTERNAL_TOPICS:
            return None
        try:
            found = check_batch(records)
            batch = prepare(records, found, partition.log.config, validate)
        except KafkaError:
            return None
        if found.is_transactional:
            return None
        checked.append((partition, batch, found if batch is records else None))
    outcomes: list[LogAppendInfo | KafkaError] = []
    appended: list[Appended] = []
    uncommitted: dict[int, tuple[Partition, int]] = {}
    for partition, batch, known in checked:
        try:
            info = replicas.append(partition, batch, acks, known)
        except Exception as error:
            outcomes.append(_failure(broker, error))
            continue
        outcomes.append(info)
        base_offset, last_offset, _, log_append_time_ms, log_start_offset, _, _ = info
        appended.append((partition.index, base_offset, log_append_time_ms, log_start_offset))
        if acks == ACKS_ALL and partition.high_watermark <= last_offset:
            uncommitted[len(outcomes) - 1] = partition, last_offset + 1
    if len(appended) < len(outcomes):
        request = ProduceRequest.decode(frame, version, body_at)
        produce = _Produce(broker, context_of(header, connection), acks)
        response = produce.response(request, outcomes)
        # Break the cycle of this frame, the errors and their tracebacks: the tracebacks' frames hold files open.
        outcomes.clear()
        produce.wait_for(response, uncommitted)
        return produce.acknowledged(response, request.timeout_ms) if produce.uncommitted else response
    if uncommitted:
        outcome = replicas.await_commit([*uncommitted.values()], plain_timeout_ms(frame, body_at))
        return outcome.then(partial(_answer_later, broker, header, connection, topic, appended, uncommitted))
    return encode_plain_response(header.correlation_id, topic, appended)


def _answer_later(
    broker: Node,
    header: RequestHeader,
    connection: Connection,
    topic: bytes,
    appended: list[Appended],
    writes: dict[int, tuple[Partition, int]],
    outcomes: list[ErrorCode] | Exception,
) -> bytes | ProduceResponse:
    """Return the response to a plain request whose `writes` have these outcomes; its frame is no longer valid."""
    if isinstance(outcomes, Exception):
        raise outcomes
    if not any(outcomes):
        return encode_plain_response(header.correlation_id, topic, appended)
    by_id = header.api_version >= _TOPIC_IDS_FROM_VERSION
    answered = _Topic(
        name="" if by_id else str(topic[1:], "utf-8", "replace"),
        topic_id=topic if by_id else ZERO_UUID,
        partition_responses=[
            _make_appended(
                index=index,
                error_code=ErrorCode.NONE,
                base_offset=base_offset,
                log_append_time_ms=log_append_time_ms,
                log_start_offset=log_start_offset,
            )
            for index, base_offset, log_append_time_ms, log_start_offset in appended
        ],
    )
    produce = _Produce(broker, context_of(header, connection), ACKS_ALL)
    response = ProduceResponse(responses=[answered], node_endpoints=produce.node_endpoints)
    produce.wait_for(response, writes)
    return produce.settle(response, outcomes)


class _Produce:
    """One request in progress."""

    __slots__ = (
        "acks",
        "broker",
        "context",
        "first_error",
        "node_endpoints",
        "replicas",
        "uncommitted",
        "validate",
    )

    def __init__(self, broker: Node, context: RequestContext, acks: int) -> None:
        self.broker = broker
        self.replicas = broker.replicas
        self.context = context
        self.acks = acks
        self.validate: bool = broker.settings["barnabas.validate.records"]
        self.first_error: str | None = None  # the message, not the exception: its traceback would hold the frame
        self.node_endpoints: list[ProduceResponse.NodeEndpoint] = []
        self.uncommitted: list[tuple[_Appended, Partition, int]] = []

    def append_topic(self, topic: ProduceRequest.Topic) -> _Topic:
        """Append to the partitions of one topic; return their results."""
        name = self._name(topic)
        answers = []
        for wanted in topic.partition_data:
            try:
                answers.append(self._append(name, wanted.index, wanted.records))
            except Exception as error:
                answers.append(self._refuse(name, wanted, _failure(self.broker, error)))
            wanted.records = None  # drop the view: the request outlives the frame while the response is pending
        return _Topic(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)

    def _append(self, name: str | None, index: int, records: object) -> _Appended:
        if self.acks not in (ACKS_ALL, 0, 1):
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, not {self.acks}")
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self.replicas.partition(name, index)
        if not isinstance(records, memoryview):
            raise KafkaError(ErrorCode.INVALID_RECORD, "no record batch")
        header = check_batch(records)
        if header.is_transactional:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "transactions are not supported yet")
        if self.context.api_version < _ZSTD_FROM_VERSION and header.compression is Compression.ZSTD:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 7 of Produce")
        if name in INTERNAL_TOPICS and self.context.client_id != _ADMIN_CLIENT_ID:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only the broker writes to {name}")
        batch = prepare(records, header, partition.log.config, self.validate)
        info = self.replicas.append(partition, batch, self.acks, header if batch is records else None)
        answer = _appended(index, info)
        if self.acks == ACKS_ALL:
            outcome = partition.committed(info.last_offset + 1)
            if outcome is None:
                self.uncommitted.append((answer, partition, info.last_offset + 1))
            else:
                answer.error_code = outcome
        return answer

    def response(self, request: ProduceRequest, outcomes: list[LogAppendInfo | KafkaError]) -> ProduceResponse:
        """Return the response to a request for one topic, with an outcome for each partition."""
        [topic] = request.topic_data
        name = self._name(topic)
        answers = [
            self._refuse(name, wanted, outcome) if isinstance(outcome, KafkaError) else _appended(wanted.index, outcome)
            for wanted, outcome in zip(topic.partition_data, outcomes, strict=True)
        ]
        responses = [_Topic(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)]
        return ProduceResponse(responses=responses, node_endpoints=self.node_endpoints)

    def _name(self, topic: ProduceRequest.Topic) -> str | None:
        by_id = self.context.api_version >= _TOPIC_IDS_FROM_VERSION
        return self.replicas.topic_name(topic.topic_id) if by_id else topic.name

    def _refuse(self, name: str | None, wanted: _Wanted, error: KafkaError) -> _Appended:
        self.first_error = self.first_error or str(error)
        self._count(name, wanted, error)
        answer = _Appended(
            index=wanted.index, error_code=error.code, base_offset=NO_OFFSET, error_message=error.message or None
        )
        if isinstance(error, InvalidRecordsError):
            answer.record_errors = [
                _Appended.RecordError(batch_index=at, batch_index_error_message=reason)
                for at, reason in error.record_errors
            ]
        if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and name is not None:
            self._hint(answer, name, wanted.index)
        return answer

    def _count(self, name: str | None, wanted: _Wanted, error: KafkaError) -> None:
        """Count a failure caused by the batch; as in Kafka, errors of the destination are not counted."""
        hosted = None if name is None else self.replicas.find_named(name, wanted.index)
        if hosted is None:
            return
        if error.code is ErrorCode.MESSAGE_TOO_LARGE and isinstance(wanted.records, memoryview):
            hosted.traffic.bytes_rejected += len(wanted.records)
        elif error.code not in _NO_FAILURES:
            hosted.traffic.failed_produces += 1

    def _hint(self, answer: _Appended, name: str, index: int) -> None:
        """Add the current leader and its address."""
        if self.context.api_version < _HINTS_FROM_VERSION:
            return
        hint = current_leader(self.broker.image, name, index, self.context.listener)
        answer.current_leader = _Appended.CurrentLeader(leader_id=hint.leader, leader_epoch=hint.leader_epoch)
        if hint.host is not None and all(node.node_id != hint.leader for node in self.node_endpoints):
            self.node_endpoints.append(
                ProduceResponse.NodeEndpoint(node_id=hint.leader, host=hint.host, port=hint.port, rack=hint.rack)
            )

    def wait_for(self, response: ProduceResponse, writes: dict[int, tuple[Partition, int]]) -> None:
        """Make these rows of a one-topic response wait for their writes.

        Rows are not identified by partition: a request may name one twice.
        """
        answers = response.responses[0].partition_responses
        self.uncommitted = [(answers[row], partition, end_offset) for row, (partition, end_offset) in writes.items()]

    def acknowledged(self, response: ProduceResponse, timeout_ms: int) -> Deferred[ProduceResponse]:
        """Return a promise of `response`, completed with the outcomes of its uncommitted writes."""
        writes = [(partition, end_offset) for _, partition, end_offset in self.uncommitted]
        return self.replicas.await_commit(writes, timeout_ms).then(partial(self.settle, response))

    def settle(self, response: ProduceResponse, outcomes: list[ErrorCode] | Exception) -> ProduceResponse:
        """Return `response` with the error code of each write that it waited for."""
        if isinstance(outcomes, Exception):
            raise outcomes
        for (answer, partition, _), outcome in zip(self.uncommitted, outcomes, strict=True):
            answer.error_code = outcome
            if outcome is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                self._hint(answer, partition.topic, partition.index)
        return response


def _failure(broker: Node, error: Exception) -> KafkaError:
    """Return the error of one partition; the others are appended to regardless.

    Log an unexpected error with its traceback. Raise the ones that end the request: `DecodeError` and `InvariantError`.
    """
    if isinstance(error, KafkaError):
        return error
    if isinstance(error, (DecodeError, InvariantError)):
        raise error
    broker.metrics.handler_failures += 1
    _log.error("Appending failed", exc_info=error)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _appended(index: int, info: LogAppendInfo) -> _Appended:
    return _make_appended(
        index=index,
        error_code=ErrorCode.NONE,
        base_offset=info.base_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )
