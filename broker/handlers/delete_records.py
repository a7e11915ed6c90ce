"""DeleteRecords: advance the log start offset of partitions (KIP-107).

Behaviour
- Records below the requested offset, or below the high watermark for -1, are unreadable at once and for good; segments
  wholly below it are deleted later. The new log start is checkpointed before the response: it survives a crash.
- OFFSET_OUT_OF_RANGE beyond the high watermark. POLICY_VIOLATION for a topic that is only compacted.
  INVALID_TOPIC_EXCEPTION for an internal topic. An offset below the log start changes nothing.
- The response waits until every replica's log start is at the offset, or for the request's timeout
  (REQUEST_TIMED_OUT). It has the low watermark: the smallest log start of all replicas.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, ClassVar

from broker.replication.partition import Partition
from broker.replication.replica_state import NO_OFFSET
from broker.runtime.purgatory import DelayedOperation
from controller.topic_names import INTERNAL_TOPICS
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable

    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext

_Deleted = DeleteRecordsResponse.Topic.Partition


def handle(
    broker: BrokerServer, _context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    """Delete on this broker; wait only for followers that are behind."""
    behind: list[tuple[_Deleted, Partition, int]] = []

    def delete(topic: str, wanted: DeleteRecordsRequest.Topic.Partition) -> _Deleted:
        answer = _Deleted(partition_index=wanted.partition_index, low_watermark=NO_OFFSET)
        try:
            if topic in INTERNAL_TOPICS:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {topic} is internal")
            partition = broker.replicas.partition(topic, wanted.partition_index)
            target = broker.replicas.delete_records(partition, wanted.offset)
        except KafkaError as error:
            answer.error_code = error.code
            return answer
        answer.low_watermark = partition.low_watermark
        if answer.low_watermark < target:
            behind.append((answer, partition, target))
        return answer

    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse.Topic(
                name=topic.name, partitions=[delete(topic.name, wanted) for wanted in topic.partitions]
            )
            for topic in request.topics
        ]
    )
    try:
        broker.replicas.save_log_starts()
    except KafkaError as error:
        return _refuse(response, error.code)
    if not behind:
        return response
    answered: asyncio.Future[DeleteRecordsResponse] = broker.loop.create_future()
    waiting = DelayedDeleteRecords(broker, response, behind, answered)
    broker.purgatory.expire_at(waiting, broker.loop.time() + request.timeout_ms / 1000)
    return answered


def _refuse(response: DeleteRecordsResponse, code: ErrorCode) -> DeleteRecordsResponse:
    """Replace every success by `code`: without the checkpoint, a crash could bring the deleted records back."""
    for topic in response.topics:
        for answer in topic.partitions:
            answer.error_code = answer.error_code or code
            answer.low_watermark = NO_OFFSET
    return response


class DelayedDeleteRecords(DelayedOperation):
    """A request that waits for followers (Kafka: `DelayedDeleteRecords`)."""

    kind: ClassVar[str] = "DeleteRecords"
    __slots__ = ("_behind", "_broker", "_response", "answered")

    def __init__(
        self,
        broker: BrokerServer,
        response: DeleteRecordsResponse,
        behind: list[tuple[_Deleted, Partition, int]],
        answered: asyncio.Future[DeleteRecordsResponse],
    ) -> None:
        self._broker = broker
        self._response = response
        self._behind = behind
        self.answered = answered
        for answer, partition, _ in behind:
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
            broker.purgatory.watch(partition, self)

    def woken(self, key: Hashable, size_bytes: int) -> None:
        """Do nothing: `act` checks each partition that is behind."""

    def act(self) -> None:
        """Respond if every follower has caught up or no longer can."""
        self._behind = [waiting for waiting in self._behind if not self._complete(*waiting)]
        if not self._behind:
            self.expire()

    def expire(self) -> None:
        """Respond now; partitions that are still behind have REQUEST_TIMED_OUT."""
        self.cancel()
        for _, partition, _ in self._behind:
            self._broker.purgatory.unwatch(partition, self)
        if not self.answered.done():
            self.answered.set_result(self._response)

    def _complete(self, answer: _Deleted, partition: Partition, target: int) -> bool:
        code = partition.unavailable or (ErrorCode.NONE if partition.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        low = partition.low_watermark if code is ErrorCode.NONE else NO_OFFSET
        if code is ErrorCode.NONE and low < target:
            return False
        answer.error_code, answer.low_watermark = code, low
        self._broker.purgatory.unwatch(partition, self)
        return True
