"""The records of the difference between two images turn the first into the second."""

from __future__ import annotations

from controller.image import MetadataImage
from controller.image_builder import apply_records
from controller.image_delta import difference
from protocol.records.metadata import (
    AccessControlEntryRecord,
    ConfigRecord,
    PartitionRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    UnregisterBrokerRecord,
)
from tests.typed import present
from tests.unit.controller.cluster import Cluster
from tests.unit.controller.test_snapshot import busy_cluster, contents, quota


def made_of(before: MetadataImage, after: MetadataImage) -> dict[str, object]:
    """Return `before` with the records of the difference replayed."""
    return contents(apply_records(before, tuple(difference(before, after)), offset=after.offset, epoch=after.epoch))


def test_delta_from_an_empty_image_contains_everything() -> None:
    after = busy_cluster().image
    assert made_of(MetadataImage(cluster_id=after.cluster_id), after) == contents(after)


def test_delta_removes_deleted_items() -> None:
    cluster = busy_cluster()
    before = cluster.image
    gone = before.topic("a")
    cluster.replay(
        [
            RemoveTopicRecord(topic_id=present(gone).topic_id),
            UnregisterBrokerRecord(broker_id=3, broker_epoch=before.brokers[3].epoch),
            RemoveAccessControlEntryRecord(id=b"1" * 16),
            RemoveDelegationTokenRecord(token_id="t"),
            removed_quota(),  # type: ignore[list-item]  # only this comes here
        ]
    )
    assert made_of(before, cluster.image) == contents(cluster.image)


def removed_quota() -> object:
    record = quota({"ip": None}, "connection_creation_rate", 0.0)
    record.remove = True
    return record


def test_delta_removes_a_recreated_topic_first() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("a", configs={"retention.ms": "5"})
    before = cluster.image
    cluster.replay([RemoveTopicRecord(topic_id=present(before.topic("a")).topic_id)])
    cluster.create("a")
    records = list(difference(before, cluster.image))
    assert isinstance(records[0], RemoveTopicRecord)
    assert [type(record) for record in records].count(PartitionRecord) == 1
    assert made_of(before, cluster.image) == contents(cluster.image)


def test_delta_removes_deleted_configs() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("a", configs={"retention.ms": "5", "segment.ms": "7"})
    before = cluster.image
    cluster.replay([ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value=None)])
    assert made_of(before, cluster.image) == contents(cluster.image)


def test_delta_does_not_add_existing_acls_again() -> None:
    image = busy_cluster().image
    records = list(difference(image, image))
    assert len(image.acls) == 2
    assert not [record for record in records if isinstance(record, AccessControlEntryRecord)]
