"""Broker registration, fencing, unfencing and unregistration."""

from __future__ import annotations

from functools import partial

import pytest

from controller.commands.brokers import (
    cordon_directories,
    fence_brokers,
    take_directories_offline,
    unfence_broker,
    unregister_broker,
)
from controller.image import NO_LEADER
from protocol.errors import ErrorCode, KafkaError
from protocol.records.metadata import BrokerRegistrationChangeRecord, PartitionChangeRecord
from tests.unit.controller.cluster import Cluster, Settings, directory
from tests.unit.controller.partitions import enable_elr


def test_broker_registers_fenced_with_the_fields_of_its_request() -> None:
    cluster = Cluster(brokers=0)
    epoch = cluster.add_broker(5, rack="r", directories=2, fenced=True)
    broker = cluster.image.brokers[5]
    assert broker.fenced
    assert not broker.active
    assert (broker.epoch, broker.rack) == (epoch, "r")
    assert broker.endpoints["PLAINTEXT"].host == "host5"
    assert broker.directories == (directory(5, 0), directory(5, 1))
    assert broker.features["metadata.version"][1] == 30


def test_broker_epoch_is_the_offset_of_the_registration_record() -> None:
    cluster = Cluster(brokers=1)
    offset = cluster.image.offset
    assert cluster.add_broker(2, fenced=True) == offset + 1


def test_unfenced_broker_is_active() -> None:
    cluster = Cluster(brokers=0)
    epoch = cluster.add_broker(1, fenced=True)
    cluster.apply(lambda image: unfence_broker(image, 1, epoch))
    assert cluster.image.brokers[1].active
    cluster.apply(lambda image: unfence_broker(image, 1, epoch))
    assert cluster.records == ()


def test_stale_broker_epoch_cannot_be_unfenced() -> None:
    cluster = Cluster(brokers=0)
    epoch = cluster.add_broker(1)
    cluster.add_broker(1, fenced=True)
    with pytest.raises(KafkaError) as stale:
        cluster.apply(lambda image: unfence_broker(image, 1, epoch))
    assert stale.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_an_unknown_broker_cannot_be_unfenced() -> None:
    with pytest.raises(KafkaError) as unknown:
        Cluster().apply(lambda image: unfence_broker(image, 9, 0))
    assert unknown.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_restarted_only_replica_loses_leadership_and_regains_it_in_a_later_epoch() -> None:
    cluster = Cluster()
    cluster.create("t", 2)
    epoch = cluster.add_broker(1, fenced=True)
    fenced = cluster.partition("t", 1)
    assert (fenced.leader, fenced.leader_epoch, fenced.isr) == (NO_LEADER, 1, (1,))
    cluster.apply(lambda image: unfence_broker(image, 1, epoch))
    for index in (0, 1):
        again = cluster.partition("t", index)
        assert (again.leader, again.leader_epoch, again.partition_epoch) == (1, 2, 2)


def test_partitions_of_a_restarted_leader_move_to_another_in_sync_replica() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", assignments={0: [1, 2], 1: [2, 1]})
    cluster.add_broker(1, fenced=True)
    led, followed = cluster.partition("t", 0), cluster.partition("t", 1)
    assert (led.leader, led.leader_epoch, led.isr) == (2, 1, (2,))
    # Broker 1 was the only leader, so leader and epoch stay; the restarted broker may have lost its log's tail.
    assert (followed.leader, followed.leader_epoch, followed.isr) == (2, 0, (2,))


def test_returning_broker_does_not_replace_other_leaders() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", assignments={0: [1, 2]})
    cluster.add_broker(1)
    assert cluster.partition("t").leader == 2


def test_eligible_leader_replica_leads_when_the_isr_is_empty() -> None:
    cluster = Cluster()
    topic_id = cluster.create("t").topic_id
    stopped = PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, leader=NO_LEADER, isr=[], eligible_leader_replicas=[1], last_known_elr=[1]
    )
    cluster.replay([stopped])
    cluster.add_broker(1)
    partition = cluster.partition("t")
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 2, (1,))
    assert partition.eligible_leader_replicas == ()


def test_replica_that_may_lack_records_is_not_elected() -> None:
    cluster = Cluster(brokers=2)
    topic_id = cluster.create("t", assignments={0: [1, 2]}).topic_id
    gone = PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=NO_LEADER, isr=[1])
    cluster.replay([gone])
    fence(cluster, 1)
    cluster.add_broker(2)
    assert cluster.partition("t").leader == NO_LEADER


def fence(cluster: Cluster, *brokers: int) -> None:
    epochs = {broker: cluster.image.brokers[broker].epoch for broker in brokers}
    cluster.apply(lambda image: fence_brokers(image, epochs, cluster.settings))


def test_fenced_broker_loses_leadership_and_isr_membership() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", assignments={0: [1, 2, 3], 1: [2, 3, 1]})
    fence(cluster, 1)
    assert [broker.active for broker in cluster.image.brokers.values()] == [False, True, True]
    led, followed = cluster.partition("t", 0), cluster.partition("t", 1)
    assert (led.leader, led.isr, followed.leader, followed.isr) == (2, (2, 3), 2, (2, 3))


