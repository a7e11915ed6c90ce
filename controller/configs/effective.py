"""The effective value of a config, and every place that sets it.

A topic's own value comes first; then those of the broker configs that it falls back to, each as altered for this
broker, as altered for all brokers, and as in the properties file; then the default (KIP-226). A broker config has the
same places without the first; a group config has them all.

A stored broker config that cannot be altered is ignored, and so is a stored text that this version cannot parse:
another version, or Apache Kafka, may have allowed it. The next place then applies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from enum import IntEnum
from itertools import dropwhile
from operator import is_
from typing import Any, NamedTuple, Protocol

from controller.configs.broker import BROKER_CONFIGS
from controller.configs.definition import ConfigDef, ConfigError, UpdateMode, parse_value
from controller.configs.listener_names import without_listener
from controller.configs.topic import BROKER_SYNONYMS, SYNONYM_UNITS, TOPIC_CONFIGS
from controller.image import NO_CONFIGS, MetadataImage, ResourceType


class StaticSettings(Protocol):
    """The settings that a broker was started with."""

    @property
    def node_id(self) -> int:
        """Return the broker's id."""

    @property
    def explicit(self) -> Mapping[str, str]:
        """Return the texts set in the properties file or on the command line, without defaults."""

    def __getitem__(self, name: str, /) -> Any:
        """Return the checked value of a setting, or its default."""


class ConfigSource(IntEnum):
    """The source of a value, with the numbers of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigValue(NamedTuple):
    """One place that sets a config: the name used there, and the text."""

    name: str
    text: str
    source: ConfigSource


def broker_config_values(image: MetadataImage, settings: StaticSettings, name: str) -> Iterator[ConfigValue]:
    """Yield every place that sets the broker config `name`, the effective one first."""
    return _values(_layers(image, settings), [name])


def broker_config_synonyms(
    image: MetadataImage, settings: StaticSettings, name: str, synonyms: Iterable[str]
) -> Iterator[ConfigValue]:
    """Yield every place that sets `name` or one of its `synonyms`, as DescribeConfigs returns them.

    They are ordered by layer and start with the first place of `name` itself: earlier ones belong to other names.
    """
    return dropwhile(lambda place: place.name != name, _values(_layers(image, settings), synonyms))


def _layers(image: MetadataImage, settings: StaticSettings) -> tuple[tuple[Mapping[str, str], ConfigSource], ...]:
    return (
        (image.configs(ResourceType.BROKER, str(settings.node_id)), ConfigSource.DYNAMIC_BROKER),
        (image.configs(ResourceType.BROKER, ""), ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (settings.explicit, ConfigSource.STATIC_BROKER),
    )


def _values(layers: Iterable[tuple[Mapping[str, str], ConfigSource]], names: Iterable[str]) -> Iterator[ConfigValue]:
    names = tuple(names)
    for values, source in layers:
        for name in names:
            text = values.get(name)
            if text is not None and (source is ConfigSource.STATIC_BROKER or can_be_altered(name, source)):
                yield ConfigValue(name, text, source)
    for name in names:
        definition = BROKER_CONFIGS.get(name)
        if definition is not None and definition.default is not None:
            yield ConfigValue(name, definition.default, ConfigSource.DEFAULT)


def can_be_altered(name: str, source: ConfigSource) -> bool:
    """Return whether a broker config can be altered at `source`: for one broker, or for all.

    Unknown configs can be: they belong to a plug-in or to a later version.
    """
    definition = BROKER_CONFIGS.get(without_listener(name))
    if definition is None:
        return True
    if definition.update_mode is UpdateMode.PER_BROKER:
        return source is ConfigSource.DYNAMIC_BROKER
    return definition.update_mode is UpdateMode.CLUSTER_WIDE


def topic_config_values(
    image: MetadataImage, settings: StaticSettings, overrides: Mapping[str, str], name: str
) -> Iterator[ConfigValue]:
    """Yield every place that sets `name` for a topic with the configs `overrides`, the effective one first.

    The texts are as they were set: those of broker configs can be in other units (`effective_text`).
    """
    own = overrides.get(name)
    if own is not None:
        yield ConfigValue(name, own, ConfigSource.TOPIC)
    for synonym in BROKER_SYNONYMS.get(name, ()):
        yield from broker_config_values(image, settings, synonym)
    default = TOPIC_CONFIGS[name].default
    if name not in BROKER_SYNONYMS and default is not None:
        yield ConfigValue(name, default, ConfigSource.DEFAULT)


def effective_text(value: ConfigValue | None) -> str | None:
    """Return the text of a topic config's first place, converted to the topic config's unit."""
    if value is None:
        return None
    unit = SYNONYM_UNITS.get(value.name)
    if unit is not None:
        with suppress(ConfigError):
            # Any negative time means no limit, which is -1 in milliseconds.
            return str(max(parse_value(BROKER_CONFIGS[value.name], value.text) * unit, -1))
    return value.text


def effective_broker_config(image: MetadataImage, settings: StaticSettings, name: str) -> Any:
    """Return the value of a broker config, including dynamic changes."""
    return _first_valid(BROKER_CONFIGS[name], (place.text for place in broker_config_values(image, settings, name)))


def effective_topic_config(
    image: MetadataImage, settings: StaticSettings, topic: str, overrides: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the values of all configs of a topic.

    `overrides` are its own configs, by default those in the image; a topic that is being created has none there yet.
    """
    if overrides is None:
        overrides = image.configs(ResourceType.TOPIC, topic)
    values = {**_without_overrides(image, settings)}
    values.update(
        (name, effective_topic_value(image, settings, overrides, name)) for name in overrides if name in TOPIC_CONFIGS
    )
    return values


def _without_overrides(image: MetadataImage, settings: StaticSettings) -> Mapping[str, Any]:
    """Return the values for a topic without configs of its own, cached until a broker config changes."""
    sources = (
        settings,
        image.configs(ResourceType.BROKER, str(settings.node_id)),
        image.configs(ResourceType.BROKER, ""),
    )
    known: tuple[tuple[object, ...], dict[str, Any]] | None = image.lasting_memo.get(effective_topic_config)
    if known is not None and all(map(is_, known[0], sources)):
        return known[1]
    values = {name: effective_topic_value(image, settings, NO_CONFIGS, name) for name in TOPIC_CONFIGS}
    image.lasting_memo[effective_topic_config] = sources, values
    return values


def effective_topic_value(
    image: MetadataImage, settings: StaticSettings, overrides: Mapping[str, str], name: str
) -> Any:
    """Return the value of one config of a topic with the configs `overrides`."""
    places = topic_config_values(image, settings, overrides, name)
    return _first_valid(TOPIC_CONFIGS[name], map(effective_text, places))


def _first_valid(definition: ConfigDef, texts: Iterable[str | None]) -> Any:
    for text in texts:
        with suppress(ConfigError):
            return parse_value(definition, text)
    return None
