"""Throttled replication between three brokers (KIP-73): broker 3 is not in sync, broker 2 is; both follow broker 1."""

from __future__ import annotations

import pytest

from controller.image import ResourceType
from protocol.records.metadata import ConfigRecord
from tests.unit.broker.node import config_records
from tests.unit.broker.replica_cluster import ReplicaCluster

VALUE = bytes(900_000)
BATCHES = 12
SIZE = BATCHES * len(VALUE)
RATE = 1_000_000
SIDES = [("leader", "0:1"), ("follower", "0:3"), ("leader", "*"), ("follower", "*")]


def limit(cluster: ReplicaCluster, side: str, rate: int | None) -> None:
    """Set the rate of one side on all brokers."""
    name = f"{side}.replication.throttled.rate"
    value = None if rate is None else str(rate)
    cluster.commit(ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name=name, value=value))


def behind(cluster: ReplicaCluster, side: str, replicas: str) -> None:
    """Let the leader and broker 2 have `BATCHES` batches, and broker 3 none; throttle `replicas` of the topic."""
    cluster.place(1, 2, 3, isr=(1, 2))
    throttle(cluster, side, replicas)
    cluster.cut(1, 3)
    cluster.reset(1, 3)
    for _ in range(BATCHES):
        cluster.append(VALUE)
    cluster.until(lambda: cluster.ends()[2][1] == BATCHES, "broker 2 has the records")
    # The bytes that broker 2 fetched before leave the window.
    cluster.let_pass(15)
    assert cluster.ends()[3][1] == 0


def throttle(cluster: ReplicaCluster, side: str, replicas: str) -> None:
    """Set the throttled replicas of one side."""
    cluster.commit(*config_records("t", {f"{side}_replication_throttled_replicas": replicas}))


def seconds_until(cluster: ReplicaCluster, broker: int, end: int, topic: str = "t") -> float:
    """Return how long it takes until the log of a broker has `end` batches."""
    began_s = cluster.schedule.now
    cluster.until(lambda: cluster.ends(topic)[broker][1] == end, f"broker {broker} has {end} batches")
    return cluster.schedule.now - began_s


def seconds_until_equal(cluster: ReplicaCluster) -> float:
    """Connect broker 3, and return how long it takes to catch up."""
    cluster.cut(1, 3, up=True)
    return seconds_until(cluster, 3, BATCHES)


@pytest.mark.parametrize(("side", "replicas"), SIDES)
def test_a_replica_that_is_not_in_sync_catches_up_at_the_rate(
    cluster: ReplicaCluster, side: str, replicas: str
) -> None:
    limit(cluster, side, RATE)
    behind(cluster, side, replicas)
    taken_s = seconds_until_equal(cluster)
    assert 0.8 * SIZE / RATE < taken_s < 1.5 * SIZE / RATE + 2
    assert cluster.equal()


@pytest.mark.parametrize(("side", "replicas"), [("leader", "0:2,1:1"), ("follower", "0:1,0:2"), ("leader", "")])
def test_other_replicas_are_not_throttled(cluster: ReplicaCluster, side: str, replicas: str) -> None:
    limit(cluster, side, 1)
    behind(cluster, side, replicas)
    assert seconds_until_equal(cluster) < 3


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_without_a_rate_nothing_is_throttled(cluster: ReplicaCluster, side: str) -> None:
    behind(cluster, side, "*")
    assert seconds_until_equal(cluster) < 3


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_in_sync_is_not_throttled(cluster: ReplicaCluster, side: str) -> None:
    limit(cluster, side, 1000)
    cluster.place(1, 2)
    throttle(cluster, side, "*")
    cluster.let_pass(1)
    for number in range(1, 6):
        cluster.append(VALUE)
        assert seconds_until(cluster, 2, number) < 1
    cluster.let_pass(15)
    assert cluster.isr == {1, 2}


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_in_sync_is_not_throttled_by_a_new_leader(cluster: ReplicaCluster, side: str) -> None:
    limit(cluster, side, 1)
    cluster.place(1, 2, 3)
    throttle(cluster, side, "*")
    cluster.append(VALUE)
    cluster.until(lambda: all(end == 1 for _, end in cluster.ends().values()), "all brokers have the record")
    cluster.elect(2)
    producing = cluster.producing(b"value")
    began_s = cluster.schedule.now
    cluster.until(producing.done, "the record is committed")
    assert cluster.code(producing) == 0
    assert cluster.schedule.now - began_s < 1


@pytest.mark.parametrize("side", ["leader", "follower"])
@pytest.mark.parametrize("removed", ["rate", "replicas"])
def test_a_throttle_can_be_removed_while_a_replica_waits(cluster: ReplicaCluster, side: str, removed: str) -> None:
    limit(cluster, side, 1)
    behind(cluster, side, "*")
    cluster.cut(1, 3, up=True)
    cluster.let_pass(30)
    # With one batch fetched, the rate of a byte per second is exceeded for weeks; what leaves the window is forgotten.
    assert 0 < cluster.ends()[3][1] < BATCHES // 2
    if removed == "rate":
        limit(cluster, side, None)
    else:
        throttle(cluster, side, "")
    assert seconds_until(cluster, 3, BATCHES) < 3


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_partition_that_waits_does_not_hold_up_others_of_the_same_leader(cluster: ReplicaCluster, side: str) -> None:
    limit(cluster, side, 1)
    behind(cluster, side, "*")
    cluster.place(1, 3, topic="u")
    cluster.cut(1, 3, up=True)
    cluster.let_pass(5)
    held = cluster.ends()[3][1]
    for number in range(1, 4):
        cluster[1].append("u", (None, b"value"))
        assert seconds_until(cluster, 3, number, topic="u") < 0.5
    assert cluster.ends()[3][1] == held < BATCHES


def test_both_sides_measure_the_rate_of_throttled_replicas(cluster: ReplicaCluster) -> None:
    cluster.place(1, 2)
    for side in ("leader", "follower"):
        throttle(cluster, side, "*")
    cluster.append(VALUE)
    cluster.until(lambda: cluster.ends()[2][1] == 1, "broker 2 has the record")
    for node_id, sends, fetches in ((1, True, False), (2, False, True), (3, False, False)):
        broker = cluster.broker(node_id)
        now_ms = 1000 * cluster[node_id].loop.time()
        rates = (broker.leader_replication_quota.rate, broker.follower_replication_quota.rate)
        assert [rate.total(now_ms) > len(VALUE) for rate in rates] == [sends, fetches]
