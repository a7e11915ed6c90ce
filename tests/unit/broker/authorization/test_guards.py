"""Guards made from requirements: what is refused as a whole, what one by one, and as whom forwarded requests act."""

from __future__ import annotations

from typing import Any

import pytest

from broker.network.connection import RequestContext
from broker.routes import FORWARDED, ROUTES
from protocol.api import APIS, ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.headers import RequestHeader, decode_response_header, encode_request_header
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.primitives import ZERO_UUID
from protocol.records.principal import ForwardedPrincipal, encode_principal
from tests.authorization.matrix import ADMIN
from tests.authorization.requests import REQUESTS, SECOND_OTHER_TOPIC, UNKNOWN_ID, Target
from tests.unit.broker.guarded_node import GuardedNode

TOPIC_REFUSED, GROUP_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
ENVELOPE_KEY, DELETE_TOPICS_VERSION = ApiKey.ENVELOPE, 6


def delete_records(guarded: GuardedNode, *names: str) -> list[tuple[str, int, int]]:
    topics = [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]} for name in names]
    response = guarded.ask(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout_ms=1000)
    return [(topic.name, row.error_code, row.low_watermark) for topic in response.topics for row in topic.partitions]


def test_refused_resources_come_after_the_others_with_their_error(guarded: GuardedNode) -> None:
    for name in ("a", "b", "c"):
        guarded.node.create(name)
    guarded.add("allow User:alice DELETE TOPIC:b")
    assert delete_records(guarded, "a", "b", "c") == [("b", 0, 0), ("a", TOPIC_REFUSED, 0), ("c", TOPIC_REFUSED, 0)]
    assert delete_records(guarded, "c") == [("c", TOPIC_REFUSED, 0)]
    assert guarded.authorizer.refusals == 3


def test_a_request_without_resources_is_passed_on(guarded: GuardedNode) -> None:
    assert delete_records(guarded) == []


def offset_commit(guarded: GuardedNode, *names: str) -> list[int]:
    topics = [{"name": name, "partitions": [{"partition_index": 0, "committed_offset": 5}]} for name in names]
    response = guarded.ask(ApiKey.OFFSET_COMMIT, 8, group_id="g", topics=topics)
    return [row.error_code for topic in response.topics for row in topic.partitions]


def test_requirements_are_checked_in_their_order(guarded: GuardedNode) -> None:
    assert offset_commit(guarded, "t") == [GROUP_REFUSED]
    guarded.add("allow User:alice READ GROUP:g")
    assert offset_commit(guarded, "t") == [TOPIC_REFUSED]


def test_an_operation_on_the_cluster_can_be_enough(guarded: GuardedNode) -> None:
    guarded.node.create("t")

    def end_offsets() -> int:
        partitions = [{"partition": 0, "leader_epoch": 0}]
        [topic] = guarded.ask(
            ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, topics=[{"topic": "t", "partitions": partitions}]
        ).topics
        return int(topic.partitions[0].error_code)

    assert end_offsets() == TOPIC_REFUSED
    assert guarded.authorizer.refusals == 1
    guarded.add("allow User:alice CLUSTER_ACTION CLUSTER:kafka-cluster")
    assert end_offsets() == 0


def test_super_users_are_not_looked_up(guarded: GuardedNode) -> None:
    guarded.add("deny User:* ALL TOPIC:*", "deny User:* ALL CLUSTER:kafka-cluster")
    assert guarded.ask(ApiKey.METADATA, 12, principal=ADMIN, topics=[]).brokers
    assert not guarded.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, principal=ADMIN, topics=None).error_code
    assert guarded.authorizer.requests == 0


def test_requests_that_need_decisions_are_counted_whether_they_are_refused_or_not(guarded: GuardedNode) -> None:
    guarded.ask(ApiKey.API_VERSIONS, 3, client_software_name="a", client_software_version="1")
    assert guarded.authorizer.requests == 0
    for count in (1, 2):
        assert guarded.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None).error_code == CLUSTER_REFUSED
        assert guarded.authorizer.requests == count
    guarded.ask(ApiKey.METADATA, 12, topics=[])
    assert guarded.authorizer.requests == 3


