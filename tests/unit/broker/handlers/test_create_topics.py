"""CreateTopics, sent by a client."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from tests.disks import FaultyDisk
from tests.typed import present
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.controller.cluster import new_topic


@pytest.mark.parametrize("version", range(2, 8))
def test_topics_are_created(controlled: ControllerNode, version: int) -> None:
    topics = [new_topic("t", 3, configs={"retention.ms": "5"}), new_topic("a b")]
    response = controlled.query(ApiKey.CREATE_TOPICS, version, topics=topics, timeout_ms=5000, validate_only=False)
    created, refused = response.topics
    assert (created.name, created.error_code) == ("t", ErrorCode.NONE)
    assert (refused.name, refused.error_code) == ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert "ASCII" in refused.error_message
    topic = controlled.image.topic("t")
    assert len(present(topic).partitions) == 3
    if version >= 5:
        assert (created.num_partitions, created.replication_factor) == (3, 1)
        assert {config.name: config.value for config in created.configs}["retention.ms"] == "5"
    if version >= 7:
        assert created.topic_id == present(topic).topic_id


def test_validate_only_creates_no_topic(controlled: ControllerNode) -> None:
    response = controlled.query(ApiKey.CREATE_TOPICS, 7, topics=[new_topic("t")], timeout_ms=5000, validate_only=True)
    assert response.topics[0].error_code == ErrorCode.NONE
    assert controlled.image.topic("t") is None


def test_timeout_0_returns_request_timed_out(controlled: ControllerNode) -> None:
    with pytest.raises(KafkaError) as late:
        controlled.query(ApiKey.CREATE_TOPICS, 7, topics=[new_topic("t")], timeout_ms=0)
    assert late.value.code is ErrorCode.REQUEST_TIMED_OUT


def test_full_disk_refuses_topics_before_they_reach_the_controller(tmp_path: Path) -> None:
    disk = FaultyDisk()
    node = ControllerNode(str(tmp_path), disk)
    node.start()
    disk.full = True
    response = node.query(ApiKey.CREATE_TOPICS, 7, topics=[new_topic("t")], timeout_ms=5000, validate_only=False)
    assert response.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "No space left in" in response.topics[0].error_message
    assert node.image.topic("t") is None
    disk.full = False
    node.close()
