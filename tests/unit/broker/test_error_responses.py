from __future__ import annotations

from typing import Any

import pytest

from broker.error_responses import error_response
from broker.routes import served_apis
from protocol.api import APIS, ApiKey, request_class, response_class
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.produce import ProduceRequest
from protocol.schema import Message

CODE = ErrorCode.UNKNOWN_SERVER_ERROR
TOPIC_ID = bytes(range(16))


def failed(key: ApiKey, version: int, request: Message, code: ErrorCode, message: str = "") -> Any:
    """Return an error response of the type that `key` has."""
    return error_response(key, version, request, code, message)


def test_top_level_error_code_is_set() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert failed(ApiKey.HEARTBEAT, 4, request, CODE).error_code == CODE


def test_a_produce_fails_partition_by_partition() -> None:
    topic = ProduceRequest.Topic(
        topic_id=TOPIC_ID,
        partition_data=[
            ProduceRequest.Topic.Partition(index=3, records=None),
            ProduceRequest.Topic.Partition(index=5, records=None),
        ],
    )
    request = ProduceRequest(acks=-1, timeout_ms=1, topic_data=[topic])
    (answer,) = failed(ApiKey.PRODUCE, 13, request, CODE, "why").responses
    assert answer.topic_id == TOPIC_ID
    assert [(p.index, p.error_code, p.error_message) for p in answer.partition_responses] == [
        (3, CODE, "why"),
        (5, CODE, "why"),
    ]


def test_a_fetch_before_sessions_fails_partition_by_partition() -> None:
    partition = FetchRequest.Topic.Partition(partition=4, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchRequest.Topic(topic="t", partitions=[partition])])
    (answer,) = failed(ApiKey.FETCH, 4, request, CODE).responses
    assert (answer.topic, answer.partitions[0].partition_index, answer.partitions[0].error_code) == ("t", 4, CODE)


def test_a_fetch_without_topic_ids_fails_as_a_whole_and_partition_by_partition() -> None:
    partition = FetchRequest.Topic.Partition(partition=4, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchRequest.Topic(topic="t", partitions=[partition])])
    response = failed(ApiKey.FETCH, 12, request, CODE)
    assert response.error_code == response.responses[0].partitions[0].error_code == CODE
    response = failed(ApiKey.FETCH, 13, request, CODE)
    assert (response.error_code, response.responses) == (CODE, [])


def test_entries_are_found_within_the_entries_of_the_request() -> None:
    topic = AlterReplicaLogDirsRequest.Dir.Topic(name="t", partitions=[3])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDirsRequest.Dir(path="/d", topics=[topic])])
    (answer,) = failed(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, request, CODE).results
    assert (answer.topic_name, [(one.partition_index, one.error_code) for one in answer.partitions]) == (
        "t",
        [(3, CODE)],
    )


def test_entries_that_the_request_does_not_name_are_omitted() -> None:
    request = DescribeLogDirsRequest(topics=[DescribeLogDirsRequest.Topic(topic="t", partitions=[0])])
    assert failed(ApiKey.DESCRIBE_LOG_DIRS, 2, request, CODE).results == []
    assert failed(ApiKey.DESCRIBE_LOG_DIRS, 3, request, CODE).error_code == CODE


def test_entries_alone_fail() -> None:
    topics = [OffsetDeleteRequest.Topic(name="t", partitions=[OffsetDeleteRequest.Topic.Partition(partition_index=3)])]
    request = OffsetDeleteRequest(group_id="g", topics=topics)
    response: Any = error_response(ApiKey.OFFSET_DELETE, 0, request, CODE, of_each=True)
    assert response.error_code == ErrorCode.NONE
    assert (response.topics[0].name, response.topics[0].partitions[0].error_code) == ("t", CODE)


def test_metadata_fails_topic_by_topic() -> None:
    request = MetadataRequest(topics=[MetadataRequest.Topic(name="a"), MetadataRequest.Topic(name="b")])
    response = failed(ApiKey.METADATA, 9, request, CODE)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", CODE), ("b", CODE)]
    assert response.brokers == []


