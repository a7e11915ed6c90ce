"""Fetch: records from some partitions, waiting for them if there are too few.

Behaviour
- Partitions are read in the order of the request, then of the session (`broker.fetch_sessions`), until
  max_bytes are found; each gives at most its own limit. The first batch of the first partition that has any
  comes whole, however large it is.
- The answer waits until min_bytes can be read, for at most max_wait_ms, and is given at once where a
  partition fails or a log turns out to have parted from the reader's. What is waited for wakes the fetch;
  nothing is polled.
- Consumers read to the high watermark, or to the last stable offset where they ask for committed records
  only, and then are told which transactions were aborted amid what they get; replicas read to the end of the
  log, and what they have is taken for acknowledged, unless their broker has been registered anew since
  (KIP-903): NOT_LEADER_OR_FOLLOWER.
- A replica is told a new high watermark with the next records or when its time is up, as in Kafka since
  KAFKA-9952: at once would double the fetches. That records are to be deleted, it is told at once.
- Records are slices of segment files that nobody looks at on their way to the socket.
- What is found is answered straight in bytes (`protocol.plain_fetch`); with anything else to be told, by a message.
- What an append lets a waiting fetch read is on its way in the turn that tells it (`broker.promise`).

Version notes
- 5 and below do not know KAFKA_STORAGE_ERROR: NOT_LEADER_OR_FOLLOWER instead.
- Below 10 zstd is unknown: UNSUPPORTED_COMPRESSION_TYPE where it is the topic's compression.type.
- 11 and later may read from a follower (KIP-392); no replica is ever preferred yet.
- 12 and later name the epoch of the last record that the reader has, and are told where their log parts from
  this one (KIP-595).
- 13 and later name topics by id: UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID (KIP-516).
- 16 and later say with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH who leads, and where (KIP-951), but to replicas,
  which go by the metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

from broker.metadata.current_leader import current_leader
from broker.replication.fetch_sessions import NO_SESSION, FetchPartition, FetchSession
from broker.replication.partition import Isolation, Partition, ReadResult
from broker.replication.replica_state import NO_EPOCH, NO_OFFSET
from broker.runtime.deferred import Promise
from protocol import fetch_fast_path
from protocol.errors import ErrorCode, KafkaError
from protocol.fetch_fast_path import plain_answer, topic_named
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.primitives import Part, RecordsPart

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import RequestContext

_STORAGE_ERROR_FROM_VERSION = 6
_ZSTD_FROM_VERSION = 10
_FOLLOWERS_FROM_VERSION = 11
_REPLICA_STATE_FROM_VERSION = 15
_HINTS_FROM_VERSION = 16
_HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

_Topic = FetchResponse.Topic
_Fetched = FetchResponse.Topic.Partition
_Aborted = FetchResponse.Topic.Partition.AbortedTransaction

Answer: TypeAlias = "FetchResponse | list[Part]"
_Said: TypeAlias = "tuple[FetchPartition, ReadResult | KafkaError]"


def handle(broker: Broker, context: RequestContext, request: FetchRequest) -> Answer | Promise[Answer]:
    """Answer with what can be read; wait only if that is less than the reader wants."""
    versioned = context.api_version >= _REPLICA_STATE_FROM_VERSION
    replica_id = request.replica_state.replica_id if versioned else request.replica_id
    sessions = broker.replicas.fetch_sessions
    try:
        session = sessions.open(request, context.api_version, replica_id >= 0, broker.now_ms())
    except KafkaError as error:
        return FetchResponse(error_code=error.code, session_id=NO_SESSION, responses=[])
    fetch = _Fetch(broker, context, request, session, replica_id)
    response = fetch.attempt(final=request.max_wait_ms <= 0)
    return response if response is not None else fetch.park(request.max_wait_ms / 1000)


class _Fetch:
    """One request in progress."""

    __slots__ = (
        "_broker",
        "_context",
        "_isolation",
        "_leader_only",
        "_max_bytes",
        "_min_bytes",
        "_missing_bytes",
        "_replica_epoch",
        "_replica_id",
        "_response",
        "_session",
        "_waited",
    )

    _response: Promise[Answer]

    def __init__(
        self,
        broker: Broker,
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
        self._max_bytes = min(request.max_bytes, broker.settings["fetch.max.bytes"])
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._missing_bytes = 0
        self._waited = False

    # Waiting.

    def park(self, wait_s: float) -> Promise[Answer]:
        """Wait for more to read, and return the answer to come."""
        loop = self._broker.loop
        self._response = Promise(loop)
        self._waited = True
        self._response.add_done_callback(self._dropped)
        self._session.park(self)
        self._broker.purgatory.expire_at(self, loop.time() + wait_s)
        return self._response

    @property
    def done(self) -> bool:
        """Say whether the answer was given, or nobody waits for it any more."""
        return self._response.done()

    def more(self, size_bytes: int) -> None:
        """Take note that `size_bytes` more can be read."""
        self._missing_bytes -= size_bytes

    def act(self) -> None:
        """Answer if enough can be read."""
        if self.done:
            self._session.unpark(self)
        elif self._missing_bytes <= 0:
            self._finish(final=False)

    def expire(self) -> None:
        """Answer with what there is."""
        if not self.done:
            self._finish(final=True)

    def supersede(self) -> None:
        """Answer that a later request of the session has come."""
        self._session.unpark(self)
        if not self.done:
            code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
            answer = FetchResponse(error_code=code, session_id=self._session.session_id, responses=[])
            self._response.answer_soon(answer)

    def _dropped(self, response: Promise[Answer]) -> None:
        """Watch nothing any more for a client that has gone: its time may be long, and nothing may ever come."""
        if response.cancelled():
            self._session.unpark(self)

    def _finish(self, *, final: bool) -> None:
        """Answer, if there is enough; soon if `final`, since a request that ended the session may be in progress."""
        outcome: Answer | Exception | None
        try:
            outcome = self.attempt(final=final)
        except Exception as error:
            outcome = error
        if outcome is not None:
            self._session.unpark(self)
            (self._response.answer_soon if final else self._response.answer)(outcome)

    # Reading.

    def attempt(self, *, final: bool) -> Answer | None:
        """Read, and return the answer; None if it is too little and `final` is false."""
        session = self._session
        room, found, urgent = self._max_bytes, 0, final or not session.partitions
        said: list[_Said] = []
        for wanted in session.to_read:
            try:
                result = self._read(wanted, room, min_one=found == 0)
            except KafkaError as error:
                said.append((wanted, error))
                urgent = True
                continue
            found += result.size_bytes
            room = max(0, room - result.size_bytes)
            urgent = urgent or result.diverging_epoch is not None or self._trims(wanted, result)
            if session.full or _says_something(wanted, result):
                said.append((wanted, result))
            elif result.caught_up:
                session.settle(wanted)
        if urgent or found >= self._min_bytes:
            said += map(self._look_at, session.take_put_off())
            return self._answer(said)
        for wanted, read in () if session.full else said:
            if isinstance(read, ReadResult) and read.caught_up:
                session.put_off(wanted)
        self._missing_bytes = self._min_bytes - found
        return None

    def _look_at(self, wanted: FetchPartition) -> _Said:
        """Return what there is to be said of a partition with nothing to read."""
        try:
            return wanted, self._read(wanted, 0, min_one=False)
        except KafkaError as error:
            return wanted, error

    def _trims(self, wanted: FetchPartition, result: ReadResult) -> bool:
        """Return whether a replica has records that the leader has deleted: DeleteRecords waits until it deletes them.

        A replica may also start later than a new leader. It is not answered at once for that: nothing would change.
        """
        return self._replica_id >= 0 and NO_OFFSET != wanted.sent_log_start_offset < result.log_start_offset

    def _read(self, wanted: FetchPartition, room: int, *, min_one: bool) -> ReadResult:
        hosted = self._hosted(wanted)
        if self._replica_id >= 0:
            self._broker.replicas.check_follower(
                hosted, self._replica_id, self._replica_epoch, wanted.current_leader_epoch
            )
        result = hosted.read(
            wanted.fetch_offset,
            max(0, min(wanted.max_bytes, room)),
            self._isolation,
            current_leader_epoch=wanted.current_leader_epoch,
            last_fetched_epoch=wanted.last_fetched_epoch,
            leader_only=self._leader_only,
            min_one=min_one,
        )
        version = self._context.api_version
        if version < _ZSTD_FROM_VERSION and hosted.log.config.compression_type == "zstd":
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 10 of Fetch")
        # What a replica has was said when its request came, in the leader epoch of then.
        if self._replica_id >= 0 and result.diverging_epoch is None and not self._waited:
            self._broker.replicas.acknowledge(
                hosted, self._replica_id, wanted.fetch_offset, wanted.log_start_offset, self._replica_epoch
            )
            if hosted.high_watermark != result.high_watermark:
                log = hosted.log
                result = result._replace(high_watermark=log.high_watermark, last_stable_offset=log.last_stable_offset)
        return result

    def _hosted(self, wanted: FetchPartition) -> Partition:
        """Return the replica that serves `wanted`; KafkaError if none does."""
        hosted = wanted.hosted
        if hosted is not None and not hosted.unavailable:
            return hosted
        replicas = self._broker.replicas
        by_id = self._session.uses_topic_ids
        if wanted.topic is None:
            wanted.topic = replicas.topic_name(wanted.topic_id)
            if wanted.topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        hosted = replicas.partition(wanted.topic, wanted.index)
        if by_id and hosted.topic_id != wanted.topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        self._session.host(wanted, hosted)
        return hosted

    # Answering.

    def _refused(self, wanted: FetchPartition, error: KafkaError) -> _Fetched:
        code = error.code
        if code is ErrorCode.KAFKA_STORAGE_ERROR and self._context.api_version < _STORAGE_ERROR_FROM_VERSION:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return _Fetched(
            partition_index=wanted.index,
            error_code=code,
            high_watermark=NO_OFFSET,
            aborted_transactions=None,
            records=b"",
        )

    def _answer(self, said: list[_Said]) -> Answer:
        """Note in the session what is said, and say it."""
        session = self._session
        plain = self._context.api_version >= fetch_fast_path.FIRST_VERSION
        for wanted, found in said:
            if isinstance(found, KafkaError):
                wanted.sent_high_watermark = NO_OFFSET
                plain = False
                continue
            parted = found.diverging_epoch is not None  # then the reader looks at nothing else
            wanted.sent_high_watermark = NO_OFFSET if parted else found.high_watermark
            wanted.sent_log_start_offset = found.log_start_offset
            plain = plain and not parted and not found.aborted
            if wanted.hosted is not None:
                if self._replica_id < 0:
                    wanted.hosted.traffic.bytes_out += found.size_bytes
                else:
                    wanted.hosted.traffic.replication_bytes_out += found.size_bytes
            if found.caught_up:
                session.settle(wanted)
            elif found.slices:
                session.postpone(wanted)
        session.full = False
        return self._plain(cast("list[tuple[FetchPartition, ReadResult]]", said)) if plain else self._message(said)

    def _plain(self, said: list[tuple[FetchPartition, ReadResult]]) -> list[Part]:
        """Return what was found in bytes; nothing else is to be told."""
        by_id = self._session.uses_topic_ids
        topics: dict[bytes, list[fetch_fast_path.Found]] = {}
        for wanted, (slices, size_bytes, _, high_watermark, last_stable_offset, log_start_offset, _, _) in said:
            topic = wanted.topic_id if by_id else topic_named(wanted.topic or "")
            found = (wanted.index, high_watermark, last_stable_offset, log_start_offset, slices, size_bytes)
            if topic in topics:
                topics[topic].append(found)
            else:
                topics[topic] = [found]
        committed = self._isolation is Isolation.READ_COMMITTED
        return plain_answer(self._context.correlation_id, self._session.session_id, topics, committed)

    def _message(self, said: list[_Said]) -> FetchResponse:
        session = self._session
        topics: dict[str | bytes, _Topic] = {}
        response = FetchResponse(session_id=session.session_id, responses=[])
        hinted = self._replica_id < 0 and self._context.api_version >= _HINTS_FROM_VERSION
        for wanted, found in said:
            key = wanted.topic_id if session.uses_topic_ids else wanted.topic or ""
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = _Topic(topic=wanted.topic or "", topic_id=wanted.topic_id, partitions=[])
            answer = self._refused(wanted, found) if isinstance(found, KafkaError) else self._fetched(wanted, found)
            topic.partitions.append(answer)
            if hinted and answer.error_code in _HINTED:
                self._hint(response, wanted, answer)
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

    def _hint(self, response: FetchResponse, wanted: FetchPartition, answer: _Fetched) -> None:
        """Say who leads the partition instead, and where."""
        hint = current_leader(self._broker.image, wanted.topic or "", wanted.index, self._context.listener)
        answer.current_leader = _Fetched.CurrentLeader(leader_id=hint.leader, leader_epoch=hint.leader_epoch)
        if hint.host is not None and all(node.node_id != hint.leader for node in response.node_endpoints):
            response.node_endpoints.append(
                FetchResponse.NodeEndpoint(node_id=hint.leader, host=hint.host, port=hint.port, rack=hint.rack)
            )


def _aborted(result: ReadResult) -> list[_Aborted]:
    return [_Aborted(producer_id=one.producer_id, first_offset=one.first_offset) for one in result.aborted]


def _says_something(wanted: FetchPartition, result: ReadResult) -> bool:
    """Say whether the reader does not know all of `result` already."""
    return bool(
        result.slices
        or result.high_watermark != wanted.sent_high_watermark
        or result.log_start_offset != wanted.sent_log_start_offset
        or result.diverging_epoch is not None
    )
