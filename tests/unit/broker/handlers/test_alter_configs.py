"""AlterConfigs, sent by a client."""

from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterConfigsRequest
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.topics import create

TOPIC = 2


@pytest.fixture
def controlled(controlled: ControllerNode) -> ControllerNode:
    create(controlled, "t")
    return controlled


@pytest.mark.parametrize("version", range(3))
def test_topic_configs_are_replaced(controlled: ControllerNode, version: int) -> None:
    Resource = AlterConfigsRequest.Resource  # noqa: N806
    config = Resource.Config(name="retention.ms", value="5")
    resources = [Resource(resource_type=TOPIC, resource_name=name, configs=[config]) for name in ("t", "nope")]
    response = controlled.query(ApiKey.ALTER_CONFIGS, version, resources=resources, validate_only=False)
    assert [(answer.resource_name, answer.error_code) for answer in response.responses] == [
        ("t", ErrorCode.NONE),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert controlled.image.configs(TOPIC, "t") == {"retention.ms": "5"}
