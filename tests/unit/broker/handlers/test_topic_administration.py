"""Topics created, grown and deleted through their requests, in every version."""

from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.primitives import ZERO_UUID
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.topics import create
from tests.unit.controller.cluster import new_topic


@pytest.mark.parametrize("version", range(2, 8))
def test_topics_are_created(controlled: ControllerNode, version: int) -> None:
    topics = [new_topic("t", 3, configs={"retention.ms": "5"}), new_topic("a b")]
    response = controlled.ask(ApiKey.CREATE_TOPICS, version, topics=topics, timeout_ms=5000, validate_only=False)
    created, refused = response.topics
    assert (created.name, created.error_code) == ("t", ErrorCode.NONE)
    assert (refused.name, refused.error_code) == ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert "ASCII" in refused.error_message
    topic = controlled.image.topic("t")
    assert len(topic.partitions) == 3
    if version >= 5:
        assert (created.num_partitions, created.replication_factor) == (3, 1)
        assert {config.name: config.value for config in created.configs}["retention.ms"] == "5"
    if version >= 7:
        assert created.topic_id == topic.topic_id


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted(controlled: ControllerNode, version: int) -> None:
    topic_id = create(controlled, "t")
    if version < 6:
        asked = {"topic_names": ["t", "nope"]}
    else:
        pairs = [(None, topic_id), ("nope", ZERO_UUID)]
        asked = {"topics": [DeleteTopicsRequest.Topic(name=name, topic_id=value) for name, value in pairs]}
    response = controlled.ask(ApiKey.DELETE_TOPICS, version, timeout_ms=5000, **asked)
    assert {topic.name: topic.error_code for topic in response.responses} == {
        "t": ErrorCode.NONE,
        "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert controlled.image.topic("t") is None


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added(controlled: ControllerNode, version: int) -> None:
    create(controlled, "t")
    topics = [
        CreatePartitionsRequest.Topic(name=name, count=count, assignments=None)
        for name, count in (("t", 4), ("nope", 2))
    ]
    response = controlled.ask(ApiKey.CREATE_PARTITIONS, version, topics=topics, timeout_ms=5000, validate_only=False)
    assert {result.name: result.error_code for result in response.results} == {
        "t": ErrorCode.NONE,
        "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert len(controlled.image.topic("t").partitions) == 4
