"""DeleteTopics, sent by a client."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.primitives import ZERO_UUID
from tests.unit.broker.conftest import NewController
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.topics import create


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted(controlled: ControllerNode, version: int) -> None:
    topic_id = create(controlled, "t")
    if version < 6:
        requested: dict[str, Any] = {"topic_names": ["t", "nope"]}
    else:
        pairs = [(None, topic_id), ("nope", ZERO_UUID)]
        requested = {"topics": [DeleteTopicsRequest.Topic(name=name, topic_id=value) for name, value in pairs]}
    response = controlled.query(ApiKey.DELETE_TOPICS, version, timeout_ms=5000, **requested)
    assert {topic.name: topic.error_code for topic in response.responses} == {
        "t": ErrorCode.NONE,
        "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert controlled.image.topic("t") is None


def test_deletion_can_be_disabled(new_controller: NewController) -> None:
    controlled = new_controller(delete_topic_enable="false")
    create(controlled, "t")
    response = controlled.query(ApiKey.DELETE_TOPICS, 5, topic_names=["t"], timeout_ms=5000)
    assert response.responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED
    assert controlled.image.topic("t") is not None
