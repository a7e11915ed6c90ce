"""PartitionChangeBuilder: ISR, ELR, leader and epochs of one partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from controller.image import NO_LEADER, DirectoryId, PartitionImage
from controller.partition_change import (
    DEFAULT_SETTINGS,
    RECOVERED,
    RECOVERING,
    Election,
    PartitionChangeBuilder,
    elr_enabled,
    has_directory,
)
from protocol.records.metadata import PartitionChangeRecord
from tests.unit.controller.cluster import Cluster, directory
from tests.unit.controller.partitions import change, enable_elr, registration, topic_of


@pytest.fixture
def cluster() -> Cluster:
    """A topic on brokers 1, 2 and 3, led by 1, with min.insync.replicas=2."""
    cluster = Cluster(brokers=3)
    cluster.create("t", assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": "2"})
    return cluster


def builder(cluster: Cluster, **brokers: tuple[int, ...]) -> PartitionChangeBuilder:
    return PartitionChangeBuilder(cluster.image, cluster.settings, **brokers)


def decide(cluster: Cluster, by: PartitionChangeBuilder | None = None, **wanted: Any) -> PartitionChangeRecord | None:
    return (by or builder(cluster)).change(topic_of(cluster, "t"), cluster.partition("t"), **wanted)


def becomes(cluster: Cluster, by: PartitionChangeBuilder | None = None, **wanted: Any) -> PartitionImage:
    record = decide(cluster, by, **wanted)
    cluster.replay([] if record is None else [record])
    return cluster.partition("t")


def epochs(partition: PartitionImage) -> tuple[int, int]:
    return partition.leader_epoch, partition.partition_epoch


def test_builder_without_changes_returns_no_record(cluster: Cluster) -> None:
    assert decide(cluster) is None
    assert decide(cluster, isr=[1, 2, 3], recovery_state=RECOVERED, directories={1: directory(1)}) is None


def test_a_smaller_isr_raises_the_partition_epoch_alone(cluster: Cluster) -> None:
    after = becomes(cluster, isr=[1, 2])
    assert (after.isr, after.leader, epochs(after)) == ((1, 2), 1, (0, 1))


def test_another_leader_raises_both_epochs(cluster: Cluster) -> None:
    after = becomes(cluster, builder(cluster, leaving=(1,)), isr=[2, 3])
    assert (after.leader, epochs(after)) == (2, (1, 1))


def test_no_leader_raises_both_epochs_too(cluster: Cluster) -> None:
    after = becomes(cluster, builder(cluster, leaving=(1, 2, 3)))
    assert (after.leader, after.isr, epochs(after)) == (NO_LEADER, (1, 2, 3), (1, 1))


def test_current_leader_stays_although_another_replica_is_preferred(cluster: Cluster) -> None:
    change(cluster, leader=3)
    assert decide(cluster) is None
    assert becomes(cluster, election=Election.PREFERRED).leader == 1


def test_current_leader_stays_if_the_preferred_replica_cannot_lead(cluster: Cluster) -> None:
    change(cluster, leader=3)
    assert decide(cluster, builder(cluster, leaving=(1,)), election=Election.PREFERRED) is None


def test_fenced_or_stopping_broker_does_not_lead_unless_it_is_being_unfenced(cluster: Cluster) -> None:
    cluster.replay([registration(cluster, 1, fenced=1), registration(cluster, 2, in_controlled_shutdown=1)])
    assert becomes(cluster).leader == 3
    change(cluster, leader=NO_LEADER, isr=[1])
    assert decide(cluster) is None
    assert becomes(cluster, builder(cluster, joining=(1,))).leader == 1


def test_replica_out_of_sync_leads_only_by_unclean_election(cluster: Cluster) -> None:
    change(cluster, leader=NO_LEADER, isr=[1])
    gone = builder(cluster, leaving=(1,))
    assert decide(cluster, gone) is None
    after = becomes(cluster, gone, election=Election.UNCLEAN)
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), RECOVERING)


def test_unclean_election_prefers_in_sync_replicas(cluster: Cluster) -> None:
    change(cluster, leader=NO_LEADER, isr=[3])
    after = becomes(cluster, election=Election.UNCLEAN)
    assert (after.leader, after.isr, after.leader_recovery_state) == (3, (3,), RECOVERED)


def test_leader_reports_the_end_of_its_recovery(cluster: Cluster) -> None:
    change(cluster, isr=[1], leader_recovery_state=RECOVERING)
    after = becomes(cluster, recovery_state=RECOVERED)
    assert (after.leader_recovery_state, epochs(after)) == (RECOVERED, (0, 2))


def test_topic_config_decides_whether_elections_may_be_unclean(cluster: Cluster) -> None:
    cluster.create("u", assignments={0: [1, 2]}, configs={"unclean.leader.election.enable": "true"})
    by = builder(cluster)
    assert by.unclean_enabled(topic_of(cluster, "u"))
    assert not by.unclean_enabled(topic_of(cluster, "t"))
    change(cluster, "u", isr=[1], leader=NO_LEADER)
    record = builder(cluster, leaving=(1,)).change(topic_of(cluster, "u"), cluster.partition("u"))
    assert record is not None
    assert (record.leader, record.isr) == (2, [2])


class TestEligible:
    """With eligible.leader.replicas.version at 1."""

    @pytest.fixture(autouse=True)
    def eligible(self, cluster: Cluster) -> None:
        assert not elr_enabled(cluster.image)
        enable_elr(cluster)
        assert elr_enabled(cluster.image)

    def test_replica_that_leaves_an_isr_of_min_isr_does_not_join_the_elr(self, cluster: Cluster) -> None:
        assert becomes(cluster, isr=[1, 2]).eligible_leader_replicas == ()

    def test_replica_that_leaves_an_isr_below_min_isr_is_in_the_elr_until_min_isr_is_reached(
        self, cluster: Cluster
    ) -> None:
        becomes(cluster, isr=[1, 2])
        after = becomes(cluster, isr=[1])
        assert (after.isr, after.eligible_leader_replicas) == ((1,), (2,))
        assert becomes(cluster, isr=[1, 3]).eligible_leader_replicas == ()

    def test_min_isr_is_capped_at_the_number_of_replicas(self, cluster: Cluster) -> None:
        cluster.create("u", assignments={0: [1]}, configs={"min.insync.replicas": "5"})
        topic = topic_of(cluster, "u")
        change(cluster, "u", isr=[], leader=NO_LEADER, eligible_leader_replicas=[1])
        record = builder(cluster).change(topic, cluster.partition("u"), isr=[1])
        assert record is not None
        assert (record.leader, record.isr, record.eligible_leader_replicas) == (1, [1], [])

    def test_eligible_replica_leads_once_the_isr_is_empty(self, cluster: Cluster) -> None:
        change(cluster, isr=[1], eligible_leader_replicas=[2])
        after = becomes(cluster, builder(cluster, leaving=(1,)), isr=[])
        assert (after.leader, after.isr, after.eligible_leader_replicas) == (2, (2,), (1,))
        assert after.leader_recovery_state == RECOVERED

    def test_elr_is_cleared_if_the_new_leader_alone_meets_min_isr(self, cluster: Cluster) -> None:
        cluster.create("u", assignments={0: [1, 2, 3]})
        change(cluster, "u", isr=[], leader=NO_LEADER, eligible_leader_replicas=[1, 2, 3], last_known_elr=[1])
        record = builder(cluster).change(topic_of(cluster, "u"), cluster.partition("u"))
        assert record is not None
        assert (record.leader, record.isr, record.eligible_leader_replicas) == (1, [1], [])

    def test_absent_members_of_an_isr_older_than_the_elr_feature_join_the_elr(self, cluster: Cluster) -> None:
        change(cluster, isr=[1, 2], leader=NO_LEADER)
        after = becomes(cluster, builder(cluster, leaving=(1,)))
        assert (after.leader, after.isr, after.eligible_leader_replicas) == (2, (2,), (1,))

    def test_removed_replica_leaves_the_elr(self, cluster: Cluster) -> None:
        change(cluster, isr=[1], eligible_leader_replicas=[2], adding_replicas=[], removing_replicas=[2, 3])
        after = becomes(cluster, isr=[1])
        assert (after.replicas, after.isr, after.eligible_leader_replicas) == ((1,), (1,), ())

    def test_replica_after_an_unclean_shutdown_leaves_the_elr(self, cluster: Cluster) -> None:
        change(cluster, isr=[1], eligible_leader_replicas=[2])
        after = becomes(cluster, builder(cluster, unclean=(1, 2)), isr=[])
        assert (after.leader, after.isr, after.eligible_leader_replicas) == (NO_LEADER, (), ())
        assert after.last_known_elr == (1,)

    def test_last_known_leader_is_kept_until_a_leader_is_elected(self, cluster: Cluster) -> None:
        change(cluster, isr=[], leader=NO_LEADER, eligible_leader_replicas=[2], last_known_elr=[1])
        assert becomes(cluster, builder(cluster, unclean=(2,), leaving=(1,))).last_known_elr == (1,)
        after = becomes(cluster, builder(cluster))
        assert (after.leader, after.isr, after.leader_recovery_state) == (1, (1,), RECOVERING)
        assert after.last_known_elr == ()

    def test_inactive_last_known_leader_is_not_elected(self, cluster: Cluster) -> None:
        change(cluster, isr=[], leader=NO_LEADER, last_known_elr=[1])
        assert decide(cluster, builder(cluster, leaving=(1,))) is None

    def test_unclean_election_clears_the_elr(self, cluster: Cluster) -> None:
        change(cluster, isr=[], leader=NO_LEADER, eligible_leader_replicas=[1, 2], last_known_elr=[1])
        after = becomes(cluster, builder(cluster, leaving=(1, 2)), election=Election.UNCLEAN)
        assert (after.leader, after.isr, after.eligible_leader_replicas, after.last_known_elr) == (3, (3,), (), ())


def test_eligible_replica_leads_once_more_and_the_elr_is_cleared_after_a_downgrade(cluster: Cluster) -> None:
    change(cluster, isr=[], leader=NO_LEADER, eligible_leader_replicas=[2, 3])
    after = becomes(cluster)
    assert (after.leader, after.isr, after.eligible_leader_replicas) == (2, (2,), ())


@pytest.mark.parametrize(
    ("home", "works"),
    [
        (directory(1), True),
        (directory(1, 8), False),
        (DirectoryId.LOST, False),
        (DirectoryId.MIGRATING, True),
        (DirectoryId.UNASSIGNED, True),
    ],
)
def test_replica_leads_only_from_an_online_directory(cluster: Cluster, home: bytes, works: bool) -> None:
    assert has_directory(cluster.image.brokers[1], home) is works
    after = becomes(cluster, directories={1: home})
    assert after.directories == (home, directory(2), directory(3))
    assert after.leader == (1 if works else 2)


def test_broker_without_directory_ids_has_any_directory_but_the_lost_one(cluster: Cluster) -> None:
    broker = cluster.image.brokers[1]._replace(directories=())
    assert has_directory(broker, directory(1, 8))
    assert not has_directory(broker, DirectoryId.LOST)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        # Not all remaining replicas are in sync.
        ([1, 2], ((1, 2, 3), (1, 2), 1, 0)),
        ([1, 2, 3], ((1, 3), (1, 3), 1, 1)),
        ([1, 3], ((1, 3), (1, 3), 1, 1)),
    ],
)
def test_reassignment_completes_when_all_target_replicas_are_in_sync(
    cluster: Cluster, wanted: list[int], expected: tuple[Any, ...]
) -> None:
    change(cluster, isr=[1], adding_replicas=[3], removing_replicas=[2])
    after = becomes(cluster, isr=wanted)
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == expected
    assert len(after.directories) == len(after.replicas)


def test_unset_configs_have_their_defaults(cluster: Cluster) -> None:
    given: Mapping[str, str] = DEFAULT_SETTINGS.explicit
    assert (given, DEFAULT_SETTINGS["min.insync.replicas"]) == ({}, 1)
    assert not PartitionChangeBuilder(cluster.image).unclean_enabled(topic_of(cluster, "t"))
