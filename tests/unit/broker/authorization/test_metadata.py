"""Metadata and DescribeTopicPartitions show a client the topics that it may describe, and nothing of others."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.primitives import ZERO_UUID
from tests.authorization.matrix import ADMIN
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.guarded_node import SETTINGS, GuardedNode

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
VERSIONS = (0, 1, 3, 8, 12, 13)


def metadata(guarded: GuardedNode, version: int = 12, **fields: Any) -> Any:
    return guarded.ask(ApiKey.METADATA, version, **{"allow_auto_topic_creation": True} | fields)


def names(response: Any) -> list[tuple[str | None, int]]:
    return sorted((topic.name or "", topic.error_code) for topic in response.topics)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_for_all_topics_returns_those_that_the_client_may_describe(
    guarded: GuardedNode, version: int
) -> None:
    for name in ("a1", "a2", "b"):
        guarded.node.create(name)
    everything: Any = [] if version == 0 else None
    assert names(metadata(guarded, version, topics=everything)) == []
    guarded.add("allow User:alice READ TOPIC:a*", "deny User:alice DESCRIBE TOPIC:a2")
    assert names(metadata(guarded, version, topics=everything)) == [("a1", 0)]
    assert len(metadata(guarded, version, topics=everything, principal=ADMIN).topics) == 3
    assert guarded.authorizer.refusals == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_the_client_may_not_describe_looks_like_one_that_does_not_exist(
    guarded: GuardedNode, version: int
) -> None:
    guarded.node.create("there")
    [there] = metadata(guarded, version, topics=[{"name": "there"}]).topics
    [missing] = metadata(guarded, version, topics=[{"name": "missing"}]).topics
    assert there.error_code == REFUSED
    assert (there.topic_id, there.partitions, there.is_internal) == (ZERO_UUID, [], False)
    there.name = missing.name
    assert there == missing


def test_an_empty_list_of_version_0_is_never_made_of_a_refused_one(guarded: GuardedNode) -> None:
    guarded.node.create("there")
    guarded.node.create("other")
    guarded.add("allow User:alice DESCRIBE TOPIC:other")
    assert names(metadata(guarded, 0, topics=[{"name": "there"}])) == [("there", REFUSED)]


def test_a_topic_requested_by_id_is_refused_without_its_name(guarded: GuardedNode) -> None:
    topic_id = guarded.node.create("there")
    unknown = b"?" * 16
    wanted = [{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": unknown}]
    found = {topic.topic_id: topic for topic in metadata(guarded, topics=wanted).topics}
    assert (found[topic_id].error_code, found[topic_id].name, found[topic_id].partitions) == (REFUSED, None, [])
    assert (found[unknown].error_code, found[unknown].name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
    guarded.add("allow User:alice DESCRIBE TOPIC:there")
    [topic] = metadata(guarded, topics=wanted[:1]).topics
    assert (topic.error_code, topic.name) == (ErrorCode.NONE, "there")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("allow User:alice CREATE TOPIC:new*", ErrorCode.NONE),
        ("allow User:alice CREATE CLUSTER:kafka-cluster", ErrorCode.NONE),
        ("allow User:alice CREATE TOPIC:old", REFUSED),
        ("allow User:alice WRITE TOPIC:new", REFUSED),
    ],
)
def test_a_topic_is_created_on_demand_only_with_the_permission_to_create_it(
    new_node: NewNode, line: str, code: ErrorCode
) -> None:
    node = new_node(None, **SETTINGS | {"auto_create_topics_enable": "true"})
    node.start()
    guarded = GuardedNode(node)
    guarded.add("allow User:alice DESCRIBE TOPIC:*", line)
    [topic] = metadata(guarded, topics=[{"name": "new"}]).topics
    assert (topic.error_code, node.image.topic("new") is not None) == (code, code is ErrorCode.NONE)
    [other] = metadata(guarded, topics=[{"name": "new2"}], allow_auto_topic_creation=False).topics
    assert other.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_operations_are_those_of_the_client_and_not_of_another(guarded: GuardedNode) -> None:
    guarded.node.create("t")
    guarded.add("allow User:alice READ TOPIC:t", "allow User:bob ALL TOPIC:t", "deny User:bob ALTER TOPIC:t")
    wanted = {"topics": [{"name": "t"}], "include_topic_authorized_operations": True}

    def operations(principal: str) -> int:
        [topic] = metadata(guarded, 10, principal=principal, **wanted).topics
        return int(topic.topic_authorized_operations)

    read, describe, alter = 1 << 3, 1 << 8, 1 << 7
    assert operations("User:alice") == read | describe
    assert operations("User:bob") == operations(ADMIN) & ~alter
    assert operations("User:alice") == read | describe
    [topic] = metadata(guarded, 10, topics=[{"name": "t"}]).topics
    assert topic.topic_authorized_operations == -(1 << 31)


def test_cluster_operations_are_none_without_the_permission_to_describe_it(guarded: GuardedNode) -> None:
    def operations() -> int:
        return int(
            metadata(guarded, 10, topics=[], include_cluster_authorized_operations=True).cluster_authorized_operations
        )

    guarded.add("allow User:alice CREATE CLUSTER:kafka-cluster")
    assert operations() == 0
    guarded.add("allow User:alice ALTER CLUSTER:kafka-cluster")
    assert operations() == 1 << 5 | 1 << 7 | 1 << 8


def describe(guarded: GuardedNode, *topics: str, cursor: str = "", limit: int = 100) -> Any:
    return guarded.ask(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        topics=[{"name": name} for name in topics],
        response_partition_limit=limit,
        cursor={"topic_name": cursor, "partition_index": 0} if cursor else None,
    )


def test_pages_have_the_topics_that_the_client_may_describe(guarded: GuardedNode) -> None:
    for name in ("a", "b", "c", "d"):
        guarded.node.create(name)
    assert names(describe(guarded)) == []
    guarded.add(
        "allow User:alice DESCRIBE TOPIC:a", "allow User:alice DESCRIBE TOPIC:c", "allow User:alice READ TOPIC:d"
    )
    first = describe(guarded, limit=2)
    assert names(first) == [("a", 0), ("c", 0)]
    assert first.next_cursor.topic_name == "d"
    assert names(describe(guarded, cursor="d")) == [("d", 0)]
    assert names(describe(guarded, "a", "b", "missing")) == [("a", 0), ("b", REFUSED), ("missing", REFUSED)]
    assert names(describe(guarded, "b")) == [("b", REFUSED)]
    refused, described = sorted(describe(guarded, "b", "d").topics, key=lambda topic: topic.error_code == 0)
    assert refused.topic_id == ZERO_UUID
    assert described.topic_authorized_operations == 1 << 3 | 1 << 8
