"""The ends of logs on any broker of a cluster, and the refusals of what another broker leads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.control.api_problem import ApiProblem
from broker.control.log_ends import LogEnds, log_ends
from broker.control.partitions import led_partition, local_leaders
from tests.unit.broker.whole_cluster import WholeCluster


@pytest.fixture
def three() -> Iterator[WholeCluster]:
    """Start three brokers with a topic of three partitions, of which each leads one."""
    cluster = WholeCluster()
    cluster.start()
    cluster.create(cluster.active, "t", partitions=3)
    yield cluster
    cluster.close()


def run(cluster: WholeCluster, node_id: int, work: Any) -> Any:
    """Return the result of a coroutine on a node's loop."""
    task = cluster.broker(node_id).loop.create_task(work)
    cluster.until(task.done)
    return task.result()


def leaders(cluster: WholeCluster) -> dict[int, int]:
    return {index: cluster.partition(1, "t", index).leader for index in range(3)}


def test_the_ends_of_partitions_led_elsewhere_come_from_their_leaders(three: WholeCluster) -> None:
    for index, leader in leaders(three).items():
        for number in range(index + 1):
            three.produce(leader, "t", b"%d" % number, index)
    found = run(three, 1, log_ends(three.broker(1), [("t", index) for index in range(3)]))
    assert found == {("t", 0): LogEnds(0, 1), ("t", 1): LogEnds(0, 2), ("t", 2): LogEnds(0, 3)}
    assert sorted(leaders(three).values()) == [1, 2, 3], "each was led by another broker"


def test_partitions_without_a_leader_that_responds_are_left_out(three: WholeCluster) -> None:
    [of_two] = [index for index, leader in leaders(three).items() if leader == 2]
    [of_one] = [index for index, leader in leaders(three).items() if leader == 1]
    for other in (1, 3):
        three.cut(2, other)
    found = run(three, 1, log_ends(three.broker(1), [("t", of_one), ("t", of_two), ("unknown", 0)]))
    assert found == {("t", of_one): LogEnds(0, 0)}


def test_a_partition_led_elsewhere_is_refused_with_its_leader(three: WholeCluster) -> None:
    for index, leader in leaders(three).items():
        broker = three.broker(leader)
        assert local_leaders(broker, "t") == {index: led_partition(broker, "t", index)}
        with pytest.raises(ApiProblem, match=rf"the leader of t-{index} is at broker {leader}") as refused:
            led_partition(three.broker(leader % 3 + 1), "t", index)
        assert (refused.value.status, refused.value.fields) == (421, {"broker": leader})


def test_a_group_is_refused_with_its_coordinator(three: WholeCluster) -> None:
    from broker.control.groups import group_host

    hosts: dict[int, Any] = {}
    refused: dict[int, int] = {}
    for node_id in (1, 2, 3):
        try:
            hosts[node_id] = run(three, node_id, group_host(three.broker(node_id), "g"))
        except ApiProblem as problem:
            refused[node_id] = problem.fields["broker"]  # type: ignore[assignment]  # always an integer
    [coordinator] = hosts
    assert refused == dict.fromkeys({1, 2, 3} - {coordinator}, coordinator)
