"""Queries of a metadata image."""

from __future__ import annotations

from controller.image import BrokerImage, MetadataImage, ResourceType
from tests.typed import present
from tests.unit.controller.cluster import Cluster


def test_missing_items_are_none_or_empty() -> None:
    image = MetadataImage(cluster_id="c")
    assert image.topic("t") is None
    assert image.topic_by_id(bytes(16)) is None
    assert image.partition("t", 0) is None
    assert image.configs(ResourceType.TOPIC, "t") == {}
    assert list(image.topics()) == []
    assert (image.offset, image.features, image.brokers) == (-1, {}, {})


def test_topics_are_found_by_name_by_id_and_in_the_order_of_their_creation() -> None:
    cluster = Cluster()
    cluster.create("b")
    cluster.create("a")
    image = cluster.image
    assert [topic.name for topic in image.topics()] == ["b", "a"] == list(image.topics_by_name())
    assert [image.topic_by_id(topic.topic_id) for topic in image.topics()] == list(image.topics())
    assert image.partition("a", 0) is present(image.topic("a")).partitions[0]
    assert image.partition("a", 1) is None


def test_a_broker_is_active_unless_it_is_fenced_or_shuts_down() -> None:
    broker = BrokerImage(1, 0, bytes(16), {}, {}, None, fenced=False, in_controlled_shutdown=False, directories=())
    assert broker.active
    assert not broker._replace(fenced=True).active
    assert not broker._replace(in_controlled_shutdown=True).active


def test_each_image_has_its_own_cache() -> None:
    cluster = Cluster()
    cluster.image.memo["key"] = 1
    cluster.create("t")
    assert cluster.image.memo == {}
