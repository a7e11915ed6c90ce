"""CreateTopics, sent by a client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from tests.disks import FaultyDisk
from tests.typed import present
from tests.unit.broker.conftest import NewController
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


def test_timeout_0_returns_request_timed_out(controlled: ControllerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = controlled.node.loop

    def sync_for_a_second(_executor: object, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        done = loop.create_future()
        loop.call_later(1.0, lambda: done.set_result(function(*args)))
        return done

    monkeypatch.setattr(loop, "run_in_executor", sync_for_a_second)
    with pytest.raises(KafkaError) as late:
        controlled.query(ApiKey.CREATE_TOPICS, 7, topics=[new_topic("t")], timeout_ms=0)
    assert late.value.code is ErrorCode.REQUEST_TIMED_OUT


def test_full_disk_refuses_topics_before_they_reach_the_controller(new_controller: NewController) -> None:
    disk = FaultyDisk()
    node = new_controller(disk)
    disk.full = True
    response = node.query(ApiKey.CREATE_TOPICS, 7, topics=[new_topic("t")], timeout_ms=5000, validate_only=False)
    assert response.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "No space left in" in response.topics[0].error_message
    assert node.image.topic("t") is None
    disk.full = False
