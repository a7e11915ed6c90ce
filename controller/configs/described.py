"""Configurations as DescribeConfigs tells them: the value that counts, where it is set, type and documentation.

A secret's value is never told, and what nobody here has a definition of might be one. A broker's configuration is
read-only where it cannot be altered while the broker runs; internal ones are told only where they are set.

The source is that of the first place in the list of places. As in Kafka that list belongs to one name: a topic's
retention.ms that comes from the broker's log.retention.hours is told with the right value, and as a default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from controller.configs.broker import BROKER_CONFIGS
from controller.configs.client_metrics import CLIENT_METRICS_CONFIGS
from controller.configs.definition import ConfigDef, ConfigError, UpdateMode, parse_value, plain_text
from controller.configs.effective import (
    ConfigSource,
    ConfigValue,
    StaticSettings,
    broker_config_places,
    broker_config_values,
    can_be_altered,
    effective_text,
    topic_config_values,
)
from controller.configs.group import GROUP_CONFIGS, broker_synonym
from controller.configs.listener_names import without_listener
from controller.configs.topic import BROKER_SYNONYMS, TOPIC_CONFIGS
from controller.image import MetadataImage, ResourceType
from protocol.messages.describe_configs import DescribeConfigsResponse

Described = DescribeConfigsResponse.Result.Config

_UNKNOWN_TYPE = 0

# Configurations of brokers that stand for each other: one that is altered hides the others of the file.
_FAMILIES = [names for names in BROKER_SYNONYMS.values() if len(names) > 1]
_FLUSH = "log.flush.interval.ms"  # which has a substitute but is none


def describe_topic(
    image: MetadataImage, settings: StaticSettings, topic: str, names: Collection[str] | None = None
) -> Iterator[Described]:
    """Yield the configurations of a topic, those of `names` if given."""
    overrides = image.configs(ResourceType.TOPIC, topic)
    for name, definition in TOPIC_CONFIGS.items():
        if (names is None or name in names) and (not definition.internal or name in overrides):
            text = effective_text(next(topic_config_values(image, settings, overrides, name), None))
            places = _own(definition, overrides, ConfigSource.TOPIC)
            if name in BROKER_SYNONYMS:
                places += _broker_places(image, settings, BROKER_SYNONYMS[name][0])
            yield _describe(name, definition, _plain(definition, text), places)


def describe_broker(
    image: MetadataImage, settings: StaticSettings, names: Collection[str] | None = None
) -> Iterator[Described]:
    """Yield the configurations of the broker itself, those of `names` if given."""
    altered = [name for of in (str(settings.node_id), "") for name in image.configs(ResourceType.BROKER, of)]
    for name in dict.fromkeys([*BROKER_CONFIGS, *sorted([*settings.explicit, *altered])]):
        if names is not None and name not in names:
            continue
        own = BROKER_CONFIGS.get(name)
        found = next(broker_config_values(image, settings, name), None)
        is_set = found is not None and found.source is not ConfigSource.DEFAULT
        if is_set or (own is not None and not own.internal):
            text = found.text if found is not None else None
            if own is not None:
                text = _plain(own, own.default if _is_hidden(image, settings, name, found) else text)
            definition = own or BROKER_CONFIGS.get(without_listener(name))
            yield _describe(name, definition, text, _broker_places(image, settings, name), read_only=_is_fixed(own))


def describe_all_brokers(image: MetadataImage, names: Collection[str] | None = None) -> Iterator[Described]:
    """Yield what is altered for all brokers, those of `names` if given."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    for name, text in sorted(image.configs(ResourceType.BROKER, "").items()):
        if (names is None or name in names) and can_be_altered(name, source):
            definition = BROKER_CONFIGS.get(without_listener(name))
            places = [ConfigValue(name, text, source)]
            yield _describe(name, definition, text, places, read_only=_is_fixed(BROKER_CONFIGS.get(name)))


def describe_group(
    image: MetadataImage, settings: StaticSettings, group: str, names: Collection[str] | None = None
) -> Iterator[Described]:
    """Yield the configurations of a group, those of `names` if given."""
    overrides = image.configs(ResourceType.GROUP, group)
    for name, definition in GROUP_CONFIGS.items():
        if names is None or name in names:
            places = _own(definition, overrides, ConfigSource.GROUP)
            synonym = broker_synonym(name)
            if synonym is not None:
                places += _broker_places(image, settings, synonym)
            elif definition.default is not None:
                places.append(ConfigValue(name, definition.default, ConfigSource.DEFAULT))
            yield _describe(name, definition, _plain(definition, places[0].text), places)


def describe_client_metrics(
    image: MetadataImage, subscription: str, names: Collection[str] | None = None
) -> Iterator[Described]:
    """Yield the configurations of a client metrics subscription, those of `names` if given."""
    overrides = image.configs(ResourceType.CLIENT_METRICS, subscription)
    for name, definition in CLIENT_METRICS_CONFIGS.items():
        if names is None or name in names:
            places = _own(definition, overrides, ConfigSource.CLIENT_METRICS)
            yield _describe(name, definition, _plain(definition, overrides.get(name, definition.default)), places)


def _own(definition: ConfigDef, overrides: Mapping[str, str], source: ConfigSource) -> list[ConfigValue]:
    text = _plain(definition, overrides.get(definition.name))
    return [] if text is None else [ConfigValue(definition.name, text, source)]


def _broker_places(image: MetadataImage, settings: StaticSettings, name: str) -> list[ConfigValue]:
    family = next((names for names in _FAMILIES if name in names), ())
    if not family or (name in BROKER_SYNONYMS["flush.ms"] and name != _FLUSH):
        family = tuple(dict.fromkeys((name, without_listener(name))))
    return list(broker_config_places(image, settings, name, family))


def _is_hidden(image: MetadataImage, settings: StaticSettings, name: str, found: ConfigValue | None) -> bool:
    """Say whether the value of the file does not count any more, since one that stands for it was altered."""
    if found is None or found.source is not ConfigSource.STATIC_BROKER:
        return False
    relatives = (relative for names in _FAMILIES if name in names for relative in names)
    firsts = (next(broker_config_values(image, settings, relative), None) for relative in relatives)
    return any(first is not None and first.source < ConfigSource.STATIC_BROKER for first in firsts)


def _is_fixed(definition: ConfigDef | None) -> bool:
    """Say whether DescribeConfigs calls it read-only: also a listener's own, and what is unknown, as in Kafka."""
    return definition is None or definition.update_mode is UpdateMode.READ_ONLY


def _plain(definition: ConfigDef, text: str | None) -> str | None:
    """Return a text as its value is written plainly: `TRUE` is true, `+5` is 5."""
    try:
        return plain_text(parse_value(definition, text))
    except ConfigError:
        return text


def _describe(
    name: str, definition: ConfigDef | None, text: str | None, places: list[ConfigValue], *, read_only: bool = False
) -> Described:
    secret = definition is None or definition.sensitive
    return Described(
        name=name,
        value=None if secret else text,
        read_only=read_only,
        config_source=places[0].source if places else ConfigSource.DEFAULT,
        is_sensitive=secret,
        synonyms=[
            Described.Synonym(name=place.name, value=None if secret else place.text, source=place.source)
            for place in places
        ],
        config_type=_UNKNOWN_TYPE if definition is None else definition.type,
        documentation=None if definition is None else definition.told,
    )
