"""Configs as DescribeConfigs returns them: effective value, source, synonyms, type and documentation.

Secret values are never returned, nor those of unknown configs, which might be secret. A broker config is read-only if
it cannot be altered while the broker runs; internal ones are returned only if they are set.

The source is that of the first synonym. As in Kafka the synonyms belong to one name: a topic's retention.ms that comes
from the broker's log.retention.hours has the right value, but DEFAULT as its source.
"""

from collections.abc import Collection, Iterator, Mapping

from controller.configs.broker import BROKER_CONFIGS
from controller.configs.client_metrics import CLIENT_METRICS_CONFIGS
from controller.configs.definition import ConfigDef, ConfigError, UpdateMode, format_value, parse_value
from controller.configs.effective import (
    ConfigSource,
    ConfigValue,
    StaticSettings,
    broker_config_synonyms,
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

# Broker configs that are alternatives of each other: altering one overrides the others of the properties file.
_ALTERNATIVES = [names for names in BROKER_SYNONYMS.values() if len(names) > 1]
_FLUSH_INTERVAL = "log.flush.interval.ms"  # falls back to log.flush.scheduler.interval.ms, not the reverse


def describe_topic(
    image: MetadataImage, settings: StaticSettings, topic: str, names: Collection[str] | None = None
) -> Iterator[Described]:
    """Yield the configs of a topic, or those in `names`."""
    overrides = image.configs(ResourceType.TOPIC, topic)
    for name, definition in TOPIC_CONFIGS.items():
        if (names is None or name in names) and (not definition.internal or name in overrides):
            text = effective_text(next(topic_config_values(image, settings, overrides, name), None))
            places = _own(definition, overrides, ConfigSource.TOPIC)
            if name in BROKER_SYNONYMS:
                places += _broker_places(image, settings, BROKER_SYNONYMS[name][0])
            yield _describe(name, definition, _canonical(definition, text), places)


def describe_broker(
    image: MetadataImage, settings: StaticSettings, names: Collection[str] | None = None
) -> Iterator[Described]:
    """Yield this broker's configs, or those in `names`."""
    altered = [
        name for resource in (str(settings.node_id), "") for name in image.configs(ResourceType.BROKER, resource)
    ]
    for name in dict.fromkeys([*BROKER_CONFIGS, *sorted([*settings.explicit, *altered])]):
        if names is not None and name not in names:
            continue
        own = BROKER_CONFIGS.get(name)
        found = next(broker_config_values(image, settings, name), None)
        is_set = found is not None and found.source is not ConfigSource.DEFAULT
        if is_set or (own is not None and not own.internal):
            text = found.text if found is not None else None
            if own is not None:
                text = _canonical(own, own.default if _is_overridden(image, settings, name, found) else text)
            definition = own or BROKER_CONFIGS.get(without_listener(name))
            yield _describe(name, definition, text, _broker_places(image, settings, name), read_only=_is_read_only(own))


def describe_all_brokers(image: MetadataImage, names: Collection[str] | None = None) -> Iterator[Described]:
    """Yield the configs altered for all brokers, or those in `names`."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    for name, text in sorted(image.configs(ResourceType.BROKER, "").items()):
        if (names is None or name in names) and can_be_altered(name, source):
            definition = BROKER_CONFIGS.get(without_listener(name))
            places = [ConfigValue(name, text, source)]
            yield _describe(name, definition, text, places, read_only=_is_read_only(BROKER_CONFIGS.get(name)))


def describe_group(
    image: MetadataImage, settings: StaticSettings, group: str, names: Collection[str] | None = None
) -> Iterator[Described]:
    """Yield the configs of a group, or those in `names`."""
    overrides = image.configs(ResourceType.GROUP, group)
    for name, definition in GROUP_CONFIGS.items():
        if names is None or name in names:
            places = _own(definition, overrides, ConfigSource.GROUP)
            synonym = broker_synonym(name)
            if synonym is not None:
                places += _broker_places(image, settings, synonym)
            elif definition.default is not None:
                places.append(ConfigValue(name, definition.default, ConfigSource.DEFAULT))
            yield _describe(name, definition, _canonical(definition, places[0].text), places)


def describe_client_metrics(
    image: MetadataImage, subscription: str, names: Collection[str] | None = None
) -> Iterator[Described]:
    """Yield the configs of a client metrics subscription, or those in `names`."""
    overrides = image.configs(ResourceType.CLIENT_METRICS, subscription)
    for name, definition in CLIENT_METRICS_CONFIGS.items():
        if names is None or name in names:
            places = _own(definition, overrides, ConfigSource.CLIENT_METRICS)
            yield _describe(name, definition, _canonical(definition, overrides.get(name, definition.default)), places)


def _own(definition: ConfigDef, overrides: Mapping[str, str], source: ConfigSource) -> list[ConfigValue]:
    text = _canonical(definition, overrides.get(definition.name))
    return [] if text is None else [ConfigValue(definition.name, text, source)]


def _broker_places(image: MetadataImage, settings: StaticSettings, name: str) -> list[ConfigValue]:
    family = next((names for names in _ALTERNATIVES if name in names), ())
    if not family or (name in BROKER_SYNONYMS["flush.ms"] and name != _FLUSH_INTERVAL):
        family = tuple(dict.fromkeys((name, without_listener(name))))
    return list(broker_config_synonyms(image, settings, name, family))


def _is_overridden(image: MetadataImage, settings: StaticSettings, name: str, found: ConfigValue | None) -> bool:
    """Return whether an alternative that was altered overrides the value of the properties file."""
    if found is None or found.source is not ConfigSource.STATIC_BROKER:
        return False
    relatives = (relative for names in _ALTERNATIVES if name in names for relative in names)
    firsts = (next(broker_config_values(image, settings, relative), None) for relative in relatives)
    return any(first is not None and first.source < ConfigSource.STATIC_BROKER for first in firsts)


def _is_read_only(definition: ConfigDef | None) -> bool:
    """Return whether DescribeConfigs calls a config read-only; as in Kafka, listener settings and unknown ones are."""
    return definition is None or definition.update_mode is UpdateMode.READ_ONLY


def _canonical(definition: ConfigDef, text: str | None) -> str | None:
    """Return a text in the canonical form of its value: `TRUE` as true, `+5` as 5."""
    try:
        return format_value(parse_value(definition, text))
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
        documentation=None if definition is None else definition.full_documentation,
    )
