"""Changes of the configs of topics, brokers, groups and client metrics subscriptions (KIP-226, KIP-339).

AlterConfigs replaces all configs of a resource: those not in the request are removed. IncrementalAlterConfigs sets,
removes, appends to or subtracts from single ones. Each resource is changed completely or not at all; one that a request
names twice is refused each time. `election_configs` adds the partition changes that follow. Kafka:
`ConfigurationControlManager`, `ControllerConfigurationValidator`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from controller.commands.controller_result import ControllerResult
from controller.commands.election_configs import check_min_isr, follow_up_records
from controller.commands.topic_configs import check_topic_configs
from controller.configs.alterations import check_alterations
from controller.configs.broker import BROKER_CONFIGS
from controller.configs.client_metrics import CLIENT_METRICS_CONFIGS, MAX_INTERVAL_MS, MIN_INTERVAL_MS, parse_match
from controller.configs.definition import ConfigError, ConfigType, parse_value, split_list
from controller.configs.effective import StaticSettings, effective_broker_config
from controller.configs.group import GROUP_CONFIGS, broker_synonym, check_within_limits
from controller.configs.topic import TOPIC_CONFIGS
from controller.image import NO_CONFIGS, MetadataImage, ResourceType
from controller.image_builder import apply_records
from controller.topic_names import check_topic_name
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.records.metadata import ConfigRecord

_R = TypeVar("_R", AlterConfigsResponse, IncrementalAlterConfigsResponse)


class AlterConfigOp(IntEnum):
    """An operation of IncrementalAlterConfigs (Kafka: `AlterConfigOp.OpType`)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class _Change(NamedTuple):
    name: str
    operation: int
    value: str | None


class _Resource(NamedTuple):
    type: int
    name: str


class _SettingsOfBroker:
    """Static settings of another broker, assumed to be the same as this one's."""

    def __init__(self, own: StaticSettings, node_id: int) -> None:
        self.explicit = own.explicit
        self.node_id = node_id
        self._own = own

    def __getitem__(self, name: str) -> Any:
        return self._own[name]


def alter_configs(
    image: MetadataImage, request: AlterConfigsRequest, settings: StaticSettings
) -> ControllerResult[AlterConfigsResponse]:
    """Replace the configs of resources by those in the request; no records if it only validates."""
    return _alter_resources(image, request, settings, AlterConfigsResponse(responses=[]))


def incremental_alter_configs(
    image: MetadataImage, request: IncrementalAlterConfigsRequest, settings: StaticSettings
) -> ControllerResult[IncrementalAlterConfigsResponse]:
    """Perform the operations in the request; no records if it only validates."""
    return _alter_resources(image, request, settings, IncrementalAlterConfigsResponse(responses=[]))


def _alter_resources(
    image: MetadataImage, request: Any, settings: StaticSettings, response: _R
) -> ControllerResult[_R]:
    """Fill the response of either request: each resource is changed completely or not at all."""
    untyped: Any = response
    records: list[ConfigRecord] = []
    times = Counter((requested.resource_type, requested.resource_name) for requested in request.resources)
    for requested in request.resources:
        resource = _Resource(requested.resource_type, requested.resource_name)
        result = untyped.Resource(error_message=None, resource_type=resource.type, resource_name=resource.name)
        untyped.responses.append(result)
        changes = [
            _Change(one.name, getattr(one, "config_operation", AlterConfigOp.SET), one.value)
            for one in requested.configs
        ]
        base = image.configs(*resource) if isinstance(request, IncrementalAlterConfigsRequest) else NO_CONFIGS
        try:
            if times[resource] > 1:
                raise _invalid_request("Each resource must appear at most once.")
            check_changes(requested.configs)
            records += _alter(image, settings, resource, changes, base=base)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    return ControllerResult(
        () if request.validate_only else (*records, *follow_up_records(image, records, settings)), response
    )


def check_changes(changes: Sequence[Any]) -> None:
    """Raise KafkaError INVALID_REQUEST if a config is named twice, or is to be set to null."""
    if any(times > 1 for times in Counter(change.name for change in changes).values()):
        raise _invalid_request("Error due to duplicate config keys")
    nulls = [
        change.name
        for change in changes
        if change.value is None and getattr(change, "config_operation", AlterConfigOp.SET) != AlterConfigOp.DELETE
    ]
    if nulls:
        raise _invalid_request(f"Null value not supported for : {', '.join(nulls)}")


