"""Checks of a topic's own configs."""

from collections.abc import Mapping

from controller.configs.definition import ConfigError, parse_value
from controller.configs.effective import StaticSettings, effective_topic_value
from controller.configs.topic import TOPIC_CONFIGS
from controller.image import MetadataImage
from protocol.errors import ErrorCode, KafkaError


def check_topic_configs(
    image: MetadataImage, settings: StaticSettings, configs: Mapping[str, str | None]
) -> dict[str, str]:
    """Return the checked configs of a topic; KafkaError INVALID_CONFIG for the first that is invalid."""
    checked: dict[str, str] = {}
    try:
        for name, text in configs.items():
            definition = TOPIC_CONFIGS.get(name)
            if definition is None:
                raise ConfigError(f"Unknown topic config name: {name}")
            if text is None:
                raise ConfigError(f"Null value not supported for topic configs: {name}")
            parse_value(definition, text)
            checked[name] = text
        _check_together(image, settings, checked)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return checked


def _check_together(image: MetadataImage, settings: StaticSettings, configs: Mapping[str, str]) -> None:
    """Raise ConfigError for configs that are valid alone but not together, or that need tiered storage."""
    shortest, longest = (
        effective_topic_value(image, settings, configs, name)
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if shortest > longest:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > max.compaction.lag.ms ({longest})"
        )
    if parse_value(TOPIC_CONFIGS["remote.storage.enable"], configs.get("remote.storage.enable", "false")):
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
