"""A broker whose disk was replaced must not count as holding the lost records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controller.image import NO_LEADER
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.elect_leaders import ElectLeadersRequest
from tests.unit.broker.whole_cluster import BROKER, CONTROLLER, WholeCluster

NONE = ErrorCode.NONE


@pytest.fixture
def cluster() -> Iterator[WholeCluster]:
    """Three controllers and brokers 4 and 5, with a topic on both that 4 leads, and one record in it."""
    roles = dict.fromkeys((1, 2, 3), CONTROLLER) | dict.fromkeys((4, 5), BROKER)
    cluster = WholeCluster(roles, min_insync_replicas="1")
    cluster.start()
    assert cluster.create(4, "t", replication_factor=2).error_code == NONE
    if state(cluster, 4).leader != 4:
        cluster.stop(5)
        cluster.start(5)
        in_sync(cluster, 4, 5, seen_by=4)
    assert cluster.produce(4, "t", b"one") == NONE
    yield cluster
    cluster.close()


def state(cluster: WholeCluster, seen_by: int) -> Any:
    return cluster.partition(seen_by, "t")


def in_sync(cluster: WholeCluster, *brokers: int, seen_by: int) -> None:
    cluster.until(lambda: sorted(state(cluster, seen_by).isr) == sorted(brokers), f"{brokers} in sync")


def home(cluster: WholeCluster, broker: int) -> bytes:
    """Return the metadata's directory of a broker's replica."""
    known = state(cluster, broker)
    directory: bytes = known.directories[known.replicas.index(broker)]
    return directory


def own_log_dir(cluster: WholeCluster, broker: int) -> bytes:
    directory: bytes = cluster.broker(broker).logs.online[0].directory_id
    return directory


def elect_unclean(cluster: WholeCluster, by: int) -> None:
    topics = [ElectLeadersRequest.Topic(topic="t", partitions=[0])]
    cluster.query(by, ApiKey.ELECT_LEADERS, 2, election_type=1, topic_partitions=topics, timeout_ms=20_000)


def test_rule_28_broker_with_refilled_disk_may_lead(cluster: WholeCluster) -> None:
    cluster.kill(5)
    cluster.wipe(5)
    in_sync(cluster, 4, seen_by=4)
    cluster.start(5)
    in_sync(cluster, 4, 5, seen_by=5)
    cluster.stop(4)
    assert state(cluster, 5).leader == 5
    assert cluster.values(5, "t") == [b"one"]


@pytest.mark.parametrize("starts", [1, 2])
def test_rule_28_sole_isr_member_does_not_lead_with_empty_disk(cluster: WholeCluster, starts: int) -> None:
    cluster.kill(5)
    in_sync(cluster, 4, seen_by=4)
    assert cluster.produce(4, "t", b"two") == NONE
    cluster.kill(4)
    cluster.wipe(4)
    for _ in range(starts - 1):
        cluster.start(4)
        cluster.stop(4)
    cluster.start(4, 5)
    cluster.let_pass(1)
    assert state(cluster, 5).leader == NO_LEADER
    elect_unclean(cluster, by=5)
    in_sync(cluster, 4, 5, seen_by=5)
    cluster.until(lambda: cluster.values(4, "t") == [b"one"])
    cluster.until(lambda: home(cluster, 4) == own_log_dir(cluster, 4))