def test_a_controllers_listener_is_guarded_like_a_brokers(guarded: GuardedNode) -> None:
    for listener_type in ("broker", "controller"):
        refused = guarded.ask(ApiKey.UNREGISTER_BROKER, 0, listener_type=listener_type, broker_id=99)
        assert refused.error_code == CLUSTER_REFUSED
    guarded.add("allow User:alice ALTER CLUSTER:kafka-cluster")
    for listener_type in ("broker", "controller"):
        allowed = guarded.ask(ApiKey.UNREGISTER_BROKER, 0, listener_type=listener_type, broker_id=99)
        assert allowed.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize(
    "key",
    [
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.ENVELOPE,
    ],
)
def test_what_nodes_send_to_controllers_needs_cluster_action(guarded: GuardedNode, key: ApiKey) -> None:
    """Whatever else the client may do: with all operations but this one, it is refused."""
    guarded.add("allow User:alice ALL CLUSTER:kafka-cluster", "deny User:alice CLUSTER_ACTION CLUSTER:kafka-cluster")
    before = guarded.node.image
    for version in APIS[key].versions:
        response = guarded.ask(key, version, listener_type="controller")
        rows = [response, *getattr(response, "responses", ()), *getattr(response, "topics", ())]
        codes = [row.error_code for row in rows if hasattr(row, "error_code")]
        codes += [row.error_code for topic in rows for row in getattr(topic, "partitions", ())]
        assert CLUSTER_REFUSED in codes or (key is ApiKey.FETCH and version < 7 and not response.responses)
    assert guarded.node.image is before


def envelope(guarded: GuardedNode, sender: str, principal: str | None, *topics: str) -> tuple[int, list[int]]:
    """Send DeleteTopics of `principal` in an envelope of `sender`; return the error codes of both."""
    header = RequestHeader(ApiKey.DELETE_TOPICS, DELETE_TOPICS_VERSION, 99, "their app")
    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.Topic(name=name, topic_id=ZERO_UUID) for name in topics], timeout_ms=1000
    )
    response = guarded.ask(
        ENVELOPE_KEY,
        0,
        principal=sender,
        listener_type="controller",
        request_data=encode_request_header(header) + request.encode(DELETE_TOPICS_VERSION),
        request_principal=None if principal is None else encode_principal(ForwardedPrincipal(principal)),
        client_host_address=bytes([10, 0, 0, 7]),
    )
    if response.error_code:
        return response.error_code, []
    _, at = decode_response_header(ApiKey.DELETE_TOPICS, DELETE_TOPICS_VERSION, response.response_data)
    deleted = DeleteTopicsResponse.decode(response.response_data, DELETE_TOPICS_VERSION, at)
    return 0, [topic.error_code for topic in deleted.responses]


def test_a_request_in_an_envelope_is_authorized_as_its_principal_and_host(guarded: GuardedNode) -> None:
    for name in ("t1", "t2"):
        guarded.node.create(name)
    assert envelope(guarded, ADMIN, "User:alice", "t1") == (0, [TOPIC_REFUSED])
    guarded.add("allow User:alice DELETE TOPIC:t1 from 10.0.0.7", "allow User:alice DELETE TOPIC:t2 from 10.0.0.8")
    assert envelope(guarded, ADMIN, "User:alice", "t1", "t2") == (0, [0, TOPIC_REFUSED])
    assert envelope(guarded, ADMIN, ADMIN, "t2") == (0, [0])


def test_an_envelope_without_a_principal_is_of_an_anonymous_client(guarded: GuardedNode) -> None:
    guarded.node.create("t")
    assert envelope(guarded, ADMIN, None, "t") == (0, [TOPIC_REFUSED])
    guarded.add("allow User:ANONYMOUS DELETE TOPIC:t")
    assert envelope(guarded, ADMIN, None, "t") == (0, [0])


