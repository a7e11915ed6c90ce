"""IncrementalAlterConfigs, as a client sees it."""

from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.topics import create

TOPIC = 2


@pytest.fixture
def controlled(controlled: ControllerNode) -> ControllerNode:
    create(controlled, "t")
    return controlled


@pytest.mark.parametrize("version", range(2))
def test_single_settings_are_altered(controlled: ControllerNode, version: int) -> None:
    Resource = IncrementalAlterConfigsRequest.Resource  # noqa: N806
    config = Resource.Config(name="cleanup.policy", config_operation=2, value="compact")
    resource = Resource(resource_type=TOPIC, resource_name="t", configs=[config])
    response = controlled.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[resource], validate_only=False)
    assert [answer.error_code for answer in response.responses] == [ErrorCode.NONE]
    assert controlled.image.configs(TOPIC, "t") == {"cleanup.policy": "delete,compact"}
