"""Periodic leader elections: preferred leaders, and unclean leaders where topics allow them."""

from __future__ import annotations

from functools import partial

import pytest

from controller.commands.periodic_elections import balance_leaders, elect_unclean_leaders
from controller.image import NO_LEADER
from tests.unit.controller.cluster import Cluster, directory
from tests.unit.controller.partitions import change, fence, unfence


@pytest.fixture
def cluster() -> Cluster:
    """Topic t: four partitions on brokers 1, 2 and 3, all led by 1."""
    cluster = Cluster(brokers=3)
    cluster.create("t", assignments={index: [1, 2, 3] for index in range(4)})
    return cluster


def leaders(cluster: Cluster) -> list[int]:
    return [cluster.partition("t", index).leader for index in range(4)]


def balance(cluster: Cluster, limit: int = 1000) -> bool:
    more: bool = cluster.apply(partial(balance_leaders, settings=cluster.settings, limit=limit))
    return more


def elect(cluster: Cluster, limit: int = 1000) -> bool:
    more: bool = cluster.apply(partial(elect_unclean_leaders, settings=cluster.settings, limit=limit))
    return more


def come_back(cluster: Cluster) -> None:
    """Fence and unfence broker 1 and add it to the ISR again; broker 2 leads."""
    fence(cluster, 1)
    unfence(cluster, 1)
    for index in range(4):
        change(cluster, index=index, isr=[1, 2, 3])


def test_preferred_replicas_lead_again_once_in_sync(cluster: Cluster) -> None:
    come_back(cluster)
    assert leaders(cluster) == [2] * 4
    assert not balance(cluster)
    assert leaders(cluster) == [1] * 4


def test_balanced_cluster_needs_no_election(cluster: Cluster) -> None:
    assert not balance(cluster)
    assert cluster.records == ()


def test_preferred_replicas_out_of_sync_are_not_elected(cluster: Cluster) -> None:
    come_back(cluster)
    change(cluster, index=2, isr=[2, 3])
    balance(cluster)
    assert leaders(cluster) == [1, 1, 2, 1]


def test_elections_per_pass_are_limited(cluster: Cluster) -> None:
    come_back(cluster)
    assert balance(cluster, limit=3)
    assert leaders(cluster) == [1, 1, 1, 2]
    assert not balance(cluster, limit=3)
    assert leaders(cluster) == [1] * 4


def test_topics_that_allow_it_get_unclean_leaders(cluster: Cluster) -> None:
    for index in range(3):
        change(cluster, index=index, isr=[1])
    fence(cluster, 1)
    assert leaders(cluster) == [NO_LEADER] * 3 + [2]
    assert not elect(cluster)
    assert cluster.records == ()
    cluster.settings.explicit["unclean.leader.election.enable"] = "true"
    assert elect(cluster, limit=2)
    assert leaders(cluster) == [2, 2, NO_LEADER, 2]
    assert not elect(cluster, limit=2)
    assert leaders(cluster) == [2] * 4
    assert [cluster.partition("t", index).leader_recovery_state for index in range(4)] == [1, 1, 1, 0]


def test_periodic_election_skips_replicas_that_lost_their_directory(cluster: Cluster) -> None:
    cluster.settings.explicit["unclean.leader.election.enable"] = "true"
    change(cluster, leader=NO_LEADER, isr=[1], directories=[directory(broker, 9) for broker in (1, 2, 3)])
    assert not elect(cluster)
    assert leaders(cluster)[0] == NO_LEADER