def test_null_allowed_only_in_request_becomes_default() -> None:
    requested = MetadataRequest(topics=[MetadataRequest.Topic(name=None)])
    answer = failed(ApiKey.METADATA, 11, requested, ErrorCode.INVALID_REQUEST)
    assert [topic.name for topic in MetadataResponse.decode(answer.encode(11), 11).topics] == [""]


def test_metadata_of_all_topics_fails_without_topics() -> None:
    assert failed(ApiKey.METADATA, 9, MetadataRequest(topics=None), CODE).topics == []


def test_string_values_become_entries() -> None:
    request = DeleteGroupsRequest(groups_names=["a", "b"])
    results = failed(ApiKey.DELETE_GROUPS, 2, request, CODE).results
    assert [(result.group_id, result.error_code) for result in results] == [("a", CODE), ("b", CODE)]
    topics = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1)
    assert failed(ApiKey.DELETE_TOPICS, 3, topics, CODE).responses[0].name == "t"


def test_integer_values_become_entries() -> None:
    topic = OffsetFetchRequest.Topic(name="t", partition_indexes=[7])
    request = OffsetFetchRequest(group_id="g", topics=[topic])
    (answer,) = failed(ApiKey.OFFSET_FETCH, 1, request, CODE).topics
    assert (answer.partitions[0].partition_index, answer.partitions[0].error_code) == (7, CODE)


def test_several_groups_fail_one_by_one() -> None:
    groups = [OffsetFetchRequest.Group(group_id=name, topics=None) for name in "ab"]
    response = failed(ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=groups), CODE)
    assert [(group.group_id, group.error_code) for group in response.groups] == [("a", CODE), ("b", CODE)]


def test_users_whose_credentials_are_set_or_removed_fail_one_by_one() -> None:
    """Kafka: `AlterUserScramCredentialsRequest.getErrorResponse`."""
    password: dict[str, Any] = {"mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p"}
    request = AlterUserScramCredentialsRequest(
        deletions=[AlterUserScramCredentialsRequest.Deletion(name=name, mechanism=1) for name in ("zoe", "bob")],
        upsertions=[AlterUserScramCredentialsRequest.Upsertion(name=name, **password) for name in ("bob", "amy")],
    )
    for deletions, users in ((request.deletions, ["amy", "bob", "zoe"]), ([], ["amy", "bob"])):
        request.deletions = deletions
        response = failed(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request, ErrorCode.REQUEST_TIMED_OUT, "late")
        assert [(one.user, one.error_code, one.error_message) for one in response.results] == [
            (user, ErrorCode.REQUEST_TIMED_OUT, "late") for user in users
        ]


def test_resource_type_is_copied() -> None:
    resource = DescribeConfigsRequest.Resource(resource_type=4, resource_name="1", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource])
    (result,) = failed(ApiKey.DESCRIBE_CONFIGS, 4, request, CODE, "why").results
    assert (result.resource_type, result.resource_name, result.error_message) == (4, "1", "why")


def test_an_added_partition_fails_alone_before_version_4() -> None:
    topic = AddPartitionsToTxnRequest.Topic(name="t", partitions=[4, 6])
    request = AddPartitionsToTxnRequest(v3_and_below_topics=[topic])
    (answer,) = failed(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request, CODE).results_by_topic_v3_and_below
    found = [(each.partition_index, each.partition_error_code) for each in answer.results_by_partition]
    assert (answer.name, found) == ("t", [(4, CODE), (6, CODE)])
    assert failed(ApiKey.ADD_PARTITIONS_TO_TXN, 5, request, CODE).error_code == CODE


@pytest.mark.parametrize("key", served_apis("broker"))
def test_every_version_of_every_served_api_has_error_response(key: ApiKey) -> None:
    for version in range(APIS[key].min_version, APIS[key].max_version + 1):
        request = _smallest(request_class(key), version)
        response = failed(key, version, request, CODE, "why")
        assert response_class(key).decode(response.encode(version), version) is not None


def _smallest(cls: type[Message], version: int) -> Message:
    from protocol.fields import fields_of

    request: Any = object.__new__(cls)
    for field in fields_of(cls):
        setattr(request, field.name, [] if field.is_list else field.default)
    result: Message = request
    return result