def _alter(
    image: MetadataImage,
    settings: StaticSettings,
    resource: _Resource,
    changes: Sequence[_Change],
    *,
    base: Mapping[str, str],
) -> list[ConfigRecord]:
    """Return the records that change a resource's configs to `base` with `changes` applied."""
    if resource.type == ResourceType.BROKER:
        _check_broker(image, resource.name)
    new = dict(base)
    for change in changes:
        _apply_operation(change, new, resource.type)
    old = image.configs(*resource)
    records = [
        ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    if resource.type == ResourceType.BROKER:
        given = {change.name: new[change.name] for change in changes if change.name in new}
        _check_broker_configs(image, settings, resource.name, given, records)
        check_min_isr(image, resource.name, {change.name for change in changes} | old.keys() - new.keys(), new)
    else:
        _check_configs(image, settings, resource, new)
    return records


def _invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _check_broker(image: MetadataImage, name: str) -> None:
    """Raise KafkaError unless the broker is registered; the empty name stands for all brokers."""
    if name and not name.removeprefix("-").isdecimal():
        raise _invalid_request(f"Node id must be an integer, but it is: {name}")
    if name and int(name) not in image.brokers:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {name} found.")


def _apply_operation(change: _Change, configs: dict[str, str], resource_type: int) -> None:
    name, operation, value = change
    if operation == AlterConfigOp.DELETE:
        configs.pop(name, None)
    elif operation == AlterConfigOp.SET and value is not None:
        configs[name] = value
    elif operation in (AlterConfigOp.APPEND, AlterConfigOp.SUBTRACT) and value is not None:
        default = _list_default(name, AlterConfigOp(operation), resource_type)
        items = dict.fromkeys(split_list(configs.get(name, default)))
        for item in split_list(value):
            if operation == AlterConfigOp.APPEND:
                items[item] = None
            else:
                items.pop(item, None)
        configs[name] = ",".join(items)
    else:
        raise _invalid_request(f"Unknown operation {operation} for configuration {name}")


def _list_default(name: str, operation: AlterConfigOp, resource_type: int) -> str:
    """Return the default of a LIST config; KafkaError INVALID_CONFIG if `name` is none."""
    definition = None
    if resource_type == ResourceType.TOPIC:
        definition = TOPIC_CONFIGS.get(name)
    elif resource_type == ResourceType.BROKER:
        definition = BROKER_CONFIGS.get(name)
        if definition is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
        if definition.type is not ConfigType.LIST:
            problem = f"Config value {operation.name.lower()} is not allowed for config key: {name}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, problem)
    if definition is None or definition.type is not ConfigType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Can't {operation.name} to key {name} because its type is not LIST."
        )
    return definition.default or ""


def _check_broker_configs(
    image: MetadataImage,
    settings: StaticSettings,
    name: str,
    given: Mapping[str, str],
    records: Sequence[ConfigRecord],
) -> None:
    """Raise KafkaError unless the new values are valid beside the broker's other configs after `records`."""
    altered = apply_records(image, records, offset=image.offset, epoch=image.epoch)
    if name:
        settings = _SettingsOfBroker(settings, int(name))
    try:
        check_alterations(image, altered, settings, given, name)
    except ConfigError as error:
        raise _invalid_request(str(error)) from None


def _check_configs(image: MetadataImage, settings: StaticSettings, resource: _Resource, new: Mapping[str, str]) -> None:
    """Raise KafkaError unless the resource can have the configs `new`."""
    name = resource.name
    if resource.type == ResourceType.TOPIC:
        if not name:
            raise _invalid_request("Default topic resources are not allowed.")
        check_topic_name(name)
        check_topic_configs(image, settings, new)
        if image.topic(name) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    elif resource.type == ResourceType.GROUP:
        check_group_configs(image, settings, new, name)
    elif resource.type == ResourceType.CLIENT_METRICS:
        check_client_metrics_configs(new, name)
    else:
        raise _invalid_request(f"Unknown resource type {resource.type}")


def check_group_configs(image: MetadataImage, settings: StaticSettings, configs: Mapping[str, str], group: str) -> None:
    """Raise KafkaError unless a group can have these configs; it need not exist."""
    if not group:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    try:
        values = {}
        for name, text in configs.items():
            definition = GROUP_CONFIGS.get(name)
            if definition is None:
                raise ConfigError(f"Unknown group config name: {name}")
            values[name] = parse_value(definition, text)
        for name in GROUP_CONFIGS.keys() - values.keys():
            synonym = broker_synonym(name)
            values[name] = synonym and effective_broker_config(image, settings, synonym)
        check_within_limits(values.__getitem__, lambda limit: effective_broker_config(image, settings, limit))
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None


def check_client_metrics_configs(configs: Mapping[str, str], subscription: str) -> None:
    """Raise KafkaError unless a subscription can have these configs; it exists once it has one."""
    if not subscription:
        raise _invalid_request("Subscription name can't be empty")
    unknown = [name for name in configs if name not in CLIENT_METRICS_CONFIGS]
    if unknown:
        raise _invalid_request(f"Unknown client metrics configuration: {unknown[0]}")
    try:
        values = {name: parse_value(CLIENT_METRICS_CONFIGS[name], text) for name, text in configs.items()}
        parse_match(values.get("match", ()))
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    interval_ms = values.get("interval.ms", MAX_INTERVAL_MS)
    if not MIN_INTERVAL_MS <= interval_ms <= MAX_INTERVAL_MS:
        raise _invalid_request(
            f"Invalid value {interval_ms} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        )
