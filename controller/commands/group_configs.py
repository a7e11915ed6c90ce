"""Checks of the configs of a group."""

from __future__ import annotations

from collections.abc import Mapping

from controller.configs.definition import ConfigError, parse_value
from controller.configs.effective import StaticSettings, effective_broker_config
from controller.configs.group import GROUP_CONFIGS, broker_synonym, check_within_limits
from controller.image import MetadataImage
from protocol.errors import ErrorCode, KafkaError


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
