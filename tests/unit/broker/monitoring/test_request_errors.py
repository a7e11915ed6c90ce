from __future__ import annotations

from collections import Counter

from broker.monitoring.request_errors import FailedParts, RequestErrors, with_errors
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.metadata import MetadataResponse
from protocol.messages.offset_fetch import OffsetFetchResponse
from protocol.schema import CachedStruct, Message

LATER, UNKNOWN = ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def count(errors: RequestErrors, key: ApiKey, response: Message) -> None:
    parts = with_errors([b"the", b"parts"], response)
    assert parts == [b"the", b"parts"]
    if isinstance(parts, FailedParts):
        errors.count(key, parts.codes)


def test_the_error_of_a_whole_response_counts() -> None:
    errors = RequestErrors()
    count(errors, ApiKey.HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    count(errors, ApiKey.HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
    count(errors, ApiKey.HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.NONE))
    assert errors.codes == {
        (ApiKey.HEARTBEAT, ErrorCode.REBALANCE_IN_PROGRESS): 1,
        (ApiKey.HEARTBEAT, ErrorCode.UNKNOWN_SERVER_ERROR): 1,
    }
    assert errors.failed == Counter({int(ApiKey.HEARTBEAT): 2})


def test_each_error_of_a_response_counts() -> None:
    errors = RequestErrors()
    wrong = OffsetFetchResponse.Group(group_id="a", topics=[], error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    well = OffsetFetchResponse.Group(group_id="b", topics=[])
    count(errors, ApiKey.OFFSET_FETCH, OffsetFetchResponse(groups=[wrong, well, wrong]))
    assert errors.codes == {(ApiKey.OFFSET_FETCH, ErrorCode.GROUP_ID_NOT_FOUND): 2}
    assert errors.failed[ApiKey.OFFSET_FETCH] == 1


def test_cached_error_counts_in_each_response() -> None:
    partitions = [
        MetadataResponse.Topic.Partition(
            partition_index=index, error_code=LATER, leader_id=-1, replica_nodes=[1], isr_nodes=[1]
        )
        for index in range(2)
    ]
    topic = MetadataResponse.Topic(name="t", partitions=partitions)
    assert isinstance(topic, CachedStruct)
    errors = RequestErrors()
    for _ in range(3):
        count(errors, ApiKey.METADATA, MetadataResponse(brokers=[], topics=[topic]))
    missing = MetadataResponse.Topic(name="u", error_code=UNKNOWN, partitions=[])
    count(errors, ApiKey.METADATA, MetadataResponse(brokers=[], topics=[topic, missing]))
    assert errors.codes == {(ApiKey.METADATA, LATER): 8, (ApiKey.METADATA, UNKNOWN): 1}
    assert errors.failed[ApiKey.METADATA] == 4
