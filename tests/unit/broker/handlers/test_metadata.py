"""Metadata, sent by a client in each version."""

from __future__ import annotations

from typing import Any

import pytest

from controller.image import Endpoint
from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.primitives import ZERO_UUID
from protocol.schema import CachedStruct
from tests.typed import present
from tests.unit.broker.conftest import NewController
from tests.unit.broker.controller_node import CLUSTER_ID, ControllerNode
from tests.unit.broker.topics import create

NOT_REQUESTED = -(1 << 31)


def named(*names: str | None, topic_id: bytes = ZERO_UUID) -> list[MetadataRequest.Topic]:
    return [MetadataRequest.Topic(name=name, topic_id=topic_id) for name in names]


def query(node: ControllerNode, version: int, topics: Any, **more: Any) -> Any:
    if version >= 4:
        more.setdefault("allow_auto_topic_creation", False)
    return node.query(ApiKey.METADATA, version, topics=topics, **more)


def view_of(node: ControllerNode) -> Any:
    memo = node.image.lasting_memo.items()
    [view] = [one for key, one in memo if isinstance(key, tuple) and key[0] == "metadata"]
    return view


def names(response: Any) -> list[str]:
    return sorted(topic.name for topic in response.topics)


@pytest.mark.parametrize("version", range(14))
def test_every_version_has_brokers_and_partitions(controlled: ControllerNode, version: int) -> None:
    topic_id = create(controlled, "t", 2)
    response = query(controlled, version, named("t"))
    [broker] = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "host1", 9092)
    [topic] = response.topics
    assert (topic.error_code, topic.name) == (ErrorCode.NONE, "t")
    assert [
        (one.error_code, one.partition_index, one.leader_id, one.replica_nodes, one.isr_nodes)
        for one in topic.partitions
    ] == [(ErrorCode.NONE, 0, 1, [1], [1]), (ErrorCode.NONE, 1, 1, [1], [1])]
    if version >= 1:
        assert response.controller_id == 1
    if version >= 2:
        assert response.cluster_id == CLUSTER_ID
    if version >= 7:
        assert topic.partitions[0].leader_epoch == 0
    if version >= 10:
        assert topic.topic_id == topic_id


@pytest.mark.parametrize("version", range(14))
def test_all_topics_or_no_topics_can_be_requested(controlled: ControllerNode, version: int) -> None:
    create(controlled, "a")
    create(controlled, "b")
    if version == 0:
        assert names(query(controlled, 0, [])) == ["a", "b"]
    else:
        assert names(query(controlled, version, None)) == ["a", "b"]
        assert names(query(controlled, version, [])) == []


def test_response_is_cached_until_the_image_changes(controlled: ControllerNode) -> None:
    create(controlled, "a")
    first = query(controlled, 12, None)
    assert query(controlled, 12, None) == first
    create(controlled, "b")
    assert names(query(controlled, 12, None)) == ["a", "b"]


def test_topic_entry_is_cached_until_the_topic_or_brokers_change(controlled: ControllerNode) -> None:
    def reported(name: str) -> Any:
        query(controlled, 12, named(name))
        return view_of(controlled)._known[present(controlled.image.topic(name)).topic_id][1]

    create(controlled, "a")
    before = reported("a")
    assert isinstance(before, CachedStruct)  # its encoded bytes are cached too
    create(controlled, "b")
    assert reported("a") is before
    wanted = CreatePartitionsRequest.Topic(name="a", count=2, assignments=None)
    controlled.query(ApiKey.CREATE_PARTITIONS, 3, topics=[wanted], timeout_ms=1000, validate_only=False)
    assert [one.partition_index for one in reported("a").partitions] == [0, 1]
    before = reported("b")
    controlled.register(listeners={"OTHER": Endpoint("host2", 9093)})
    assert reported("b") is not before
    assert reported("b").partitions[0].error_code == ErrorCode.LISTENER_NOT_FOUND


def test_cache_drops_deleted_topics(controlled: ControllerNode) -> None:
    for number in range(5):
        create(controlled, f"t{number}")
        query(controlled, 12, None)
        gone = [DeleteTopicsRequest.Topic(name=f"t{number}", topic_id=ZERO_UUID)]
        controlled.query(ApiKey.DELETE_TOPICS, 6, topics=gone, timeout_ms=1000)
    create(controlled, "last")
    query(controlled, 12, None)
    assert len(view_of(controlled)._known) <= 3


def test_topics_are_requested_by_id(controlled: ControllerNode) -> None:
    topic_id = create(controlled, "t")
    response = query(controlled, 12, named(None, topic_id=topic_id) + named(None, topic_id=b"unknown-topic-id"))
    assert [(topic.error_code, topic.name, topic.topic_id) for topic in response.topics] == [
        (ErrorCode.NONE, "t", topic_id),
        (ErrorCode.UNKNOWN_TOPIC_ID, None, b"unknown-topic-id"),
    ]


