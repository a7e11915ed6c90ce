"""Dynamic broker configuration: the effective settings."""

from __future__ import annotations

import pytest

from broker.metadata.dynamic_config import DynamicConfig
from broker.settings import Option, check_settings
from controller.image import MetadataImage, ResourceType
from controller.image_builder import apply_records
from protocol.records.metadata import ConfigRecord


class Cluster:
    """The broker's settings, updated by committed config records."""

    def __init__(self, **start: str) -> None:
        options = {name.replace("_", "."): Option(text, "test") for name, text in start.items()}
        self.dynamic_config = DynamicConfig(check_settings(options))
        self.image = MetadataImage(cluster_id="c")
        self.reported: list[object] = []

    def commit(self, *changes: tuple[str, str, str | None], resource_type: int = ResourceType.BROKER) -> None:
        records = [
            ConfigRecord(resource_type=resource_type, resource_name=of, name=name, value=text)
            for of, name, text in changes
        ]
        before = self.image
        self.image = apply_records(before, records, offset=before.offset + len(records), epoch=1)
        self.dynamic_config.apply(before, self.image, records)

    def on_change(self, *names: str) -> None:
        self.dynamic_config.on_change(
            names, lambda: self.reported.append(tuple(self.dynamic_config[name] for name in names))
        )


def test_start_settings_apply_until_altered() -> None:
    cluster = Cluster(max_connections="10")
    assert cluster.dynamic_config["max.connections"] == 10
    cluster.commit(("", "max.connections", "20"))
    assert cluster.dynamic_config["max.connections"] == 20
    cluster.commit(("1", "max.connections", "30"))
    cluster.commit(("", "max.connections", "40"))
    assert cluster.dynamic_config["max.connections"] == 30
    cluster.commit(("1", "max.connections", None), ("", "max.connections", None))
    assert cluster.dynamic_config["max.connections"] == 10


def test_stored_config_applies_from_start() -> None:
    cluster = Cluster()
    cluster.commit(("1", "max.connections", "30"), ("", "max.connections.per.ip", "3"))
    dynamic_config = DynamicConfig(cluster.dynamic_config.start)
    dynamic_config.load(cluster.image)
    assert (dynamic_config["max.connections"], dynamic_config["max.connections.per.ip"]) == (30, 3)


def test_config_of_other_broker_or_topic_is_ignored() -> None:
    cluster = Cluster()
    cluster.on_change("compression.type")
    cluster.commit(("2", "compression.type", "gzip"))
    cluster.commit(("1", "compression.type", "gzip"), resource_type=ResourceType.TOPIC)
    assert cluster.dynamic_config["compression.type"] == "producer"
    assert cluster.reported == []


def test_subscribers_are_called_once_per_commit_with_all_values_set() -> None:
    cluster = Cluster()
    cluster.on_change("max.connections", "max.connections.per.ip")
    cluster.commit(("1", "max.connections", "30"), ("1", "max.connections.per.ip", "3"), ("", "log.retention.ms", "1"))
    assert cluster.reported == [(30, 3)]


def test_subscribers_are_not_called_for_unchanged_values() -> None:
    cluster = Cluster()
    cluster.on_change("max.connections")
    cluster.commit(("1", "max.connections", "30"))
    cluster.commit(("", "max.connections", "40"), ("1", "max.connections", "30"))
    assert cluster.reported == [(30,)]


def test_a_listener_has_its_own_value_or_the_broker_s() -> None:
    cluster = Cluster(max_connections="10", listener_name_internal_max_connections="11")
    cluster.on_change("max.connections")
    dynamic_config = cluster.dynamic_config
    assert [dynamic_config.of_listener(name, "max.connections") for name in ("INTERNAL", "EXTERNAL")] == [11, 10]
    cluster.commit(("1", "listener.name.external.max.connections", "12"))
    assert [dynamic_config.of_listener(name, "max.connections") for name in ("INTERNAL", "EXTERNAL")] == [11, 12]
    cluster.commit(("1", "listener.name.external.max.connections", None))
    assert dynamic_config.of_listener("EXTERNAL", "max.connections") == 10
    assert cluster.reported == [(10,), (10,)]


def test_invalid_stored_value_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    cluster.commit(("", "max.connections", "20"), ("1", "max.connections", "many"))
    assert cluster.dynamic_config["max.connections"] == 20
    assert "max.connections" in caplog.text


def test_unknown_setting_cannot_be_subscribed() -> None:
    with pytest.raises(KeyError):
        Cluster().on_change("max.conections")
