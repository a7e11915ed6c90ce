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

from functools import partial

from broker.broker_server import BrokerServer
from broker.network.connection import RequestContext
from broker.replication.partition import Partition
from broker.replication.replica_state import NO_OFFSET
from broker.runtime.deferred import Deferred
from controller.topic_names import INTERNAL_TOPICS
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse

_Deleted = DeleteRecordsResponse.Topic.Partition


def handle(
    broker: BrokerServer, _context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Deferred[DeleteRecordsResponse]:
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
    deletions = [(partition, target) for _, partition, target in behind]
    return broker.replicas.await_deletion(deletions, request.timeout_ms).then(partial(_complete, response, behind))


def _complete(
    response: DeleteRecordsResponse,
    behind: list[tuple[_Deleted, Partition, int]],
    outcomes: list[ErrorCode] | BaseException,
) -> DeleteRecordsResponse:
    """Return `response` with the outcomes of the partitions that were behind."""
    if isinstance(outcomes, BaseException):
        raise outcomes
    for (answer, partition, _), code in zip(behind, outcomes, strict=True):
        answer.error_code = code
        if code is not ErrorCode.REQUEST_TIMED_OUT:
            answer.low_watermark = partition.low_watermark if code is ErrorCode.NONE else NO_OFFSET
    return response


def _refuse(response: DeleteRecordsResponse, code: ErrorCode) -> DeleteRecordsResponse:
    """Replace every success by `code`: without the checkpoint, a crash could bring the deleted records back."""
    for topic in response.topics:
        for answer in topic.partitions:
            answer.error_code = answer.error_code or code
            answer.low_watermark = NO_OFFSET
    return response
