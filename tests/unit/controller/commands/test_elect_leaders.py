"""ElectLeaders: preferred and unclean elections on request."""

from __future__ import annotations

from functools import partial

import pytest

from controller.commands.brokers import unregister_broker
from controller.commands.elect_leaders import ElectionType, elect_leaders
from controller.image import NO_LEADER
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.elect_leaders import ElectLeadersRequest
from tests.unit.controller.cluster import Cluster, directory
from tests.unit.controller.partitions import change, enable_elr, registration

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


@pytest.fixture
def cluster() -> Cluster:
    """A topic on brokers 1, 2 and 3, led by 1."""
    cluster = Cluster(brokers=3)
    cluster.create("t", assignments={0: [1, 2, 3]})
    return cluster


def fence(cluster: Cluster, *brokers: int) -> None:
    """Fence brokers without electing new leaders."""
    cluster.replay([registration(cluster, broker, fenced=1) for broker in brokers])


def query(cluster: Cluster, election: int, **partitions: list[int]) -> dict[str, list[tuple[int, int]]]:
    """Elect leaders of the named partitions, by topic, or of all; return an error code for each."""
    topics = [ElectLeadersRequest.Topic(topic=topic, partitions=indexes) for topic, indexes in partitions.items()]
    request = ElectLeadersRequest(election_type=election, topic_partitions=topics or None)
    results = cluster.apply(partial(elect_leaders, request=request, settings=cluster.settings)).replica_election_results
    return {topic.topic: [(one.partition_id, one.error_code) for one in topic.partition_result] for topic in results}


def elect(cluster: Cluster, election: ElectionType) -> int:
    [(_, code)] = query(cluster, election, t=[0])["t"]
    return code


def test_preferred_election_elects_the_preferred_replica(cluster: Cluster) -> None:
    change(cluster, leader=2)
    epoch = cluster.partition("t").leader_epoch
    assert elect(cluster, PREFERRED) == ErrorCode.NONE
    after = cluster.partition("t")
    assert (after.leader, after.leader_epoch, after.isr) == (1, epoch + 1, (1, 2, 3))


@pytest.mark.parametrize("election", ElectionType)
def test_election_of_the_current_leader_returns_election_not_needed(cluster: Cluster, election: ElectionType) -> None:
    assert elect(cluster, election) == ErrorCode.ELECTION_NOT_NEEDED
    assert cluster.records == ()


def test_a_preferred_replica_out_of_sync_cannot_lead(cluster: Cluster) -> None:
    change(cluster, leader=2, isr=[2, 3])
    assert elect(cluster, PREFERRED) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert cluster.partition("t").leader == 2


def test_a_preferred_replica_on_a_fenced_broker_cannot_lead(cluster: Cluster) -> None:
    change(cluster, leader=2)
    fence(cluster, 1)
    assert elect(cluster, PREFERRED) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_preferred_election_without_a_leader_elects_any_in_sync_replica(cluster: Cluster) -> None:
    change(cluster, leader=NO_LEADER, isr=[3])
    assert elect(cluster, PREFERRED) == ErrorCode.NONE
    assert cluster.partition("t").leader == 3


def test_unclean_election_prefers_in_sync_replicas(cluster: Cluster) -> None:
    change(cluster, leader=NO_LEADER, isr=[3])
    assert elect(cluster, UNCLEAN) == ErrorCode.NONE
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_recovery_state) == (3, (3,), 0)


def test_unclean_election_without_a_replica_in_its_directory_elects_an_active_broker(
    cluster: Cluster,
) -> None:
    change(cluster, leader=NO_LEADER, isr=[3], directories=[directory(broker, 9) for broker in (1, 2, 3)])
    fence(cluster, 1)
    assert elect(cluster, PREFERRED) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect(cluster, UNCLEAN) == ErrorCode.NONE
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), 1)


def test_an_unclean_election_prefers_a_replica_that_is_in_its_directory(cluster: Cluster) -> None:
    change(cluster, leader=NO_LEADER, isr=[1], directories=[directory(1, 9), directory(2, 9), directory(3)])
    assert elect(cluster, UNCLEAN) == ErrorCode.NONE
    assert cluster.partition("t").leader == 3


def test_unclean_election_elects_an_active_replica_and_shrinks_the_isr_to_it(cluster: Cluster) -> None:
    change(cluster, leader=NO_LEADER, isr=[3])
    fence(cluster, 1, 3)
    assert elect(cluster, UNCLEAN) == ErrorCode.NONE
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), 1)


def test_election_without_an_active_replica_fails(cluster: Cluster) -> None:
    change(cluster, leader=NO_LEADER)
    fence(cluster, 1, 3)
    cluster.apply(partial(unregister_broker, broker_id=2))
    assert elect(cluster, UNCLEAN) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert elect(cluster, PREFERRED) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_eligible_leader_replica_is_elected_cleanly_with_an_empty_isr(cluster: Cluster) -> None:
    cluster.settings.explicit["min.insync.replicas"] = "2"
    enable_elr(cluster)
    change(cluster, leader=NO_LEADER, isr=[], eligible_leader_replicas=[2, 3], last_known_elr=[1])
    assert elect(cluster, PREFERRED) == ErrorCode.NONE
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), 0)
    assert (after.eligible_leader_replicas, after.last_known_elr) == ((3,), ())


def test_unknown_topic_or_partition_is_refused(cluster: Cluster) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert query(cluster, PREFERRED, t=[7], missing=[0]) == {"t": [(7, unknown)], "missing": [(0, unknown)]}


def test_election_of_all_partitions_returns_only_those_that_needed_it(cluster: Cluster) -> None:
    cluster.create("u", assignments={0: [3], 1: [3]})
    change(cluster, leader=2)
    assert query(cluster, PREFERRED) == {"t": [(0, ErrorCode.NONE)], "u": []}


def test_a_partition_named_twice_is_elected_once(cluster: Cluster) -> None:
    change(cluster, leader=2)
    assert query(cluster, PREFERRED, t=[0, 0]) == {"t": [(0, ErrorCode.NONE)] * 2}
    assert len(cluster.records) == 1


def test_an_unknown_type_of_election_is_refused(cluster: Cluster) -> None:
    with pytest.raises(KafkaError) as refused:
        query(cluster, 2, t=[0])
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_replica_in_a_directory_that_has_failed_is_not_elected(cluster: Cluster) -> None:
    change(cluster, leader=NO_LEADER)
    cluster.replay([registration(cluster, 1, log_dirs=[directory(1, 9)])])
    assert elect(cluster, PREFERRED) == ErrorCode.NONE
    assert cluster.partition("t").leader == 2


def test_unclean_election_prefers_the_last_known_leader(cluster: Cluster) -> None:
    enable_elr(cluster)
    change(cluster, leader=NO_LEADER, isr=[], last_known_elr=[3])
    assert elect(cluster, UNCLEAN) == ErrorCode.NONE
    after = cluster.partition("t")
    assert (after.leader, after.leader_recovery_state, after.last_known_elr) == (3, 1, ())


def test_more_elections_than_one_batch_holds_are_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.commands.elect_leaders.MAX_RECORDS_PER_BATCH", 1)
    cluster.create("u", assignments={0: [1, 2], 1: [1, 2]})
    for index in (0, 1):
        change(cluster, "u", index, leader=2)
    with pytest.raises(KafkaError) as refused:
        query(cluster, PREFERRED, u=[0, 1])
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert query(cluster, PREFERRED, u=[1]) == {"u": [(1, ErrorCode.NONE)]}
