"""Alter configs in a cluster: which resources the receiving broker handles itself, and which the controller."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.unit.broker.whole_cluster import WholeCluster

TOPIC, BROKER, LOGGER = 2, 4, 8
SET = 0
LOGGER_NAME = "broker.test_of_own_resources"


@pytest.fixture
def three() -> Iterator[WholeCluster]:
    cluster = WholeCluster()
    cluster.start()
    yield cluster
    cluster.close()


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger(LOGGER_NAME)
    yield found
    found.setLevel(logging.NOTSET)


def resource(kind: int, name: int | str, setting: str, value: str) -> IncrementalAlterConfigsRequest.Resource:
    config = IncrementalAlterConfigsRequest.Resource.Config(name=setting, config_operation=SET, value=value)
    return IncrementalAlterConfigsRequest.Resource(resource_type=kind, resource_name=str(name), configs=[config])


def alter(
    three: WholeCluster, node: int, *resources: IncrementalAlterConfigsRequest.Resource, validate_only: bool = False
) -> list[ErrorCode]:
    """Return the error codes in the order of the resources."""
    answer = three.query(
        node, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=list(resources), validate_only=validate_only
    )
    requested = [(one.resource_type, one.resource_name) for one in resources]
    assert [(one.resource_type, one.resource_name) for one in answer.responses] == requested
    return [ErrorCode(one.error_code) for one in answer.responses]


def test_broker_applies_its_own_config(three: WholeCluster) -> None:
    three.follower()
    for node in (1, 2, 3):
        assert alter(three, node, resource(BROKER, node, "max.connections", str(100 + node))) == [ErrorCode.NONE]
    three.until(lambda: [three.broker(node).dynamic_config["max.connections"] for node in (1, 2, 3)] == [101, 102, 103])


def test_all_brokers_apply_cluster_default_config(three: WholeCluster) -> None:
    assert alter(three, three.follower(), resource(BROKER, "", "max.connections", "77")) == [ErrorCode.NONE]
    three.until(lambda: [three.broker(node).dynamic_config["max.connections"] for node in (1, 2, 3)] == [77] * 3)


def test_broker_refuses_to_alter_config_of_other_broker(three: WholeCluster) -> None:
    follower, active = three.follower(), three.active
    for requested, other in ((follower, active), (active, follower)):
        assert alter(three, requested, resource(BROKER, other, "max.connections", "7")) == [ErrorCode.INVALID_REQUEST]


def test_legacy_alter_configs_is_handled_alike(three: WholeCluster) -> None:
    config = AlterConfigsRequest.Resource.Config(name="max.connections", value="9")
    follower = three.follower()
    requested = [
        AlterConfigsRequest.Resource(resource_type=BROKER, resource_name=str(name), configs=[config])
        for name in (follower, three.active)
    ]
    answer = three.query(follower, ApiKey.ALTER_CONFIGS, 2, resources=requested, validate_only=False)
    assert [one.error_code for one in answer.responses] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    three.until(lambda: three.broker(follower).dynamic_config["max.connections"] == 9)


def test_logger_levels_are_set_on_receiving_broker_only_and_not_stored(
    three: WholeCluster, logger: logging.Logger
) -> None:
    follower = three.follower()
    assert alter(three, follower, resource(LOGGER, follower, LOGGER_NAME, "DEBUG")) == [ErrorCode.NONE]
    assert logger.level == logging.DEBUG
    assert three.raft(three.active).image.configs(LOGGER, str(follower)) == {}
    assert alter(three, follower, resource(LOGGER, three.active, LOGGER_NAME, "INFO")) == [ErrorCode.INVALID_REQUEST]
    assert logger.level == logging.DEBUG


def test_mixed_request_is_answered_in_order_of_resources(three: WholeCluster, logger: logging.Logger) -> None:
    follower = three.follower()
    codes = alter(
        three,
        follower,
        resource(BROKER, "", "max.connections", "66"),
        resource(LOGGER, follower, LOGGER_NAME, "INFO"),
        resource(BROKER, three.active, "max.connections", "5"),
        resource(TOPIC, "nope", "retention.ms", "5"),
    )
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert logger.level == logging.INFO
    three.until(lambda: three.broker(follower).dynamic_config["max.connections"] == 66)


def test_validate_only_alters_no_config(three: WholeCluster, logger: logging.Logger) -> None:
    follower = three.follower()
    resources = (
        resource(LOGGER, follower, LOGGER_NAME, "INFO"),
        resource(BROKER, follower, "max.connections", "5"),
    )
    assert alter(three, follower, *resources, validate_only=True) == [ErrorCode.NONE] * 2
    assert logger.level == logging.NOTSET
    assert three.raft(three.active).image.configs(BROKER, str(follower)) == {}


def test_duplicate_resource_is_refused_in_each_entry(three: WholeCluster, logger: logging.Logger) -> None:
    follower = three.follower()
    twice = resource(LOGGER, follower, LOGGER_NAME, "INFO")
    assert alter(three, follower, twice, twice) == [ErrorCode.INVALID_REQUEST] * 2
    assert logger.level == logging.NOTSET


def test_broker_describes_only_its_own_config(three: WholeCluster) -> None:
    follower = three.follower()
    requested = [
        DescribeConfigsRequest.Resource(resource_type=BROKER, resource_name=str(name), configuration_keys=["node.id"])
        for name in (follower, three.active)
    ]
    answer = three.query(
        follower,
        ApiKey.DESCRIBE_CONFIGS,
        4,
        resources=requested,
        include_synonyms=False,
        include_documentation=False,
    )
    own, other = answer.results
    assert [(config.name, config.value) for config in own.configs] == [("node.id", str(follower))]
    assert other.error_code == ErrorCode.INVALID_REQUEST
    assert "Unexpected broker id" in other.error_message
