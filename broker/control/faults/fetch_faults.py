"""Errors in responses to Fetch, whose sessions name a partition once and not in every request (KIP-227).

A request to which a rule applies does not wait for records: as in a broker, an error is sent at once. The partitions
that the rule does not name are answered as usual, and the session's state follows, so the client notices no more than
the error.
"""

from __future__ import annotations

from collections.abc import Collection

from broker.control.faults.request_content import TopicName
from broker.control.faults.rule import RequestedPartition
from broker.replication.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, FetchSession
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.primitives import ZERO_UUID

_NO_OFFSET = -1

_FetchTopic = FetchResponse.Topic
_FetchedPartition = FetchResponse.Topic.Partition


def requested_partitions(
    request: FetchRequest, session: FetchSession | None, topic_name: TopicName
) -> tuple[RequestedPartition, ...]:
    """Return the partitions that a request fetches; `session` is that of its session id."""
    named = [
        (_name(topic.topic, topic.topic_id, topic_name), one.partition)
        for topic in request.topics
        for one in topic.partitions
    ]
    if session is None or request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        return tuple(named)
    forgotten = {
        (_name(topic.topic, topic.topic_id, topic_name), index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    }
    known = (
        (_name(cached.topic or "", cached.topic_id, topic_name), cached.index) for cached in session.partitions.values()
    )
    return tuple(one for one in dict.fromkeys((*named, *known)) if one not in forgotten)


def add_errors(
    response: FetchResponse,
    code: ErrorCode,
    partitions: Collection[RequestedPartition],
    topic_ids: dict[str, bytes],
    topic_name: TopicName,
) -> None:
    """Set the error of `partitions` in a response, without records; `topic_ids` is empty if it has names of topics."""
    for topic in response.responses:
        name = _name(topic.topic, topic.topic_id, topic_name)
        topic.partitions = [one for one in topic.partitions if (name, one.partition_index) not in partitions]
    topics = {_name(topic.topic, topic.topic_id, topic_name): topic for topic in response.responses}
    for name, index in partitions:
        if index is None:
            continue
        if name not in topics:
            topics[name] = _FetchTopic(
                topic="" if topic_ids else name, topic_id=topic_ids.get(name, ZERO_UUID), partitions=[]
            )
        topics[name].partitions.append(_failed(index, code))
    response.responses = [topic for topic in topics.values() if topic.partitions]


def resend(session: FetchSession, partitions: Collection[RequestedPartition], topic_name: TopicName) -> None:
    """Let the next response of the session have what the failed partitions would have had."""
    for cached in session.partitions.values():
        if (_name(cached.topic or "", cached.topic_id, topic_name), cached.index) in partitions:
            cached.sent_high_watermark = cached.sent_log_start_offset = _NO_OFFSET
            session.pending[cached] = None


def _failed(index: int, code: ErrorCode) -> _FetchedPartition:
    return _FetchedPartition(
        partition_index=index, error_code=code, high_watermark=_NO_OFFSET, aborted_transactions=None, records=b""
    )


def _name(name: str, topic_id: bytes, topic_name: TopicName) -> str:
    return name or ("" if topic_id == ZERO_UUID else topic_name(topic_id) or "")
