"""Configurations of topics and brokers are altered while the cluster runs (KIP-226, KIP-339).

AlterConfigs gives the whole set that a resource shall have: whatever it does not name is removed.
IncrementalAlterConfigs sets, removes, appends to and subtracts from single ones. Both are operations on the resource's
settings, from which the records follow, and both take a resource as a whole or not at all. One that a request names
twice is refused each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from controller.commands.decision import Decision
from controller.commands.topic_configs import check_topic_configs
from controller.configs.broker import BROKER_CONFIGS
from controller.configs.definition import ConfigDef, ConfigError, ConfigType, UpdateMode, parse_value, split_list
from controller.configs.effective import StaticSettings
from controller.configs.topic import TOPIC_CONFIGS
from controller.image import MetadataImage, ResourceType
from controller.topic_names import check_topic_name
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.records.metadata import ConfigRecord


class Operation(IntEnum):
    """What IncrementalAlterConfigs does to one configuration."""

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


def alter_configs(
    image: MetadataImage, request: AlterConfigsRequest, settings: StaticSettings
) -> Decision[AlterConfigsResponse]:
    """Give resources exactly the settings in the request; where it only asks to validate, no records."""
    records: list[ConfigRecord] = []
    response = AlterConfigsResponse(responses=[])
    times = Counter((asked.resource_type, asked.resource_name) for asked in request.resources)
    for asked in request.resources:
        resource = _Resource(asked.resource_type, asked.resource_name)
        answer = AlterConfigsResponse.Resource(
            error_message=None, resource_type=resource.type, resource_name=resource.name
        )
        response.responses.append(answer)
        changes = [_Change(config.name, Operation.SET, config.value) for config in asked.configs]
        try:
            _check_times(times[resource])
            records += _alter(image, settings, resource, changes, base={})
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.message
    return Decision(() if request.validate_only else tuple(records), response)


def incremental_alter_configs(
    image: MetadataImage, request: IncrementalAlterConfigsRequest, settings: StaticSettings
) -> Decision[IncrementalAlterConfigsResponse]:
    """Perform the operations in the request; where it only asks to validate, no records."""
    records: list[ConfigRecord] = []
    response = IncrementalAlterConfigsResponse(responses=[])
    times = Counter((asked.resource_type, asked.resource_name) for asked in request.resources)
    for asked in request.resources:
        resource = _Resource(asked.resource_type, asked.resource_name)
        answer = IncrementalAlterConfigsResponse.Resource(
            error_message=None, resource_type=resource.type, resource_name=resource.name
        )
        response.responses.append(answer)
        changes = [_Change(config.name, config.config_operation, config.value) for config in asked.configs]
        try:
            _check_times(times[resource])
            records += _alter(image, settings, resource, changes, base=image.configs(*resource))
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.message
    return Decision(() if request.validate_only else tuple(records), response)


def _check_times(times: int) -> None:
    if times > 1:
        raise _invalid_request("Each resource must appear at most once.")


def _alter(
    image: MetadataImage,
    settings: StaticSettings,
    resource: _Resource,
    changes: Sequence[_Change],
    *,
    base: Mapping[str, str],
) -> list[ConfigRecord]:
    """Return the records that bring a resource's settings to `base` with the changes made to it."""
    if any(times > 1 for times in Counter(change.name for change in changes).values()):
        raise _invalid_request("Error due to duplicate config keys")
    _check_resource(image, settings, resource)
    definitions = TOPIC_CONFIGS if resource.type == ResourceType.TOPIC else BROKER_CONFIGS
    new = dict(base)
    for change in changes:
        _perform(change, new, definitions.get(change.name))
    if resource.type == ResourceType.TOPIC:
        check_topic_configs(new)
    else:
        _check_broker_configs({change.name: new.get(change.name) for change in changes}, resource.name)
    old = image.configs(*resource)
    return [
        ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def _invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _check_resource(image: MetadataImage, settings: StaticSettings, resource: _Resource) -> None:
    name = resource.name
    if resource.type == ResourceType.TOPIC:
        if not name:
            raise _invalid_request("Default topic resources are not allowed.")
        check_topic_name(name)
        if image.topic(name) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    elif resource.type == ResourceType.BROKER:
        if name and not name.removeprefix("-").isdecimal():
            raise _invalid_request(f"Node id must be an integer, but it is: {name}")
        if name not in ("", str(settings.node_id)):
            raise _invalid_request(f"Unexpected broker id, expected {settings.node_id}, but received {name}")
    else:
        raise _invalid_request(f"Unknown resource type {resource.type}")


def _perform(change: _Change, configs: dict[str, str], definition: ConfigDef | None) -> None:
    name, operation, value = change
    if operation == Operation.DELETE:
        configs.pop(name, None)
        return
    if value is None:
        raise _invalid_request(f"Null value not supported for : {name}")
    if operation == Operation.SET:
        configs[name] = value
        return
    if operation not in (Operation.APPEND, Operation.SUBTRACT):
        raise _invalid_request(f"Unknown operation {operation} for configuration {name}")
    if definition is None or definition.type is not ConfigType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {Operation(operation).name} to key {name} because its type is not LIST.",
        )
    items = dict.fromkeys(split_list(configs.get(name, definition.default or "")))
    for item in split_list(value):
        if operation == Operation.APPEND:
            items[item] = None
        else:
            items.pop(item, None)
    configs[name] = ",".join(items)


def _check_broker_configs(values: Mapping[str, str | None], broker: str) -> None:
    """Raise KafkaError INVALID_REQUEST unless each value can be altered, of one broker or (the empty name) of all.

    Names without a definition are stored as they come: they may belong to a plug-in, or to a later version.
    """
    definitions = [BROKER_CONFIGS[name] for name in values if name in BROKER_CONFIGS]
    fixed = [definition.name for definition in definitions if definition.update_mode is UpdateMode.READ_ONLY]
    if fixed:
        raise _invalid_request(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    single = [definition.name for definition in definitions if definition.update_mode is UpdateMode.PER_BROKER]
    if single and not broker:
        raise _invalid_request(
            f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(single)}]"
        )
    try:
        for definition in definitions:
            parse_value(definition, values[definition.name])
    except ConfigError as error:
        raise _invalid_request(str(error)) from None
