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
        self.live = DynamicConfig(check_settings(options))
        self.image = MetadataImage(cluster_id="c")
        self.told: list[object] = []

    def commit(self, *changes: tuple[str, str, str | None], resource_type: int = ResourceType.BROKER) -> None:
        records = [
            ConfigRecord(resource_type=resource_type, resource_name=of, name=name, value=text)
            for of, name, text in changes
        ]
        before = self.image
        self.image = apply_records(before, records, offset=before.offset + len(records), epoch=1)
        self.live.apply(before, self.image, records)

    def follow(self, *names: str) -> None:
        self.live.follow(names, lambda: self.told.append(tuple(self.live[name] for name in names)))


def test_the_start_counts_until_something_is_altered() -> None:
    cluster = Cluster(max_connections="10")
    assert cluster.live["max.connections"] == 10
    cluster.commit(("", "max.connections", "20"))
    assert cluster.live["max.connections"] == 20
    cluster.commit(("1", "max.connections", "30"))
    cluster.commit(("", "max.connections", "40"))
    assert cluster.live["max.connections"] == 30
    cluster.commit(("1", "max.connections", None), ("", "max.connections", None))
    assert cluster.live["max.connections"] == 10


def test_what_was_altered_before_the_start_counts_from_the_start() -> None:
    cluster = Cluster()
    cluster.commit(("1", "max.connections", "30"), ("", "max.connections.per.ip", "3"))
    live = DynamicConfig(cluster.live.start)
    live.load(cluster.image)
    assert (live["max.connections"], live["max.connections.per.ip"]) == (30, 3)


def test_another_broker_s_and_a_topic_s_settings_are_not_ours() -> None:
    cluster = Cluster()
    cluster.follow("compression.type")
    cluster.commit(("2", "compression.type", "gzip"))
    cluster.commit(("1", "compression.type", "gzip"), resource_type=ResourceType.TOPIC)
    assert cluster.live["compression.type"] == "producer"
    assert cluster.told == []


def test_followers_are_told_once_a_commit_with_all_values_in_place() -> None:
    cluster = Cluster()
    cluster.follow("max.connections", "max.connections.per.ip")
    cluster.commit(("1", "max.connections", "30"), ("1", "max.connections.per.ip", "3"), ("", "log.retention.ms", "1"))
    assert cluster.told == [(30, 3)]


def test_followers_are_not_told_of_what_stays_the_same() -> None:
    cluster = Cluster()
    cluster.follow("max.connections")
    cluster.commit(("1", "max.connections", "30"))
    cluster.commit(("", "max.connections", "40"), ("1", "max.connections", "30"))
    assert cluster.told == [(30,)]


def test_a_listener_has_its_own_value_or_the_broker_s() -> None:
    cluster = Cluster(max_connections="10", listener_name_internal_max_connections="11")
    cluster.follow("max.connections")
    live = cluster.live
    assert [live.of_listener(name, "max.connections") for name in ("INTERNAL", "EXTERNAL")] == [11, 10]
    cluster.commit(("1", "listener.name.external.max.connections", "12"))
    assert [live.of_listener(name, "max.connections") for name in ("INTERNAL", "EXTERNAL")] == [11, 12]
    cluster.commit(("1", "listener.name.external.max.connections", None))
    assert live.of_listener("EXTERNAL", "max.connections") == 10
    assert cluster.told == [(10,), (10,)]


def test_a_stored_value_that_cannot_be_read_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    cluster.commit(("", "max.connections", "20"), ("1", "max.connections", "many"))
    assert cluster.live["max.connections"] == 20
    assert "max.connections" in caplog.text


def test_only_settings_that_exist_can_be_followed() -> None:
    with pytest.raises(KeyError):
        Cluster().follow("max.conections")
