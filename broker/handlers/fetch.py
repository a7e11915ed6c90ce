"""Fetch: read records from partitions, waiting until there are enough.

Behaviour
- Partitions are read in the order of the request, then of the session (`broker.replication.fetch_sessions`), until
  max_bytes are found, each up to its own limit. The first batch of the first partition that has any is returned whole,
  whatever its size.
- The response waits until min_bytes can be read, at most max_wait_ms. It is sent at once if a partition fails or the
  reader's log diverges. Appends and other changes wake a waiting fetch; nothing is polled.
- Consumers read up to the high watermark, or with read_committed up to the last stable offset, and then get the aborted
  transactions in the range. Replicas read up to the log end; a replica's fetch offset advances its follower state,
  unless its broker has been registered again since (KIP-903): NOT_LEADER_OR_FOLLOWER.
- A replica gets a new high watermark with the next records or at max_wait_ms, as in Kafka since KAFKA-9952: sending it
  at once would double the fetches. A log start offset beyond the replica's is sent at once.
- Records are slices of segment files, sent to the socket without being parsed.
- A response without errors is encoded directly to bytes (`protocol.fetch_fast_path`), any other as a message.
- The response to a waiting fetch is written in the loop turn of the append that completes it
  (`broker.runtime.deferred`).

Version notes
- 5 and below have NOT_LEADER_OR_FOLLOWER in place of KAFKA_STORAGE_ERROR.
- Below 10: UNSUPPORTED_COMPRESSION_TYPE if the topic's compression.type is zstd.
- 11 and later may read from a follower (KIP-392); no preferred read replica is ever returned.
- 12 and later have the epoch of the reader's last record, and return the point of divergence (KIP-595).
- 13 and later name topics by id: UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID (KIP-516).
- 16 and later return the current leader and its address with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH (KIP-951),
  except to replicas, which use the metadata.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, cast

from broker.metadata.metadata_view import current_leader
from broker.replication.fetch_sessions import NO_SESSION, FetchPartition, FetchSession
from broker.replication.partition import Isolation, Partition, ReadResult
from broker.replication.replica_state import NO_EPOCH, NO_OFFSET
from broker.runtime.deferred import Deferred
from protocol import fetch_fast_path
from protocol.errors import ErrorCode, KafkaError
from protocol.fetch_fast_path import encode_plain_response, encode_topic_name
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.primitives import Part, RecordsPart

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext

_STORAGE_ERROR_FROM_VERSION = 6
_ZSTD_FROM_VERSION = 10
_FOLLOWERS_FROM_VERSION = 11
_REPLICA_STATE_FROM_VERSION = 15
_CURRENT_LEADER_FROM_VERSION = 16
_WITH_CURRENT_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

_Topic = FetchResponse.Topic
_Fetched = FetchResponse.Topic.Partition
_Aborted = FetchResponse.Topic.Partition.AbortedTransaction

FetchOutcome: TypeAlias = "FetchResponse | list[Part]"
_Result: TypeAlias = "tuple[FetchPartition, ReadResult | KafkaError]"


def handle(
    broker: BrokerServer,
    context: RequestContext,
    request: FetchRequest,
    new_fetch: Callable[..., FetchInProgress] | None = None,
) -> FetchOutcome | Deferred[FetchOutcome]:
    """Return the response, or a Deferred of it if fewer than min_bytes can be read.

    `new_fetch` is the class of the `FetchInProgress`, if another one.
    """
    replica_id = replica_of(context, request)
    sessions = broker.replicas.fetch_sessions
    try:
        session = sessions.open(request, context.api_version, replica_id >= 0, broker.now_ms())
    except KafkaError as error:
        return FetchResponse(error_code=error.code, session_id=NO_SESSION, responses=[])
    fetch = (new_fetch or FetchInProgress)(broker, context, request, session, replica_id)
    outcome = fetch.attempt(request.max_wait_ms <= 0)
    if not isinstance(outcome, int):
        return outcome
    response: Deferred[FetchOutcome] = Deferred(broker.loop)
    session.park(fetch, outcome, response, broker.loop.time() + request.max_wait_ms / 1000)
    return response


class FetchInProgress:
    """A request that is being handled, or waits."""

    __slots__ = (
        "_broker",
        "_context",
        "_isolation",
        "_leader_only",
        "_max_bytes",
        "_min_bytes",
        "_replica_epoch",
        "_replica_id",
        "_session",
        "_waited",
    )

    def __init__(
        self,
        broker: BrokerServer,
        context: RequestContext,
        request: FetchRequest,
        session: FetchSession,
        replica_id: int,
    ) -> None:
        self._broker = broker
        self._context = context
        self._session = session
        self._replica_id = replica_id
        versioned = context.api_version >= _REPLICA_STATE_FROM_VERSION
        self._replica_epoch = request.replica_state.replica_epoch if versioned else NO_EPOCH
        committed = request.isolation_level == Isolation.READ_COMMITTED
        self._isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
        if replica_id >= 0:
            self._isolation = Isolation.LOG_END
        self._leader_only = replica_id >= 0 or context.api_version < _FOLLOWERS_FROM_VERSION
        self._max_bytes: int = min(request.max_bytes, broker.settings["fetch.max.bytes"])
        self._min_bytes: int = min(request.min_bytes, self._max_bytes)
        self._waited = False

    def attempt(self, final: bool) -> FetchOutcome | int:
        """Read, and return the response; how many bytes are missing if it is below min_bytes and not `final`."""
        session = self._session
        room, found, urgent = self._max_bytes, 0, final or not session.partitions
        results: list[_Result] = []
        for wanted in session.to_read:
            try:
                result = self.read(wanted, room, min_one=found == 0)
            except KafkaError as error:
                results.append((wanted, error))
                urgent = True
                continue
            found += result.size_bytes
            room = max(0, room - result.size_bytes)
            urgent = urgent or result.diverging_epoch is not None or self._must_delete(wanted, result)
            if session.full or _has_news(wanted, result):
                results.append((wanted, result))
            elif result.caught_up:
                session.mark_caught_up(wanted)
        if urgent or found >= self._min_bytes:
            results += map(self._read_offsets, session.take_deferred())
            return self._respond(results)
        for wanted, read in () if session.full else results:
            if isinstance(read, ReadResult) and read.caught_up:
                session.defer(wanted)
        self._waited = True
        return self._min_bytes - found

    def refused(self, code: ErrorCode) -> FetchResponse:
        """Return the response with an error of the whole request."""
        return FetchResponse(error_code=code, session_id=self._session.session_id, responses=[])

    def _read_offsets(self, wanted: FetchPartition) -> _Result:
        """Return the offsets of a partition that has no records to read, or its error."""
        try:
            return wanted, self.read(wanted, 0, min_one=False)
        except KafkaError as error:
            return wanted, error

    def _must_delete(self, wanted: FetchPartition, result: ReadResult) -> bool:
        """Return whether a follower has records that the leader has deleted: DeleteRecords waits until it deletes them.

        A follower's log may also start later than a new leader's. That needs no response at once: nothing would change.
        """
        return self._replica_id >= 0 and NO_OFFSET != wanted.sent_log_start_offset < result.log_start_offset

    def read(self, wanted: FetchPartition, room: int, *, min_one: bool) -> ReadResult:
        """Return what is read from a partition, at most `room` bytes; KafkaError if it cannot be read."""
        partition = self._partition(wanted)
        max_bytes = max(0, min(wanted.max_bytes, room))
        if self._replica_id >= 0:
            result = self._broker.replicas.fetch_as_follower(
                partition,
                self._replica_id,
                self._replica_epoch,
                wanted,
                max_bytes,
                min_one=min_one,
                update=not self._waited,
            )
        else:
            result = partition.read(
                wanted.fetch_offset,
                max_bytes,
                self._isolation,
                current_leader_epoch=wanted.current_leader_epoch,
                last_fetched_epoch=wanted.last_fetched_epoch,
                leader_only=self._leader_only,
                min_one=min_one,
            )
        version = self._context.api_version
        if version < _ZSTD_FROM_VERSION and partition.log.config.compression_type == "zstd":
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 10 of Fetch")
        return result

    def _partition(self, wanted: FetchPartition) -> Partition:
        """Return the replica that serves `wanted`; KafkaError if there is none."""
        partition = wanted.replica
        if partition is not None and not partition.unavailable:
            return partition
        replicas = self._broker.replicas
        by_id = self._session.uses_topic_ids
        if wanted.topic is None:
            wanted.topic = replicas.topic_name(wanted.topic_id)
            if wanted.topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = replicas.partition(wanted.topic, wanted.index)
        if by_id and partition.topic_id != wanted.topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        self._session.assign(wanted, partition)
        return partition

    # Answering.

    def _error_row(self, wanted: FetchPartition, error: KafkaError) -> _Fetched:
        code = error.code
        if code is ErrorCode.KAFKA_STORAGE_ERROR and self._context.api_version < _STORAGE_ERROR_FROM_VERSION:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return error_row(wanted.index, code)

    def _respond(self, results: list[_Result]) -> FetchOutcome:
        """Record in the session what is sent; return the response."""
        session = self._session
        plain = self._context.api_version >= fetch_fast_path.FIRST_VERSION
        for wanted, found in results:
            if isinstance(found, KafkaError):
                wanted.sent_high_watermark = NO_OFFSET
                plain = False
                continue
            diverges = found.diverging_epoch is not None  # the reader ignores the other fields
            wanted.sent_high_watermark = NO_OFFSET if diverges else found.high_watermark
            wanted.sent_log_start_offset = found.log_start_offset
            plain = plain and not diverges
            if wanted.replica is not None:
                if self._replica_id < 0:
                    wanted.replica.topic_metrics.bytes_out += found.size_bytes
                else:
                    self._broker.replicas.sent_to_follower(wanted.replica, found.size_bytes)
            if found.caught_up:
                session.mark_caught_up(wanted)
            elif found.slices:
                session.rotate(wanted)
        session.full = False
        return (
            self._plain(cast("list[tuple[FetchPartition, ReadResult]]", results)) if plain else self._message(results)
        )

    def _plain(self, results: list[tuple[FetchPartition, ReadResult]]) -> list[Part]:
        """Return the response encoded directly to bytes: no partition has an error or diverges."""
        by_id = self._session.uses_topic_ids
        topics: dict[bytes, list[fetch_fast_path.Found]] = {}
        for wanted, (
            slices,
            size_bytes,
            _,
            high_watermark,
            last_stable_offset,
            log_start_offset,
            _,
            aborted,
        ) in results:
            topic = wanted.topic_id if by_id else encode_topic_name(wanted.topic or "")
            found = (wanted.index, high_watermark, last_stable_offset, log_start_offset, slices, size_bytes, aborted)
            if topic in topics:
                topics[topic].append(found)
            else:
                topics[topic] = [found]
        committed = self._isolation is Isolation.READ_COMMITTED
        return encode_plain_response(self._context.correlation_id, self._session.session_id, topics, committed)

    def _message(self, results: list[_Result]) -> FetchResponse:
        session = self._session
        topics: dict[str | bytes, _Topic] = {}
        response = FetchResponse(session_id=session.session_id, responses=[])
        with_leaders = self._replica_id < 0 and self._context.api_version >= _CURRENT_LEADER_FROM_VERSION
        for wanted, found in results:
            key = wanted.topic_id if session.uses_topic_ids else wanted.topic or ""
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = _Topic(topic=wanted.topic or "", topic_id=wanted.topic_id, partitions=[])
            answer = self._error_row(wanted, found) if isinstance(found, KafkaError) else self._fetched(wanted, found)
            topic.partitions.append(answer)
            if with_leaders and answer.error_code in _WITH_CURRENT_LEADER:
                self._add_current_leader(response, wanted, answer)
        response.responses = list(topics.values())
        return response

    def _fetched(self, wanted: FetchPartition, result: ReadResult) -> _Fetched:
        answer = _Fetched(
            partition_index=wanted.index,
            error_code=ErrorCode.NONE,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.log_start_offset,
            aborted_transactions=_aborted(result) if self._isolation is Isolation.READ_COMMITTED else None,
            records=list[RecordsPart](result.slices) if result.slices else b"",
        )
        if result.diverging_epoch is not None:
            epoch, end_offset = result.diverging_epoch
            answer.diverging_epoch = _Fetched.DivergingEpoch(epoch=epoch, end_offset=end_offset)
        return answer

    def _add_current_leader(self, response: FetchResponse, wanted: FetchPartition, answer: _Fetched) -> None:
        """Add the current leader and its address."""
        hint = current_leader(self._broker.image, wanted.topic or "", wanted.index, self._context.listener)
        answer.current_leader = _Fetched.CurrentLeader(leader_id=hint.leader, leader_epoch=hint.leader_epoch)
        if hint.host is not None and all(node.node_id != hint.leader for node in response.node_endpoints):
            response.node_endpoints.append(
                FetchResponse.NodeEndpoint(node_id=hint.leader, host=hint.host, port=hint.port, rack=hint.rack)
            )


def error_row(index: int, code: ErrorCode) -> _Fetched:
    """Return the result of a partition that cannot be read."""
    return _Fetched(
        partition_index=index, error_code=code, high_watermark=NO_OFFSET, aborted_transactions=None, records=b""
    )


def replica_of(context: RequestContext, request: FetchRequest) -> int:
    """Return the id of the broker that fetches; negative for a client."""
    versioned = context.api_version >= _REPLICA_STATE_FROM_VERSION
    replica_id: int = request.replica_state.replica_id if versioned else request.replica_id
    return replica_id


def _aborted(result: ReadResult) -> list[_Aborted]:
    return [_Aborted(producer_id=one.producer_id, first_offset=one.first_offset) for one in result.aborted]


def _has_news(wanted: FetchPartition, result: ReadResult) -> bool:
    """Return whether `result` has anything that the reader does not have yet."""
    return bool(
        result.slices
        or result.high_watermark != wanted.sent_high_watermark
        or result.log_start_offset != wanted.sent_log_start_offset
        or result.diverging_epoch is not None
    )
