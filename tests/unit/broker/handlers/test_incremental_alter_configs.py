"""IncrementalAlterConfigs, sent by a client."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from controller.image import ResourceType
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.typed import present
from tests.unit.broker.alterations import APPEND, DELETE, SET, alter
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.topics import create

TOPIC, BROKER, LOGGER, METRICS, GROUP = sorted(ResourceType)
NAME = "broker.test_of_levels"


@pytest.fixture
def controlled(controlled: ControllerNode) -> ControllerNode:
    create(controlled, "t")
    return controlled


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger(NAME)
    yield found
    found.setLevel(logging.NOTSET)


@pytest.mark.parametrize("version", range(2))
def test_single_configs_are_altered(controlled: ControllerNode, version: int) -> None:
    assert alter(controlled, TOPIC, "t", ("cleanup.policy", APPEND, "compact"), version=version) == (0, None)
    assert controlled.image.configs(TOPIC, "t") == {"cleanup.policy": "delete,compact"}


def test_group_and_client_metrics_configs_are_altered(controlled: ControllerNode) -> None:
    assert alter(controlled, GROUP, "g", ("share.auto.offset.reset", SET, "earliest")) == (0, None)
    assert alter(controlled, METRICS, "m", ("match", SET, "client_id=a.*")) == (0, None)
    assert controlled.image.configs(GROUP, "g") == {"share.auto.offset.reset": "earliest"}
    assert controlled.image.configs(METRICS, "m") == {"match": "client_id=a.*"}


def test_logger_levels_are_altered_immediately(controlled: ControllerNode, logger: logging.Logger) -> None:
    assert alter(controlled, LOGGER, "1", (NAME, SET, "DEBUG")) == (0, None)
    assert logger.level == logging.DEBUG
    assert alter(controlled, LOGGER, "1", (NAME, SET, "FATAL"), validate_only=True) == (0, None)
    assert logger.level == logging.DEBUG
    assert alter(controlled, LOGGER, "1", (NAME, DELETE, None)) == (0, None)
    assert logger.level == logging.NOTSET
    assert controlled.image.configs(ResourceType.BROKER, "1") == {}


@pytest.mark.parametrize(
    ("broker", "operation", "error", "message"),
    [
        ("1", ("root", DELETE, None), ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger"),
        ("1", (NAME, SET, "info"), ErrorCode.INVALID_CONFIG, "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, "),
        ("1", ("no.such.logger", SET, "INFO"), ErrorCode.INVALID_CONFIG, "Logger no.such.logger does not exist!"),
        ("1", (NAME, APPEND, "INFO"), ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed"),
        ("1", (NAME, 9, "INFO"), ErrorCode.INVALID_REQUEST, "Unknown operation 9"),
        ("1", (NAME, SET, None), ErrorCode.INVALID_REQUEST, "Null value not supported"),
        ("7", (NAME, SET, "INFO"), ErrorCode.INVALID_REQUEST, "Expected 1, but received 7"),
        ("", (NAME, SET, "INFO"), ErrorCode.INVALID_REQUEST, "Node id must be an integer"),
    ],
)
def test_invalid_logger_operation_changes_no_logger(
    controlled: ControllerNode,
    logger: logging.Logger,
    broker: str,
    operation: tuple[str, int, str | None],
    error: ErrorCode,
    message: str,
) -> None:
    other = (NAME, SET, "DEBUG") if operation[0] != NAME else ("asyncio", DELETE, None)
    code, text = alter(controlled, LOGGER, broker, other, operation)
    assert code == error
    assert message in present(text)
    assert logger.level == logging.NOTSET


def test_loggers_and_topics_may_be_in_one_request(controlled: ControllerNode, logger: logging.Logger) -> None:
    Resource = IncrementalAlterConfigsRequest.Resource  # noqa: N806
    resources = [
        Resource(
            resource_type=kind,
            resource_name=of,
            configs=[Resource.Config(name=name, config_operation=SET, value=value)],
        )
        for kind, of, name, value in (
            (LOGGER, "1", NAME, "TRACE"),
            (TOPIC, "t", "retention.ms", "x"),
            (TOPIC, "nope", "retention.ms", "5"),
        )
    ]
    answers = controlled.query(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=False).responses
    assert [answer.error_code for answer in answers] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert logger.level == 5


def test_logger_levels_cannot_be_altered_with_alter_configs(controlled: ControllerNode) -> None:
    Resource = AlterConfigsRequest.Resource  # noqa: N806
    resource = Resource(resource_type=LOGGER, resource_name="1", configs=[Resource.Config(name=NAME, value="INFO")])
    [answer] = controlled.query(ApiKey.ALTER_CONFIGS, 2, resources=[resource], validate_only=False).responses
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, "Unknown resource type 8")


def test_jaas_setting_that_cannot_be_read_is_refused(controlled: ControllerNode) -> None:
    name = "listener.name.clients.plain.sasl.jaas.config"
    module = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="hidden"'
    code, message = alter(controlled, BROKER, "1", (name, SET, module))
    assert code == ErrorCode.INVALID_REQUEST
    assert f"{name}: write it as" in present(message)
    assert "hidden" not in present(message)
    assert controlled.image.configs(BROKER, "1") == {}
