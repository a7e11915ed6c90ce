"""Brokers and controllers together: what is acknowledged stays, whoever dies, as long as a majority lives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from protocol.errors import ErrorCode
from tests.unit.broker.whole_cluster import BROKER, CONTROLLER, WholeCluster

NONE = ErrorCode.NONE


@pytest.fixture
def make() -> Iterator[Callable[..., WholeCluster]]:
    made: list[WholeCluster] = []

    def make(roles: dict[int, str] | None = None, **settings: str) -> WholeCluster:
        made.append(WholeCluster(roles, **settings))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture
def three(make: Callable[..., WholeCluster]) -> WholeCluster:
    cluster = make()
    cluster.start()
    return cluster


def in_sync(cluster: WholeCluster, topic: str, brokers: set[int], seen_by: int) -> Callable[[], bool]:
    def holds() -> bool:
        state: Any = cluster.partition(seen_by, topic)
        return state is not None and set(state.isr) == brokers

    return holds


def leader(cluster: WholeCluster, topic: str, seen_by: int) -> int:
    state: Any = cluster.partition(seen_by, topic)
    return int(state.leader)


def test_a_topic_made_through_a_follower_is_on_all_three(three: WholeCluster) -> None:
    follower = three.follower()
    assert three.create(follower, "t").error_code == NONE
    assert sorted(three.partition(follower, "t").replicas) == [1, 2, 3]
    assert three.produce(leader(three, "t", follower), "t", b"one") == NONE
    three.until(lambda: [three.values(node_id, "t") for node_id in (1, 2, 3)] == [[b"one"]] * 3)


def test_what_was_acknowledged_outlives_a_leader_that_stops_and_another_that_is_killed(three: WholeCluster) -> None:
    three.create(three.follower(), "t")
    first = leader(three, "t", three.active)
    assert three.produce(first, "t", b"one") == NONE
    three.stop(first)
    [one, two] = three.running
    second = leader(three, "t", one)
    assert second in (one, two)
    assert three.produce(second, "t", b"two") == NONE
    three.start(first)
    three.until(in_sync(three, "t", {1, 2, 3}, seen_by=one))
    three.kill(second)
    [one, two] = three.running
    three.until(lambda: leader(three, "t", one) in (one, two))
    third = leader(three, "t", one)
    three.until(lambda: three.broker(third).replicas.partition("t", 0).is_leader)
    assert three.produce(third, "t", b"three") == NONE
    assert three.values(third, "t") == [b"one", b"two", b"three"]


def test_a_broker_with_an_empty_disk_is_refilled_before_it_counts(three: WholeCluster) -> None:
    """Rule 28: an old id with nothing on its disk gets its partitions from the leaders."""
    three.create(three.follower(), "t")
    assert three.produce(leader(three, "t", 1), "t", b"one") == NONE
    lost = three.follower()
    three.kill(lost)
    three.wipe(lost)
    other = three.active
    three.until(lambda: lost not in three.partition(other, "t").isr)
    three.start(lost)
    three.until(in_sync(three, "t", {1, 2, 3}, seen_by=lost))
    three.until(lambda: three.values(lost, "t") == [b"one"])


def test_brokers_and_controllers_can_be_processes_of_their_own(make: Callable[..., WholeCluster]) -> None:
    cluster = make(dict.fromkeys((1, 2, 3), CONTROLLER) | dict.fromkeys((4, 5), BROKER))
    cluster.start()
    assert cluster.create(4, "t", replication_factor=2).error_code == NONE
    cluster.until(lambda: cluster.partition(5, "t"))
    assert sorted(cluster.partition(5, "t").replicas) == [4, 5]
    assert cluster.produce(leader(cluster, "t", 4), "t", b"one") == NONE
    cluster.kill(cluster.active)
    assert cluster.create(5, "u", replication_factor=2).error_code == NONE
