"""AlterConfigs and IncrementalAlterConfigs on topics and brokers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from controller.commands.alter_configs import alter_configs, incremental_alter_configs
from controller.image import ResourceType
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.typed import present
from tests.unit.controller.cluster import Cluster

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create("t")
    return cluster


def change(
    cluster: Cluster,
    resource_type: int,
    name: str,
    *operations: tuple[str, int, str | None],
    validate_only: bool = False,
) -> tuple[int, str | None]:
    """Apply (name, operation, value) triples to one resource; return (error code, message)."""
    Resource = IncrementalAlterConfigsRequest.Resource  # noqa: N806
    configs = [Resource.Config(name=key, config_operation=kind, value=value) for key, kind, value in operations]
    resource = Resource(resource_type=resource_type, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    command = partial(incremental_alter_configs, request=request, settings=cluster.settings)
    [answer] = cluster.apply(command).responses
    assert (answer.resource_type, answer.resource_name) == (resource_type, name)
    return answer.error_code, answer.error_message


def replace(
    cluster: Cluster, resource_type: int, name: str, *pairs: tuple[str, str], validate_only: bool = False
) -> tuple[int, str | None]:
    Resource = AlterConfigsRequest.Resource  # noqa: N806
    configs = [Resource.Config(name=key, value=value) for key, value in pairs]
    resource = Resource(resource_type=resource_type, resource_name=name, configs=configs)
    request = AlterConfigsRequest(resources=[resource], validate_only=validate_only)
    [answer] = cluster.apply(partial(alter_configs, request=request, settings=cluster.settings)).responses
    return answer.error_code, answer.error_message


def topic_configs(cluster: Cluster) -> dict[str, str]:
    return dict(cluster.image.configs(TOPIC, "t"))


def test_single_configs_are_set_and_deleted(cluster: Cluster) -> None:
    assert change(cluster, TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "6")) == (0, None)
    assert change(cluster, TOPIC, "t", ("retention.ms", DELETE, None)) == (0, None)
    assert topic_configs(cluster) == {"segment.ms": "6"}


def test_unchanged_value_writes_no_record(cluster: Cluster) -> None:
    change(cluster, TOPIC, "t", ("retention.ms", SET, "5"))
    change(cluster, TOPIC, "t", ("retention.ms", SET, "5"))
    assert cluster.records == ()


def test_append_extends_the_default_value(cluster: Cluster) -> None:
    change(cluster, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
    assert topic_configs(cluster) == {"cleanup.policy": "delete,compact"}
    change(cluster, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
    assert topic_configs(cluster) == {"cleanup.policy": "delete,compact"}


def test_subtract_may_leave_an_empty_list(cluster: Cluster) -> None:
    change(cluster, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"))
    assert topic_configs(cluster) == {"cleanup.policy": ""}


def test_alter_configs_replaces_all_configs(cluster: Cluster) -> None:
    replace(cluster, TOPIC, "t", ("retention.ms", "5"), ("segment.ms", "6"))
    assert replace(cluster, TOPIC, "t", ("segment.ms", "7")) == (0, None)
    assert topic_configs(cluster) == {"segment.ms": "7"}
    replace(cluster, TOPIC, "t")
    assert topic_configs(cluster) == {}


def test_validation_alone_writes_nothing(cluster: Cluster) -> None:
    assert change(cluster, TOPIC, "t", ("retention.ms", SET, "5"), validate_only=True) == (0, None)
    assert replace(cluster, TOPIC, "t", ("retention.ms", "5"), validate_only=True) == (0, None)
    assert topic_configs(cluster) == {}


def test_resource_is_altered_completely_or_not_at_all(cluster: Cluster) -> None:
    error, _ = change(cluster, TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "x"))
    assert error == ErrorCode.INVALID_CONFIG
    assert topic_configs(cluster) == {}


@pytest.mark.parametrize(
    ("operations", "error", "message"),
    [
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG, "Can't APPEND to key retention.ms"),
        ([("retention.ms", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG, "Can't SUBTRACT to key retention.ms"),
        ([("foo", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: foo"),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST, "Null value not supported for : retention.ms"),
        ([("retention.ms", SET, "1")] * 2, ErrorCode.INVALID_REQUEST, "duplicate config keys"),
        ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST, "Unknown operation 9"),
        ([("retention.ms", SET, "-2")], ErrorCode.INVALID_CONFIG, "Value must be at least -1"),
    ],
)
def test_invalid_topic_configs_are_rejected_with_a_reason(
    cluster: Cluster, operations: list[tuple[str, int, str | None]], error: ErrorCode, message: str
) -> None:
    code, text = change(cluster, TOPIC, "t", *operations)
    assert code == error
    assert message in present(text)


@pytest.mark.parametrize(
    ("resource_type", "name", "error"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ErrorCode.INVALID_REQUEST),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", ErrorCode.BROKER_ID_NOT_REGISTERED),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_that_do_not_exist_cannot_be_altered(
    cluster: Cluster, resource_type: int, name: str, error: ErrorCode
) -> None:
    assert change(cluster, resource_type, name, ("retention.ms", SET, "1"))[0] == error
    assert replace(cluster, resource_type, name, ("retention.ms", "1"))[0] == error


def test_single_broker_and_cluster_default_configs_are_separate(cluster: Cluster) -> None:
    change(cluster, BROKER, "1", ("log.retention.ms", SET, "5"))
    change(cluster, BROKER, "", ("log.retention.ms", SET, "6"))
    assert cluster.image.configs(BROKER, "1") == {"log.retention.ms": "5"}
    assert cluster.image.configs(BROKER, "") == {"log.retention.ms": "6"}


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("1", "node.id", "5", "Cannot update these configs dynamically: [node.id]"),
        ("1", "log.retention.ms", "x", "Not a number of type LONG"),
        ("", "log.segment.bytes", "5", "Value must be at least 1048576"),
        ("", "sasl.enabled.mechanisms", "PLAIN", "broker id must be specified: [sasl.enabled.mechanisms]"),
        ("", "listener.name.x.ssl.protocol", "TLS", "must be specified: [listener.name.x.ssl.protocol]"),
        ("1", "ssl.keystore.type", "PKCS12", "only per-listener using the listener prefix: [ssl.keystore.type]"),
        ("1", "listener.name.x.max.connections", "y", "Invalid value y for configuration max.connections:"),
        ("1", "num.io.threads", "17", "not be greater than double the current value 8"),
        ("1", "num.io.threads", "3", "at least half the current value 8"),
        ("", "group.consumer.assignment.interval.ms", "20000", "group.consumer.max.assignment.interval.ms"),
    ],
)
def test_invalid_broker_configs_are_rejected_with_a_reason(
    cluster: Cluster, name: str, key: str, value: str, message: str
) -> None:
    code, text = change(cluster, BROKER, name, (key, SET, value))
    assert code == ErrorCode.INVALID_REQUEST
    assert message in present(text)


def test_unknown_broker_configs_are_stored(cluster: Cluster) -> None:
    assert change(cluster, BROKER, "1", ("some.plugin.setting", SET, "5")) == (0, None)
    assert cluster.image.configs(BROKER, "1") == {"some.plugin.setting": "5"}


@pytest.mark.parametrize(
    ("command", "Request", "how"),
    [
        (alter_configs, AlterConfigsRequest, {}),
        (incremental_alter_configs, IncrementalAlterConfigsRequest, {"config_operation": SET}),
    ],
)
def test_duplicate_resources_in_a_request_are_rejected(
    cluster: Cluster,
    command: Callable[..., object],
    Request: type[AlterConfigsRequest] | type[IncrementalAlterConfigsRequest],  # noqa: N803
    how: dict[str, int],
) -> None:
    cluster.create("u")
    names = ["t", "u", "t"]
    resources = [
        Request.Resource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[Request.Resource.Config(name="retention.ms", value=str(number), **how)],  # type: ignore[list-item]  # only this comes here
        )
        for number, name in enumerate(names)
    ]
    request = Request(resources=resources, validate_only=False)  # type: ignore[arg-type]  # only this comes here
    answers = cluster.apply(partial(command, request=request, settings=cluster.settings)).responses  # type: ignore[arg-type]  # narrower than what may come: only this comes here
    refused = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    assert [answer.resource_name for answer in answers] == names
    assert [(answer.error_code, answer.error_message) for answer in answers] == [refused, (0, None), refused]
    assert topic_configs(cluster) == {}
    assert dict(cluster.image.configs(TOPIC, "u")) == {"retention.ms": "1"}