@pytest.mark.parametrize("topics", [named(None), named("t", topic_id=b"i" * 16)])
def test_topics_are_requested_by_name_only_before_version_12(controlled: ControllerNode, topics: Any) -> None:
    with pytest.raises(KafkaError) as invalid:
        query(controlled, 10, topics)
    assert invalid.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [0, 3, 4, 13])
def test_an_unknown_topic_is_created_and_can_be_used_at_once(controlled: ControllerNode, version: int) -> None:
    more = {"allow_auto_topic_creation": True} if version >= 4 else {}
    [topic] = query(controlled, version, named("new"), **more).topics
    assert topic.error_code == ErrorCode.NONE
    assert [(one.error_code, one.leader_id) for one in topic.partitions] == [(ErrorCode.NONE, 1)]
    assert controlled.image.topic("new") is not None


@pytest.mark.parametrize("version", range(4, 14))
def test_the_client_can_forbid_creation(controlled: ControllerNode, version: int) -> None:
    [topic] = query(controlled, version, named("new")).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert controlled.image.topic("new") is None


def test_the_broker_can_forbid_creation(new_controller: NewController) -> None:
    controlled = new_controller(auto_create_topics_enable="false")
    [topic] = query(controlled, 13, named("new"), allow_auto_topic_creation=True).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("is_there", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__cluster_metadata", ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_topics_are_rejected_with_a_reason(controlled: ControllerNode, name: str, error: ErrorCode) -> None:
    create(controlled, "is.there")
    [topic] = query(controlled, 13, named(name), allow_auto_topic_creation=True).topics
    assert (topic.error_code, topic.name, topic.partitions) == (error, name, [])


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_request_for_an_internal_topic_creates_it_with_its_configs(controlled: ControllerNode, name: str) -> None:
    [topic] = query(controlled, 13, named(name), allow_auto_topic_creation=True).topics
    assert (topic.is_internal, len(topic.partitions)) == (True, 50)
    assert controlled.image.configs(2, name)["cleanup.policy"] == "compact"


@pytest.mark.parametrize(("version", "cluster"), [(8, 8096), (10, 8096), (11, NOT_REQUESTED), (13, NOT_REQUESTED)])
def test_authorized_operations_of_cluster_and_topics_are_returned_if_requested(
    controlled: ControllerNode, version: int, cluster: int
) -> None:
    create(controlled, "t")
    requested: dict[str, Any] = {"include_topic_authorized_operations": True}
    if version <= 10:
        requested["include_cluster_authorized_operations"] = True
    response = query(controlled, version, named("t"), **requested)
    assert response.cluster_authorized_operations == cluster
    assert response.topics[0].topic_authorized_operations == 3576
    silent = query(controlled, version, named("t"))
    assert silent.cluster_authorized_operations == NOT_REQUESTED
    assert silent.topics[0].topic_authorized_operations == NOT_REQUESTED


@pytest.fixture
def elsewhere(controlled: ControllerNode) -> ControllerNode:
    """Return a node of a cluster where broker 2, the leader of `t`, has no endpoint on the clients' listener."""
    controlled.register(2, {"INTERNAL": Endpoint("inside", 1)})
    create(controlled, "t", assignments={0: [2, 1]})
    return controlled


@pytest.mark.parametrize("version", [0, 5, 6, 13])
def test_leader_without_an_endpoint_on_the_listener_is_reported_as_missing(
    elsewhere: ControllerNode, version: int
) -> None:
    response = query(elsewhere, version, named("t"))
    assert [broker.node_id for broker in response.brokers] == [1]
    [partition] = response.topics[0].partitions
    expected = ErrorCode.LEADER_NOT_AVAILABLE if version < 6 else ErrorCode.LISTENER_NOT_FOUND
    assert (partition.error_code, partition.leader_id) == (expected, -1)
    assert partition.replica_nodes == ([1] if version == 0 else [2, 1])
    if version >= 5:
        assert partition.offline_replicas == [2]


def test_brokers_and_leaders_depend_on_the_request_listener(elsewhere: ControllerNode) -> None:
    response = elsewhere.query(ApiKey.METADATA, 13, listener="INTERNAL", topics=named("t"))
    assert [(broker.node_id, broker.host) for broker in response.brokers] == [(2, "inside")]
    assert response.topics[0].partitions[0].leader_id == 2


def test_version_0_reports_missing_replicas(controlled: ControllerNode) -> None:
    controlled.register(2, {"INTERNAL": Endpoint("inside", 1)})
    create(controlled, "t", assignments={0: [1, 2]})
    [partition] = query(controlled, 0, named("t")).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.REPLICA_NOT_AVAILABLE, 1)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1], [1])
