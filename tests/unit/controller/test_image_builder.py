"""Metadata records applied to an image."""

from __future__ import annotations

from typing import Any

import pytest

from controller.image import NO_LEADER, DirectoryId, MetadataImage, ResourceType
from controller.image_builder import apply_records
from protocol.errors import InvariantError
from protocol.messages.broker_registration import RegisteredListener, SupportedFeature
from protocol.records.metadata import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    ZkMigrationStateRecord,
)
from tests.typed import present
from tests.unit.controller.cluster import Cluster, directory

ID = b"i" * 16


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(brokers=2)
    cluster.create("t", assignments={0: [1, 2], 1: [2, 1]})
    return cluster


def change(cluster: Cluster, **changes: Any) -> None:
    topic = cluster.image.topic("t")
    cluster.replay([PartitionChangeRecord(partition_id=0, topic_id=present(topic).topic_id, **changes)])


def test_image_is_immutable(cluster: Cluster) -> None:
    old = cluster.image
    topic, configs = old.topic("t"), old.all_configs()
    change(cluster, leader=2)
    cluster.replay([ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1")])
    cluster.create("u")
    assert old.topic("t") is topic
    assert present(topic).partitions[0].leader == 1
    assert old.topic("u") is None
    assert (old.all_configs(), dict(configs)) == (configs, {})
    assert cluster.partition("t").leader == 2


def test_unchanged_parts_are_shared_between_images(cluster: Cluster) -> None:
    cluster.create("u")
    old = cluster.image
    change(cluster, leader=2)
    assert cluster.image.topic("u") is old.topic("u")
    assert cluster.image.brokers is old.brokers
    assert present(cluster.image.topic("t")).partitions[1] is present(old.topic("t")).partitions[1]


def test_leader_change_starts_a_leader_epoch(cluster: Cluster) -> None:
    change(cluster, leader=2)
    changed = cluster.partition("t")
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (2, 1, 1)


def test_reelection_of_the_leader_starts_a_leader_epoch(cluster: Cluster) -> None:
    change(cluster, leader=1)
    assert cluster.partition("t").leader_epoch == 1


def test_other_changes_keep_the_leader_epoch(cluster: Cluster) -> None:
    change(cluster, isr=[1], directories=[directory(1), directory(2, 5)], removing_replicas=[2], last_known_elr=[2])
    changed = cluster.partition("t")
    assert (changed.isr, changed.leader, changed.leader_epoch, changed.partition_epoch) == ((1,), 1, 0, 1)
    assert changed.directories == (directory(1), directory(2, 5))
    assert (changed.removing_replicas, changed.adding_replicas, changed.last_known_elr) == ((2,), (), (2,))


@pytest.mark.parametrize(("name", "cleared"), [("t", True), ("", True), ("u", False)])
def test_elr_is_cleared_for_one_topic_or_for_all(cluster: Cluster, name: str, cleared: bool) -> None:
    change(cluster, eligible_leader_replicas=[2], last_known_elr=[1])
    cluster.replay([ClearElrRecord(topic_name=name)])
    partition = cluster.partition("t")
    expected = ((), (), 2) if cleared else ((2,), (1,), 1)
    assert (partition.eligible_leader_replicas, partition.last_known_elr, partition.partition_epoch) == expected


def test_clearing_an_empty_elr_changes_nothing(cluster: Cluster) -> None:
    before = cluster.partition("t")
    cluster.replay([ClearElrRecord(topic_name="t")])
    assert cluster.partition("t") == before


def test_a_partition_can_lose_its_leader(cluster: Cluster) -> None:
    change(cluster, leader=NO_LEADER, leader_recovery_state=1)
    changed = cluster.partition("t")
    assert (changed.leader, changed.leader_recovery_state) == (NO_LEADER, 1)


def test_partitions_of_older_records_have_no_directories_yet() -> None:
    cluster = Cluster()
    record = PartitionRecord(
        partition_id=0, topic_id=ID, replicas=[1, 2], isr=[1], removing_replicas=[], adding_replicas=[], leader=1
    )
    cluster.replay([TopicRecord(name="old", topic_id=ID), record])
    assert cluster.partition("old").directories == (DirectoryId.MIGRATING,) * 2


def test_topic_created_and_removed_in_one_batch_does_not_exist(cluster: Cluster) -> None:
    cluster.replay([TopicRecord(name="brief", topic_id=ID), RemoveTopicRecord(topic_id=ID)])
    assert cluster.image.topic("brief") is None
    assert cluster.image.topic_by_id(ID) is None


def test_config_with_a_null_value_is_removed(cluster: Cluster) -> None:
    def set_retention(value: str | None) -> None:
        cluster.replay([ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value=value)])

    set_retention("1")
    assert cluster.image.configs(ResourceType.TOPIC, "t") == {"retention.ms": "1"}
    set_retention(None)
    assert cluster.image.configs(ResourceType.TOPIC, "t") == {}
    assert not cluster.image.all_configs()
    set_retention(None)


def test_feature_at_level_0_is_removed(cluster: Cluster) -> None:
    cluster.replay([FeatureLevelRecord(name="f", feature_level=2)])
    assert cluster.image.features["f"] == 2
    cluster.replay([FeatureLevelRecord(name="f", feature_level=0)])
    assert "f" not in cluster.image.features


def test_registration_is_changed_and_removed(cluster: Cluster) -> None:
    epoch = cluster.image.brokers[2].epoch
    cluster.replay(
        [
            BrokerRegistrationChangeRecord(
                broker_id=2,
                broker_epoch=epoch,
                fenced=1,
                in_controlled_shutdown=1,
                log_dirs=[directory(2, 9)],
                cordoned_log_dirs=[directory(2, 9)],
            )
        ]
    )
    broker = cluster.image.brokers[2]
    assert (broker.fenced, broker.in_controlled_shutdown) == (True, True)
    assert (broker.directories, broker.cordoned_directories) == ((directory(2, 9),), (directory(2, 9),))
    cluster.replay([UnfenceBrokerRecord(id=2, epoch=epoch)])
    assert not cluster.image.brokers[2].fenced
    cluster.replay([FenceBrokerRecord(id=2, epoch=epoch)])
    assert cluster.image.brokers[2].fenced
    cluster.replay([UnregisterBrokerRecord(broker_id=2, broker_epoch=epoch)])  # type: ignore[unreachable]  # a call has changed it since
    assert list(cluster.image.brokers) == [1]


@pytest.mark.parametrize(
    "record",
    [
        RemoveTopicRecord(topic_id=ID),
        PartitionChangeRecord(partition_id=0, topic_id=ID, leader=1),
        TopicRecord(name="t", topic_id=ID),
        FenceBrokerRecord(id=1, epoch=99),
        UnregisterBrokerRecord(broker_id=9, broker_epoch=0),
        RemoveAccessControlEntryRecord(id=ID),
        ZkMigrationStateRecord(zk_migration_state=0),
    ],
)
def test_invalid_or_unknown_record_stops_the_broker(cluster: Cluster, record: object) -> None:
    with pytest.raises(InvariantError):
        cluster.replay([record])  # type: ignore[list-item]  # only this comes here


def test_a_change_of_a_partition_that_does_not_exist_stops_the_broker(cluster: Cluster) -> None:
    topic = cluster.image.topic("t")
    with pytest.raises(InvariantError):
        cluster.replay([PartitionChangeRecord(partition_id=7, topic_id=present(topic).topic_id, leader=1)])


def test_image_has_the_offset_and_epoch_of_its_last_record() -> None:
    image = apply_records(MetadataImage(cluster_id="c"), [NoOpRecord()], offset=41, epoch=3)
    assert (image.cluster_id, image.offset, image.epoch) == ("c", 41, 3)


def test_latest_controller_registration_replaces_the_previous_one() -> None:
    cluster = Cluster(brokers=0)
    first, second = (
        RegisterControllerRecord(
            controller_id=7,
            incarnation_id=incarnation,
            zk_migration_ready=False,
            end_points=[RegisteredListener(name="CONTROLLER", host="h", port=9093, security_protocol=0)],
            features=[SupportedFeature(name="f", min_supported_version=0, max_supported_version=2)],
        )
        for incarnation in (ID, b"j" * 16)
    )
    cluster.replay([first])
    old = cluster.image
    cluster.replay([second])
    assert cluster.image.controllers[7] == (7, b"j" * 16, {"CONTROLLER": ("h", 9093, 0)}, {"f": (0, 2)})
    assert old.controllers[7].incarnation_id == ID
