"""Configurations as DescribeConfigs returns them."""

from __future__ import annotations

from controller.configs import BROKER_CONFIGS, TOPIC_CONFIGS, ConfigType
from controller.configs.client_metrics import CLIENT_METRICS_CONFIGS
from controller.configs.described import (
    Described,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from controller.configs.group import GROUP_CONFIGS
from controller.image import MetadataImage, ResourceType
from tests.typed import present
from tests.unit.controller.cluster import Settings


def image(resource_type: int = 2, name: str = "t", **configs: str) -> MetadataImage:
    values = {key.replace("_", "."): value for key, value in configs.items()}
    return MetadataImage(cluster_id="c", configs={(resource_type, name): values})


def test_a_topic_has_every_configuration_but_internal_ones() -> None:
    names = {config.name for config in describe_topic(image(), Settings(), "t")}
    assert names == TOPIC_CONFIGS.keys() - {"internal.segment.bytes"}


def test_topic_value_is_in_the_topic_unit_and_synonyms_are_as_set() -> None:
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


def test_broker_has_every_config_and_its_own_unknown_ones() -> None:
    given = image(ResourceType.BROKER, "1", some_plugin="x")
    configs = {config.name: config for config in describe_broker(given, Settings())}
    assert configs.keys() == {name for name, one in BROKER_CONFIGS.items() if not one.internal} | {"some.plugin"}
    assert configs["node.id"].read_only
    assert not configs["log.retention.ms"].read_only
    assert (configs["log.retention.ms"].value, configs["log.retention.ms"].config_source) == (None, 5)


def test_values_of_passwords_and_unknown_configs_are_hidden() -> None:
    settings = Settings({"ssl.key.password": "secret"})
    given = image(ResourceType.BROKER, "1", some_plugin="secret")
    for config in describe_broker(given, settings, ["ssl.key.password", "some.plugin"]):
        assert config.is_sensitive
        assert config.value is None
        assert config.synonyms
        assert {place.value for place in config.synonyms} == {None}


def test_cluster_default_resource_has_only_altered_configs() -> None:
    given = image(ResourceType.BROKER, "", log_retention_ms="5", message_max_bytes="6")
    assert [(config.name, config.value, config.config_source) for config in describe_all_brokers(given)] == [
        ("log.retention.ms", "5", 3),
        ("message.max.bytes", "6", 3),
    ]
    assert [config.name for config in describe_all_brokers(given, ["message.max.bytes"])] == ["message.max.bytes"]


def client_documentation(config: Described) -> tuple[object, int, list[tuple[str, str | None, int]]]:
    """Return value, source and synonyms."""
    return config.value, config.config_source, [(one.name, one.value, one.source) for one in config.synonyms]


def test_altered_config_takes_precedence_over_a_synonym_in_the_file() -> None:
    settings = Settings({"log.roll.hours": "5"})
    [hours] = describe_broker(image(), settings, ["log.roll.hours"])
    assert client_documentation(hours) == ("5", 4, [("log.roll.hours", "5", 4), ("log.roll.hours", "168", 5)])
    [hours] = describe_broker(image(ResourceType.BROKER, "1", log_roll_ms="7"), settings, ["log.roll.hours"])
    assert client_documentation(hours) == ("168", 4, [("log.roll.hours", "5", 4), ("log.roll.hours", "168", 5)])


def test_listener_config_has_the_type_of_its_base_config() -> None:
    given = image(ResourceType.BROKER, "1", listener_name_x_max_connections="5", max_connections="6")
    [config] = describe_broker(given, Settings(), ["listener.name.x.max.connections"])
    assert config.config_type == ConfigType.INT
    assert config.read_only
    places = [("listener.name.x.max.connections", "5", 2), ("max.connections", "6", 2)]
    assert client_documentation(config) == ("5", 2, [*places, ("max.connections", "2147483647", 5)])


def test_internal_configs_are_described_where_they_are_set() -> None:
    name = "log.initial.task.delay.ms"
    assert list(describe_broker(image(), Settings(), [name])) == []
    [config] = describe_broker(image(), Settings({name: "5"}), [name])
    assert config.value == "5"


def test_a_group_has_its_own_values_over_the_broker_s() -> None:
    settings = Settings({"group.consumer.session.timeout.ms": "50000"})
    given = image(ResourceType.GROUP, "g", share_auto_offset_reset="earliest")
    found = {config.name: config for config in describe_group(given, settings, "g")}
    assert found.keys() == GROUP_CONFIGS.keys()
    name = "share.auto.offset.reset"
    assert client_documentation(found[name]) == ("earliest", 8, [(name, "earliest", 8), (name, "latest", 5)])
    broker = "group.consumer.session.timeout.ms"
    assert client_documentation(found["consumer.session.timeout.ms"]) == (
        "50000",
        4,
        [(broker, "50000", 4), (broker, "45000", 5)],
    )


def test_a_client_metrics_subscription_has_its_own_values_or_the_defaults() -> None:
    given = image(ResourceType.CLIENT_METRICS, "m", metrics="a. , b.")
    found = {config.name: config for config in describe_client_metrics(given, "m")}
    assert found.keys() == CLIENT_METRICS_CONFIGS.keys()
    assert client_documentation(found["metrics"]) == ("a.,b.", 7, [("metrics", "a.,b.", 7)])
    assert client_documentation(found["interval.ms"]) == ("300000", 5, [])


def test_documentation_names_configs_without_effect() -> None:
    [config] = describe_broker(image(), Settings(), ["num.io.threads"])
    assert "Without effect here: this broker is one event loop" in present(config.documentation)
