"""Leader elections after brokers are fenced, unfenced, restarted, or lose a log directory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from controller.image import NO_LEADER, PartitionImage
from controller.leader_and_isr_updates import (
    leads_any,
    on_broker_unfenced,
    on_brokers_fenced,
    on_controlled_shutdown,
    on_directory_failure,
    on_unclean_restart,
)
from controller.partition_change import RECOVERED, RECOVERING
from protocol.records.metadata import PartitionChangeRecord
from protocol.schema import Message
from tests.unit.controller.cluster import Cluster, directory
from tests.unit.controller.partitions import change, enable_elr, fence, registration, unfence


@pytest.fixture
def cluster() -> Cluster:
    """Topic t on brokers 1, 2 and 3: one partition led by 1, one by 2."""
    cluster = Cluster(brokers=3)
    cluster.create("t", assignments={0: [1, 2, 3], 1: [2, 3, 1]})
    return cluster


def replay(cluster: Cluster, records: Sequence[Message]) -> PartitionImage:
    cluster.replay(records)
    return cluster.partition("t")


def test_partitions_of_a_fenced_leader_move_to_the_next_in_sync_replica(cluster: Cluster) -> None:
    fence(cluster, 1)
    led, followed = cluster.partition("t", 0), cluster.partition("t", 1)
    assert (led.leader, led.leader_epoch, led.partition_epoch, led.isr) == (2, 1, 1, (2, 3))
    assert (followed.leader, followed.leader_epoch, followed.partition_epoch, followed.isr) == (2, 0, 1, (2, 3))


def test_partitions_that_a_fenced_broker_is_not_in_sync_for_stay_as_they_are(cluster: Cluster) -> None:
    change(cluster, isr=[1, 2])
    [record] = on_brokers_fenced(cluster.image, [3])
    assert isinstance(record, PartitionChangeRecord)
    assert record.partition_id == 1


def test_fenced_last_in_sync_replica_stays_in_the_isr_without_a_leader(cluster: Cluster) -> None:
    change(cluster, isr=[1])
    fence(cluster, 1)
    after = cluster.partition("t")
    assert (after.leader, after.leader_epoch, after.isr) == (NO_LEADER, 1, (1,))


def test_brokers_fenced_together_stay_in_the_isr_if_they_are_all_of_it(cluster: Cluster) -> None:
    change(cluster, isr=[1, 2])
    fence(cluster, 1, 2)
    after = cluster.partition("t")
    assert (after.leader, after.isr) == (NO_LEADER, (1, 2))


def test_first_unfenced_of_brokers_fenced_together_leads_as_the_only_isr_member(cluster: Cluster) -> None:
    change(cluster, isr=[1, 2])
    fence(cluster, 1, 2)
    unfence(cluster, 2)
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), RECOVERED)


def test_unfenced_in_sync_broker_leads_leaderless_partitions(cluster: Cluster) -> None:
    change(cluster, isr=[1])
    fence(cluster, 1)
    unfence(cluster, 1)
    after = cluster.partition("t")
    assert (after.leader, after.leader_epoch, after.isr) == (1, 2, (1,))


def test_unfenced_broker_out_of_sync_is_not_elected(cluster: Cluster) -> None:
    change(cluster, isr=[1])
    fence(cluster, 1, 2)
    assert on_broker_unfenced(cluster.image, 2) == []


def test_unfenced_broker_does_not_replace_a_leader(cluster: Cluster) -> None:
    fence(cluster, 1)
    unfence(cluster, 1)
    assert cluster.partition("t").leader == 2


def test_broker_in_controlled_shutdown_loses_its_leaderships(cluster: Cluster) -> None:
    assert leads_any(cluster.image, 1)
    after = replay(cluster, on_controlled_shutdown(cluster.image, 1))
    assert (after.leader, after.isr) == (2, (2, 3))
    assert not leads_any(cluster.image, 1)


def test_active_replica_leads_where_unclean_election_is_enabled(cluster: Cluster) -> None:
    cluster.create("u", assignments={0: [1, 2, 3]}, configs={"unclean.leader.election.enable": "true"})
    change(cluster, "u", isr=[1])
    fence(cluster, 1)
    after = cluster.partition("u")
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), RECOVERING)


def test_unclean_election_can_be_enabled_by_the_controllers_file(cluster: Cluster) -> None:
    change(cluster, isr=[1])
    cluster.settings.explicit["unclean.leader.election.enable"] = "true"
    after = replay(cluster, on_brokers_fenced(cluster.image, [1], cluster.settings))
    assert (after.leader, after.leader_recovery_state) == (2, RECOVERING)


def test_leaders_in_a_failed_directory_are_replaced(cluster: Cluster) -> None:
    after = replay(cluster, on_directory_failure(cluster.image, 1, [directory(1)]))
    assert (after.leader, after.isr) == (2, (2, 3))
    assert cluster.partition("t", 1).isr == (2, 3)


def test_replicas_in_other_directories_are_unaffected_by_a_failed_one(cluster: Cluster) -> None:
    assert on_directory_failure(cluster.image, 1, [directory(1, 5), directory(2)]) == []


def test_broker_with_a_failed_directory_does_not_lead_its_replicas(cluster: Cluster) -> None:
    change(cluster, isr=[1])
    fence(cluster, 1)
    other = directory(1, 9)
    cluster.replay([registration(cluster, 1, log_dirs=[other])])
    assert on_broker_unfenced(cluster.image, 1) == []
    change(cluster, directories=[other, directory(2), directory(3)])
    assert len(on_broker_unfenced(cluster.image, 1)) == 1


class TestEligibleLeaders:
    """With eligible.leader.replicas.version at 1."""

    @pytest.fixture(autouse=True)
    def eligible(self, cluster: Cluster) -> None:
        enable_elr(cluster)
        cluster.settings.explicit["min.insync.replicas"] = "2"

    def fence(self, cluster: Cluster, *brokers: int) -> PartitionImage:
        for broker in brokers:
            fence(cluster, broker)
        return cluster.partition("t")

    def unfence(self, cluster: Cluster, broker: int) -> PartitionImage:
        unfence(cluster, broker)
        return cluster.partition("t")

    def test_replica_that_leaves_an_isr_below_min_isr_joins_the_elr(self, cluster: Cluster) -> None:
        assert self.fence(cluster, 1).eligible_leader_replicas == ()
        after = self.fence(cluster, 2)
        assert (after.leader, after.isr, after.eligible_leader_replicas) == (3, (3,), (2,))

    def test_isr_can_be_empty_and_the_last_known_leader_is_kept(self, cluster: Cluster) -> None:
        after = self.fence(cluster, 1, 2, 3)
        assert (after.leader, after.isr) == (NO_LEADER, ())
        assert (after.eligible_leader_replicas, after.last_known_elr) == ((2, 3), (3,))

    def test_an_eligible_replica_leads_an_empty_isr_cleanly(self, cluster: Cluster) -> None:
        self.fence(cluster, 1, 2, 3)
        after = self.unfence(cluster, 2)
        assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), RECOVERED)
        assert (after.eligible_leader_replicas, after.last_known_elr) == ((3,), ())

    def test_replica_outside_the_elr_does_not_lead_an_empty_isr(self, cluster: Cluster) -> None:
        self.fence(cluster, 1, 2, 3)
        assert self.unfence(cluster, 1).leader == NO_LEADER

    def test_rule_8_an_unclean_restart_takes_a_broker_out_of_isr_and_elr_before_it_can_lead(
        self, cluster: Cluster
    ) -> None:
        self.fence(cluster, 1, 2, 3)
        restarted = replay(cluster, on_unclean_restart(cluster.image, 2, cluster.settings))
        assert (restarted.leader, restarted.isr, restarted.eligible_leader_replicas) == (NO_LEADER, (), (3,))
        assert self.unfence(cluster, 2).leader == NO_LEADER
        assert self.unfence(cluster, 3).leader == 3

    def test_rule_8_unclean_restart_of_the_leader_elects_another_in_sync_replica(self, cluster: Cluster) -> None:
        after = replay(cluster, on_unclean_restart(cluster.image, 1, cluster.settings))
        assert (after.leader, after.leader_epoch, after.isr) == (2, 1, (2, 3))
        assert after.eligible_leader_replicas == ()

    def test_last_known_leader_is_elected_uncleanly_with_an_empty_elr(self, cluster: Cluster) -> None:
        self.fence(cluster, 1, 2, 3)
        for broker in (2, 3):
            replay(cluster, on_unclean_restart(cluster.image, broker, cluster.settings))
        assert self.unfence(cluster, 2).leader == NO_LEADER
        after = self.unfence(cluster, 3)
        assert (after.leader, after.isr, after.leader_recovery_state) == (3, (3,), RECOVERING)
        assert (after.eligible_leader_replicas, after.last_known_elr) == ((), ())


def test_without_elr_the_last_in_sync_replica_stays_in_the_isr_after_an_unclean_restart(cluster: Cluster) -> None:
    change(cluster, isr=[1])
    after = replay(cluster, on_unclean_restart(cluster.image, 1))
    assert (after.leader, after.isr, after.eligible_leader_replicas) == (NO_LEADER, (1,), ())