def test_a_client_cannot_act_as_another_by_an_envelope(guarded: GuardedNode) -> None:
    guarded.node.create("t")
    guarded.add("allow User:alice ALL TOPIC:*", "allow User:alice ALTER CLUSTER:kafka-cluster")
    assert envelope(guarded, "User:alice", ADMIN, "t") == (CLUSTER_REFUSED, [])
    guarded.add("allow User:alice CLUSTER_ACTION CLUSTER:kafka-cluster")
    assert envelope(guarded, "User:alice", ADMIN, "t") == (0, [0])


def acls(guarded: GuardedNode, key: ApiKey, **fields: Any) -> Any:
    return guarded.ask(key, 3, **fields)


def test_entries_that_a_client_creates_take_effect(guarded: GuardedNode) -> None:
    new = {
        "resource_type": 2,
        "resource_name": "t",
        "principal": "User:bob",
        "host": "*",
        "operation": 6,
        "permission_type": 3,
    }
    every = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
    }
    every |= {"host_filter": None, "operation": 1, "permission_type": 1}
    guarded.node.create("t")
    refused = acls(guarded, ApiKey.CREATE_ACLS, creations=[new])
    assert [result.error_code for result in refused.results] == [CLUSTER_REFUSED]
    assert acls(guarded, ApiKey.DESCRIBE_ACLS, **every).error_code == CLUSTER_REFUSED
    guarded.add("allow User:alice ALTER CLUSTER:kafka-cluster")
    created = acls(guarded, ApiKey.CREATE_ACLS, creations=[new])
    assert [result.error_code for result in created.results] == [0]
    assert guarded.ask(
        ApiKey.DELETE_RECORDS,
        2,
        principal="User:bob",
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "offset": 0}]}],
        timeout_ms=1000,
    ).topics[0].partitions[0].error_code == 0  # fmt: skip
    described = acls(guarded, ApiKey.DESCRIBE_ACLS, **every)
    assert {(one.resource_name, len(one.acls)) for one in described.resources} == {("t", 1), ("kafka-cluster", 1)}
    [deleted] = acls(guarded, ApiKey.DELETE_ACLS, filters=[every | {"principal_filter": "User:bob"}]).filter_results
    assert [one.principal for one in deleted.matching_acls] == ["User:bob"]
    assert len(guarded.node.image.acls) == 1


@pytest.mark.parametrize("key", sorted(FORWARDED))
def test_a_forwarded_request_is_authorized_by_the_controller_only(
    guarded: GuardedNode, monkeypatch: pytest.MonkeyPatch, key: ApiKey
) -> None:
    """The broker that forwards it refuses only tokens for another owner itself."""
    forwarded: list[int] = []

    async def forward(context: RequestContext, *_: object) -> None:
        forwarded.append(context.api_key)
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    version = APIS[key].max_version
    target = Target({SECOND_OTHER_TOPIC: UNKNOWN_ID}, "broker", may_delete=False)
    of_a_token = {
        "hmac": b"h",
        "renew_period_ms" if key is ApiKey.RENEW_DELEGATION_TOKEN else "expiry_time_period_ms": 1,
    }
    fields = REQUESTS[key](version, target) if key in REQUESTS else of_a_token
    with monkeypatch.context() as patched:
        patched.setattr(guarded.node.broker.controller_channel, "forward", forward)
        guarded.ask(key, version, **fields)
    is_refused = key is ApiKey.CREATE_DELEGATION_TOKEN
    assert forwarded == ([] if is_refused else [key])
    assert guarded.authorizer.refusals == is_refused
    if ROUTES[key].requires:
        before = guarded.authorizer.refusals
        guarded.ask(key, version, listener_type="controller", **fields)
        assert guarded.authorizer.refusals > before
