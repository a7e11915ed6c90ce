"""DescribeConfigs, sent by a client."""

from __future__ import annotations

from typing import Any

import pytest

from broker.runtime.loggers import LEVEL_NAMES
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import DescribeConfigsRequest
from tests.unit.broker.alterations import SET, alter
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.topics import create

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture
def controlled(controlled: ControllerNode) -> ControllerNode:
    create(controlled, "t")
    return controlled


def describe(
    node: ControllerNode, resource_type: int, name: str, keys: list[str] | None = None, version: int = 4, **more: Any
) -> Any:
    resource = DescribeConfigsRequest.Resource(resource_type=resource_type, resource_name=name, configuration_keys=keys)
    [result] = node.query(ApiKey.DESCRIBE_CONFIGS, version, resources=[resource], **more).results
    assert (result.resource_type, result.resource_name) == (resource_type, name)
    return result


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topic_is_described(controlled: ControllerNode, version: int) -> None:
    [config] = describe(controlled, TOPIC, "t", ["segment.bytes"], version=version, include_synonyms=True).configs
    assert (config.name, config.value, config.config_source) == ("segment.bytes", "1073741824", 5)
    assert [place.name for place in config.synonyms] == ["log.segment.bytes"]
    if version >= 3:
        assert (config.config_type, config.documentation) == (3, None)


def test_documentation_and_synonyms_are_returned_if_requested(controlled: ControllerNode) -> None:
    [config] = describe(controlled, TOPIC, "t", ["segment.bytes"], include_documentation=True).configs
    assert config.documentation.startswith("The size at which")
    assert config.synonyms == []


@pytest.mark.parametrize("keys", [None, []])
def test_empty_key_list_describes_all_configs(controlled: ControllerNode, keys: list[str] | None) -> None:
    assert len(describe(controlled, TOPIC, "t", keys).configs) > 30
    assert len(describe(controlled, BROKER, "1", keys).configs) > 300


def test_default_broker_resource_lists_only_cluster_wide_configs(controlled: ControllerNode) -> None:
    [config] = describe(controlled, BROKER, "").configs
    assert (config.name, config.value, config.config_source) == ("min.insync.replicas", "1", 3)


@pytest.mark.parametrize(
    ("resource_type", "name", "error"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_unknown_resource_is_not_described(
    controlled: ControllerNode, resource_type: int, name: str, error: ErrorCode
) -> None:
    result = describe(controlled, resource_type, name)
    assert (result.error_code, result.configs) == (error, [])


def test_group_and_client_metrics_resources_need_not_exist(controlled: ControllerNode) -> None:
    alter(controlled, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    for name, value, source in (("g", "50000", 8), ("h", "45000", 5)):
        [config] = describe(controlled, GROUP, name, ["consumer.session.timeout.ms"]).configs
        assert (config.value, config.config_source) == (value, source)
    [config] = describe(controlled, METRICS, "m", ["interval.ms"]).configs
    assert (config.value, config.config_source) == ("300000", 5)


def test_loggers_are_described_with_their_levels(controlled: ControllerNode) -> None:
    [config] = describe(controlled, LOGGER, "1", ["root"], include_documentation=True).configs
    assert config.value in LEVEL_NAMES
    assert (config.config_source, config.read_only, config.synonyms, config.documentation) == (6, False, [], "")


@pytest.mark.parametrize("kind", [LOGGER, METRICS, GROUP])
def test_empty_resource_name_is_refused(controlled: ControllerNode, kind: int) -> None:
    result = describe(controlled, kind, "")
    assert (result.error_code, result.configs) == (ErrorCode.INVALID_REQUEST, [])
    assert "must not be empty" in result.error_message
