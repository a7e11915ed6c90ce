"""Configs are described and altered where the client may do so."""

from __future__ import annotations

from typing import Any

import pytest

from broker.runtime import loggers
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.authorization.matrix import ADMIN
from tests.unit.broker.guarded_node import GuardedNode

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
TOPIC_REFUSED, GROUP_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
EVERYTHING = ((TOPIC, "t1"), (TOPIC, "t2"), (GROUP, "g1"), (GROUP, "g2"), (BROKER, ""), (METRICS, "m"))
LISTENERS = ("broker", "controller")
AUDIT = "broker.audit"


@pytest.fixture(autouse=True)
def _topics(guarded: GuardedNode) -> None:
    for name in ("t1", "t2"):
        guarded.node.create(name)


def describe(guarded: GuardedNode, *resources: tuple[int, str], **more: Any) -> dict[tuple[int, str], tuple[int, bool]]:
    """Return the error of each resource, and whether it has configs."""
    wanted = [{"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in resources]
    results = guarded.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=wanted, **more).results
    return {(one.resource_type, one.resource_name): (one.error_code, bool(one.configs)) for one in results}


def alter(guarded: GuardedNode, key: ApiKey, *resources: tuple[int, str], **more: Any) -> dict[tuple[int, str], int]:
    wanted = [{"resource_type": kind, "resource_name": name, "configs": []} for kind, name in resources]
    responses = guarded.ask(key, 1, resources=wanted, validate_only=False, **more).responses
    return {(one.resource_type, one.resource_name): one.error_code for one in responses}


@pytest.mark.parametrize("listener_type", LISTENERS)
def test_configs_are_described_by_resource(guarded: GuardedNode, listener_type: str) -> None:
    refused = describe(guarded, *EVERYTHING, listener_type=listener_type)
    assert refused == {
        (TOPIC, "t1"): (TOPIC_REFUSED, False),
        (TOPIC, "t2"): (TOPIC_REFUSED, False),
        (GROUP, "g1"): (GROUP_REFUSED, False),
        (GROUP, "g2"): (GROUP_REFUSED, False),
        (BROKER, ""): (CLUSTER_REFUSED, False),
        (METRICS, "m"): (CLUSTER_REFUSED, False),
    }
    guarded.add("allow User:alice DESCRIBE_CONFIGS TOPIC:t1", "allow User:alice ALTER_CONFIGS GROUP:g1")
    some = describe(guarded, *EVERYTHING, listener_type=listener_type)
    assert some == refused | {(TOPIC, "t1"): (0, True), (GROUP, "g1"): (0, True)}
    guarded.add("allow User:alice DESCRIBE_CONFIGS CLUSTER:kafka-cluster")
    assert describe(guarded, (BROKER, "1"), (TOPIC, "t2")) == {
        (BROKER, "1"): (0, True),
        (TOPIC, "t2"): (TOPIC_REFUSED, False),
    }


def test_a_topic_that_does_not_exist_is_refused_like_one_that_does(guarded: GuardedNode) -> None:
    found = describe(guarded, (TOPIC, "t1"), (TOPIC, "missing"))
    assert found[TOPIC, "t1"] == found[TOPIC, "missing"] == (TOPIC_REFUSED, False)


def test_a_resource_of_an_unknown_type_is_invalid_for_everyone(guarded: GuardedNode) -> None:
    assert describe(guarded, (99, "x")) == {(99, "x"): (ErrorCode.INVALID_REQUEST, False)}


@pytest.mark.parametrize("listener_type", LISTENERS)
@pytest.mark.parametrize("key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
def test_configs_are_altered_by_resource(guarded: GuardedNode, key: ApiKey, listener_type: str) -> None:
    guarded.add("allow User:alice ALTER_CONFIGS TOPIC:t1", "allow User:alice ALTER_CONFIGS GROUP:g1")
    assert alter(guarded, key, *EVERYTHING, listener_type=listener_type) == {
        (TOPIC, "t1"): 0,
        (TOPIC, "t2"): TOPIC_REFUSED,
        (GROUP, "g1"): 0,
        (GROUP, "g2"): GROUP_REFUSED,
        (BROKER, ""): CLUSTER_REFUSED,
        (METRICS, "m"): CLUSTER_REFUSED,
    }
    guarded.add("allow User:alice ALTER_CONFIGS CLUSTER:kafka-cluster")
    assert alter(guarded, key, (METRICS, "m"), listener_type=listener_type) == {(METRICS, "m"): 0}


def test_what_is_altered_twice_is_invalid_whatever_the_client_may_do(guarded: GuardedNode) -> None:
    twice = alter(guarded, ApiKey.INCREMENTAL_ALTER_CONFIGS, (TOPIC, "t1"), (TOPIC, "t1"))
    assert twice == {(TOPIC, "t1"): ErrorCode.INVALID_REQUEST}


def set_level(guarded: GuardedNode, *others: tuple[int, str]) -> dict[tuple[int, str], int]:
    level = {"name": AUDIT, "config_operation": 0, "value": "ERROR"}
    wanted: list[dict[str, Any]] = [{"resource_type": LOGGER, "resource_name": "1", "configs": [level]}]
    wanted += [{"resource_type": kind, "resource_name": name, "configs": []} for kind, name in others]
    responses = guarded.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=wanted).responses
    return {(one.resource_type, one.resource_name): one.error_code for one in responses}


def test_levels_of_loggers_need_the_permission_on_the_cluster(guarded: GuardedNode) -> None:
    before = loggers.levels()[AUDIT]
    assert set_level(guarded) == {(LOGGER, "1"): CLUSTER_REFUSED}
    assert loggers.levels()[AUDIT] == before
    guarded.add("allow User:alice ALTER_CONFIGS CLUSTER:kafka-cluster")
    try:
        assert set_level(guarded) == {(LOGGER, "1"): 0}
        assert loggers.levels()[AUDIT] == "ERROR"
    finally:
        loggers.set_level(AUDIT, None)


def test_what_is_altered_besides_a_logger_is_authorized_as_the_clients_too(guarded: GuardedNode) -> None:
    assert set_level(guarded, (TOPIC, "t1"), (GROUP, "g1")) == {
        (LOGGER, "1"): CLUSTER_REFUSED,
        (TOPIC, "t1"): TOPIC_REFUSED,
        (GROUP, "g1"): GROUP_REFUSED,
    }
    guarded.add("allow User:alice ALTER_CONFIGS TOPIC:t1")
    assert set_level(guarded, (TOPIC, "t1"), (GROUP, "g1"))[TOPIC, "t1"] == 0


@pytest.mark.parametrize("key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
def test_security_settings_are_checked_only_for_a_client_that_may_alter_them(guarded: GuardedNode, key: ApiKey) -> None:
    """The check reads the files that the settings name."""
    config = {"name": "listener.name.sasl.plain.sasl.jaas.config", "value": "damaged"}
    wanted = [{"resource_type": BROKER, "resource_name": "1", "configs": [config]}]

    def altered() -> int:
        (result,) = guarded.ask(key, 1, resources=wanted, validate_only=True).responses
        return int(result.error_code)

    assert altered() == CLUSTER_REFUSED
    guarded.add("allow User:alice ALTER_CONFIGS CLUSTER:kafka-cluster")
    assert altered() == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
def test_login_modules_are_checked_on_controller_listeners_too(guarded: GuardedNode, key: ApiKey) -> None:
    """A request to a controller passes by the broker whose settings it alters (KIP-919)."""
    name = "listener.name.sasl.plain.sasl.jaas.config"
    wanted = [{"resource_type": BROKER, "resource_name": "1", "configs": [{"name": name, "value": 'hidden "'}]}]
    response = guarded.ask(key, 1, principal=ADMIN, listener_type="controller", resources=wanted, validate_only=False)
    (result,) = response.responses
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == f"{name}: invalid at character 7; is a quotation mark missing?"
    assert guarded.node.image.configs(BROKER, "1") == {}
