"""Configurations as DescribeConfigs tells them."""

from __future__ import annotations

from controller.configs import BROKER_CONFIGS, TOPIC_CONFIGS, ConfigType
from controller.configs.described import describe_all_brokers, describe_broker, describe_topic
from controller.image import MetadataImage, ResourceType
from tests.unit.controller.cluster import Settings


def image(resource_type: int = 2, name: str = "t", **configs: str) -> MetadataImage:
    values = {key.replace("_", "."): value for key, value in configs.items()}
    return MetadataImage(cluster_id="c", configs={(resource_type, name): values})


def test_a_topic_has_every_configuration_but_internal_ones() -> None:
    names = {config.name for config in describe_topic(image(), Settings(), "t")}
    assert names == TOPIC_CONFIGS.keys() - {"internal.segment.bytes"}


def test_a_topic_s_value_is_in_its_own_unit_and_its_places_are_as_they_were_set() -> None:
    [config] = describe_topic(image(), Settings({"log.retention.hours": "1"}), "t", ["retention.ms"])
    assert (config.value, config.config_source, config.read_only) == ("3600000", 5, False)
    assert config.synonyms == []
    [config] = describe_topic(
        image(retention_ms="+7"), Settings({"log.retention.hours": "1", "log.retention.ms": "8"}), "t", ["retention.ms"]
    )
    assert (config.value, config.config_source, config.read_only) == ("7", 1, False)
    assert [(place.name, place.value, place.source) for place in config.synonyms] == [
        ("retention.ms", "7", 1),
        ("log.retention.ms", "8", 4),
        ("log.retention.hours", "1", 4),
        ("log.retention.hours", "168", 5),
    ]
    assert config.config_type == ConfigType.LONG
    assert config.documentation == TOPIC_CONFIGS["retention.ms"].documentation


def test_an_empty_list_is_a_value() -> None:
    [config] = describe_topic(image(cleanup_policy=""), Settings(), "t", ["cleanup.policy"])
    assert (config.value, config.config_source) == ("", 1)


def test_a_broker_has_every_configuration_and_what_was_set_for_it_alone() -> None:
    given = image(ResourceType.BROKER, "1", some_plugin="x")
    configs = {config.name: config for config in describe_broker(given, Settings())}
    assert configs.keys() == {name for name, one in BROKER_CONFIGS.items() if not one.internal} | {"some.plugin"}
    assert configs["node.id"].read_only
    assert not configs["log.retention.ms"].read_only
    assert (configs["log.retention.ms"].value, configs["log.retention.ms"].config_source) == (None, 5)


def test_secrets_and_what_might_be_one_are_not_told() -> None:
    settings = Settings({"ssl.key.password": "secret"})
    given = image(ResourceType.BROKER, "1", some_plugin="secret")
    for config in describe_broker(given, settings, ["ssl.key.password", "some.plugin"]):
        assert config.is_sensitive
        assert config.value is None
        assert config.synonyms
        assert {place.value for place in config.synonyms} == {None}


def test_all_brokers_have_what_was_altered_for_them() -> None:
    given = image(ResourceType.BROKER, "", log_retention_ms="5", message_max_bytes="6")
    assert [(config.name, config.value, config.config_source) for config in describe_all_brokers(given)] == [
        ("log.retention.ms", "5", 3),
        ("message.max.bytes", "6", 3),
    ]
    assert [config.name for config in describe_all_brokers(given, ["message.max.bytes"])] == ["message.max.bytes"]
