"""CreatePartitions, as a client sees it."""

from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.topics import create


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
