"""Configurations as DescribeConfigs tells them: the value that counts, where it is set, type and documentation.

A secret's value is never told. A broker's configuration is read-only where it cannot be altered while the broker runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from controller.configs.broker import BROKER_CONFIGS
from controller.configs.definition import ConfigDef, ConfigType, UpdateMode
from controller.configs.effective import (
    ConfigSource,
    ConfigValue,
    StaticSettings,
    broker_config_values,
    effective_text,
    topic_config_values,
)
from controller.configs.topic import TOPIC_CONFIGS
from controller.image import MetadataImage, ResourceType
from protocol.messages.describe_configs import DescribeConfigsResponse

Described = DescribeConfigsResponse.Result.Config

# For names that are stored for all brokers and that this version has no definition of.
_UNKNOWN = ConfigDef("", ConfigType.STRING, None, "", update_mode=UpdateMode.CLUSTER_WIDE)


def describe_topic(
    image: MetadataImage, settings: StaticSettings, topic: str, names: Collection[str] | None = None
) -> Iterator[Described]:
    """Yield the configurations of a topic, those of `names` if given."""
    overrides = image.configs(ResourceType.TOPIC, topic)
    for definition in TOPIC_CONFIGS.values():
        if (names is None or definition.name in names) and (not definition.internal or definition.name in overrides):
            values = list(topic_config_values(image, settings, overrides, definition.name))
            yield _describe(definition.name, definition, effective_text(values[0]), values, read_only=False)


def describe_broker(
    image: MetadataImage, settings: StaticSettings, names: Collection[str] | None = None
) -> Iterator[Described]:
    """Yield the configurations of the broker itself, those of `names` if given."""
    altered = image.configs(ResourceType.BROKER, str(settings.node_id)).keys()
    unknown = sorted(name for name in altered if name not in BROKER_CONFIGS)
    for name in (*BROKER_CONFIGS, *unknown):
        if names is None or name in names:
            definition = BROKER_CONFIGS.get(name, _UNKNOWN)
            values = list(broker_config_values(image, settings, name))
            text = values[0].text if values else None
            read_only = definition.update_mode is UpdateMode.READ_ONLY
            yield _describe(name, definition, text, values, read_only=read_only)


def describe_all_brokers(image: MetadataImage, names: Collection[str] | None = None) -> Iterator[Described]:
    """Yield what is altered for all brokers, those of `names` if given."""
    for name, text in sorted(image.configs(ResourceType.BROKER, "").items()):
        if names is None or name in names:
            value = ConfigValue(name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER)
            yield _describe(name, BROKER_CONFIGS.get(name, _UNKNOWN), text, [value], read_only=False)


def _describe(
    name: str, definition: ConfigDef, text: str | None, values: Iterable[ConfigValue], *, read_only: bool
) -> Described:
    secret = definition.sensitive or definition is _UNKNOWN
    values = list(values)
    return Described(
        name=name,
        value=None if secret else text,
        read_only=read_only,
        config_source=values[0].source if values else ConfigSource.DEFAULT,
        is_sensitive=secret,
        synonyms=[
            Described.Synonym(name=value.name, value=None if secret else value.text, source=value.source)
            for value in values
        ],
        config_type=definition.type,
        documentation=definition.documentation,
    )