def test_brokers_that_are_fenced_together_do_not_elect_each_other() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", assignments={0: [1, 2, 3]})
    fence(cluster, 1, 2)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (3, (3,))


def test_fencing_record_follows_the_partition_changes() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", assignments={0: [1, 2]})
    fence(cluster, 1)
    assert [type(record) for record in cluster.records] == [PartitionChangeRecord, BrokerRegistrationChangeRecord]


def test_only_active_brokers_with_the_current_epoch_are_fenced() -> None:
    cluster = Cluster(brokers=2)
    epoch = cluster.image.brokers[1].epoch
    fence(cluster, 2)
    cluster.add_broker(1)
    cluster.apply(lambda image: fence_brokers(image, {1: epoch, 2: cluster.image.brokers[2].epoch, 3: 0}, Settings()))
    assert cluster.records == ()


def test_cordoned_directories_get_no_new_replicas() -> None:
    cluster = Cluster(brokers=0)
    epoch = cluster.add_broker(1, directories=3)
    open_directory, *cordoned = cluster.image.brokers[1].directories
    cluster.apply(lambda image: cordon_directories(image, 1, epoch, tuple(cordoned)))
    cluster.create("t", 10)
    assert {cluster.partition("t", index).directories for index in range(10)} == {(open_directory,)}
    cluster.apply(lambda image: cordon_directories(image, 1, epoch, tuple(cordoned)))
    assert cluster.records == ()
    cluster.apply(lambda image: cordon_directories(image, 1, epoch, ()))
    cluster.create("u", 10)
    assert len({cluster.partition("u", index).directories for index in range(10)}) == 3


def test_broker_with_all_directories_cordoned_gets_only_manually_assigned_replicas() -> None:
    cluster = Cluster(brokers=1)
    broker = cluster.image.brokers[1]
    cluster.apply(lambda image: cordon_directories(image, 1, broker.epoch, broker.directories))
    assert cluster.create("t").error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert cluster.create("t", assignments={0: [1]}).error_code == ErrorCode.NONE
    assert cluster.partition("t").directories == broker.directories


def test_directories_that_have_failed_get_no_new_replicas_until_the_broker_registers_again() -> None:
    cluster = Cluster(brokers=0)
    epoch = cluster.add_broker(1, directories=3)
    left, *failed = cluster.image.brokers[1].directories
    cluster.apply(lambda image: take_directories_offline(image, 1, epoch, failed))
    cluster.create("t", 10)
    assert {cluster.partition("t", index).directories for index in range(10)} == {(left,)}
    cluster.apply(lambda image: take_directories_offline(image, 1, epoch, failed))
    assert cluster.records == ()
    cluster.add_broker(1, directories=3)
    cluster.create("u", 10)
    assert len({cluster.partition("u", index).directories for index in range(10)}) == 3


def test_last_online_directory_of_a_broker_is_kept() -> None:
    cluster = Cluster(brokers=1)
    broker = cluster.image.brokers[1]
    cluster.apply(lambda image: take_directories_offline(image, 1, broker.epoch, broker.directories))
    assert cluster.image.brokers[1].directories == broker.directories


def test_only_the_registered_broker_epoch_can_cordon_directories() -> None:
    with pytest.raises(KafkaError) as refused:
        Cluster(brokers=1).apply(lambda image: cordon_directories(image, 1, 77, ()))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_unregistered_broker_is_removed_and_its_partitions_get_other_leaders() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", assignments={0: [1, 2]})
    cluster.create("u", assignments={0: [1]})
    cluster.apply(lambda image: unregister_broker(image, 1))
    assert list(cluster.image.brokers) == [2]
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))
    # Only its replica has every record; it leads again when the broker comes back.
    assert (cluster.partition("u").leader, cluster.partition("u").isr) == (NO_LEADER, (1,))
    cluster.add_broker(1)
    assert cluster.partition("u").leader == 1


def test_unregistered_broker_stays_in_the_elr_and_leads_nothing() -> None:
    cluster = Cluster(brokers=2)
    enable_elr(cluster)
    cluster.create("t", assignments={0: [1, 2]}, configs={"min.insync.replicas": "2"})
    for broker_id in (1, 2):
        cluster.apply(partial(unregister_broker, broker_id=broker_id))
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.eligible_leader_replicas) == (NO_LEADER, (), (1, 2))
    assert after.last_known_elr == (2,)


def test_unknown_broker_cannot_be_unregistered() -> None:
    with pytest.raises(KafkaError) as refused:
        Cluster(brokers=1).apply(lambda image: unregister_broker(image, 2))
    assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_replicas_in_a_directory_that_failed_are_not_in_sync() -> None:
    cluster = Cluster(brokers=0)
    cluster.add_broker(2)
    epoch = cluster.add_broker(1, directories=2)
    cluster.create("t", assignments={index: [1, 2] for index in range(4)})
    cluster.apply(lambda image: take_directories_offline(image, 1, epoch, [directory(1, 0)], cluster.settings))
    for index in range(4):
        partition = cluster.partition("t", index)
        failed = partition.directories[0] == directory(1, 0)
        assert (partition.leader, partition.isr) == ((2, (2,)) if failed else (1, (1, 2)))
    assert cluster.image.brokers[1].directories == (directory(1, 1),)
