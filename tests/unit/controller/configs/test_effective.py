"""Precedence of the sources of a configuration: topic, broker, cluster default, file, built-in default."""

from __future__ import annotations

import pytest

from controller.configs.effective import (
    ConfigSource,
    ConfigValue,
    broker_config_values,
    effective_broker_config,
    effective_topic_config,
    topic_config_values,
)
from controller.image import MetadataImage, ResourceType
from controller.image_builder import apply_records
from protocol.records.metadata import ConfigRecord
from tests.unit.controller.cluster import Settings

RESOURCES = {"t": (ResourceType.TOPIC, "t"), "1": (ResourceType.BROKER, "1"), "all": (ResourceType.BROKER, "")}


def image(**configs: dict[str, str]) -> MetadataImage:
    return MetadataImage(cluster_id="c", configs={RESOURCES[name]: values for name, values in configs.items()})


def topic_value(given: MetadataImage, settings: Settings, name: str) -> object:
    return effective_topic_config(given, settings, "t")[name]


def test_defaults() -> None:
    values = effective_topic_config(image(), Settings(), "t")
    assert values["retention.ms"] == 604_800_000
    assert values["segment.ms"] == 604_800_000
    assert values["segment.jitter.ms"] == 0
    assert values["flush.ms"] == (1 << 63) - 1
    assert values["cleanup.policy"] == ("delete",)
    assert values["internal.segment.bytes"] is None


def test_precedence_is_topic_then_broker_then_cluster_default_then_file() -> None:
    settings = Settings({"log.segment.bytes": "1048576"})
    everywhere = {
        "t": {"segment.bytes": "1048580"},
        "1": {"log.segment.bytes": "1048579"},
        "all": {"log.segment.bytes": "1048578"},
    }
    found = []
    for place in ("t", "1", "all", ""):
        found.append(topic_value(image(**everywhere), settings, "segment.bytes"))
        everywhere.pop(place, None)
    assert found == [1048580, 1048579, 1048578, 1048576]


def test_value_of_another_broker_is_ignored() -> None:
    given = MetadataImage(cluster_id="c", configs={(ResourceType.BROKER, "2"): {"log.retention.ms": "5"}})
    assert topic_value(given, Settings(), "retention.ms") == 604_800_000


def test_milliseconds_take_precedence_over_minutes_over_hours_in_any_source() -> None:
    settings = Settings({"log.retention.hours": "2"})
    assert topic_value(image(), settings, "retention.ms") == 7_200_000
    settings.explicit["log.retention.minutes"] = "3"
    assert topic_value(image(), settings, "retention.ms") == 180_000
    settings.explicit["log.retention.ms"] = "4"
    assert topic_value(image(), settings, "retention.ms") == 4
    assert topic_value(image(all={"log.retention.ms": "5"}), settings, "retention.ms") == 5


def test_invalid_stored_text_falls_back_to_the_next_source() -> None:
    stored = image(t={"segment.bytes": "many"}, all={"log.segment.bytes": "1048580"})
    assert topic_value(stored, Settings(), "segment.bytes") == 1048580
    assert topic_value(image(all={"log.retention.ms": "x"}), Settings(), "retention.ms") == 604_800_000
    assert effective_broker_config(image(all={"message.max.bytes": "x"}), Settings(), "message.max.bytes") == 1048588


def test_stored_value_of_a_read_only_config_is_ignored() -> None:
    stored = image(all={"log.retention.hours": "1", "ssl.protocol": "TLS"}, **{"1": {"log.retention.hours": "2"}})
    assert topic_value(stored, Settings(), "retention.ms") == 604_800_000
    assert effective_broker_config(stored, Settings(), "ssl.protocol") == "TLSv1.3"


@pytest.mark.parametrize("name", ["log.retention.hours", "log.retention.minutes", "log.retention.ms"])
def test_every_negative_time_keeps_records_for_ever(name: str) -> None:
    assert topic_value(image(), Settings({name: "-5"}), "retention.ms") == -1


def test_synonyms_are_listed_in_order_of_precedence() -> None:
    given = image(t={"retention.ms": "1"}, all={"log.retention.ms": "2"})
    assert list(topic_config_values(given, Settings(), {"retention.ms": "1"}, "retention.ms")) == [
        ConfigValue("retention.ms", "1", ConfigSource.TOPIC),
        ConfigValue("log.retention.ms", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ConfigValue("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]


def test_topic_under_creation_has_its_requested_configs() -> None:
    values = effective_topic_config(image(), Settings(), "new", {"retention.ms": "7"})
    assert values["retention.ms"] == 7


@pytest.mark.parametrize("broker", ["", "1"])
def test_topics_follow_a_broker_s_change_in_the_next_image(broker: str) -> None:
    first, settings = image(), Settings()
    values = [topic_value(first, settings, "segment.bytes")]
    record = ConfigRecord(
        resource_type=ResourceType.BROKER, resource_name=broker, name="log.segment.bytes", value="1048580"
    )
    second = apply_records(first, [record], offset=1, epoch=1)
    values += [topic_value(given, settings, "segment.bytes") for given in (second, first, second)]
    assert values == [1 << 30, 1048580, 1 << 30, 1048580]


def test_brokers_that_share_an_image_have_separate_values() -> None:
    given = image()
    files = [Settings({"log.segment.bytes": text}) for text in ("1048577", "1048578")]
    assert [topic_value(given, settings, "segment.bytes") for settings in files] == [1048577, 1048578]


def test_topics_have_separate_values() -> None:
    given = image(t={"retention.ms": "1"})
    effective_topic_config(given, Settings(), "t")["retention.ms"] = 2
    assert topic_value(given, Settings(), "retention.ms") == 1
    assert effective_topic_config(given, Settings(), "other")["retention.ms"] == 604_800_000


def test_a_broker_s_configuration_can_be_altered_while_it_runs() -> None:
    settings = Settings({"message.max.bytes": "10"})
    assert effective_broker_config(image(), settings, "message.max.bytes") == 10
    assert effective_broker_config(image(all={"message.max.bytes": "20"}), settings, "message.max.bytes") == 20
    assert effective_broker_config(image(), settings, "log.retention.ms") is None
    assert list(broker_config_values(image(), settings, "log.retention.ms")) == []
