"""ListConfigResources, sent by a client."""

from __future__ import annotations

import pytest

from controller.image import ResourceType
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.alterations import alter
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.topics import create

TOPIC, BROKER, LOGGER, METRICS, GROUP = sorted(ResourceType)


def listed(node: ControllerNode, version: int = 1, *kinds: int) -> list[tuple[int, str]]:
    answer = node.query(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=list(kinds))
    assert answer.error_code == 0
    return [(resource.resource_type, resource.resource_name) for resource in answer.config_resources]


@pytest.fixture
def controlled(controlled: ControllerNode) -> ControllerNode:
    create(controlled, "t")
    alter(controlled, METRICS, "m", ("interval.ms", 0, "1000"))
    alter(controlled, GROUP, "g", ("consumer.session.timeout.ms", 0, "50000"))
    return controlled


def test_all_resources_with_configs_are_listed(controlled: ControllerNode) -> None:
    everything = [(TOPIC, "t"), (BROKER, "1"), (LOGGER, "1"), (METRICS, "m"), (GROUP, "g")]
    assert listed(controlled) == everything
    for kind, name in everything:
        assert listed(controlled, 1, kind) == [(kind, name)]
    assert listed(controlled, 1, GROUP, TOPIC) == [(TOPIC, "t"), (GROUP, "g")]


def test_version_0_lists_only_client_metrics(controlled: ControllerNode) -> None:
    assert listed(controlled, 0) == [(METRICS, "m")]


def test_resource_without_configs_is_not_listed(controlled: ControllerNode) -> None:
    alter(controlled, METRICS, "m", ("interval.ms", 1, None))
    assert listed(controlled, 0) == []


def test_unknown_resource_type_is_refused(controlled: ControllerNode) -> None:
    answer = controlled.query(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[TOPIC, 99])
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
