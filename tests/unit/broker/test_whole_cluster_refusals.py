"""Nodes and requests that do not belong in a cluster are refused, with a log line that gives the reason."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.messages.metadata import MetadataRequest
from simulation.cluster import CONTROLLER_PORT, PORT, Host
from tests.simulation.client import Lost
from tests.typed import present
from tests.unit.broker.controllers import epoch, query
from tests.unit.broker.whole_cluster import BOTH, BROKER, CONTROLLER, WholeCluster, node_settings

APART = dict.fromkeys((1, 2, 3), CONTROLLER) | {4: BROKER}
OTHER = "0123456789abcdefghijkl"
SOON = {"initial_broker_registration_timeout_ms": "3000"}


@pytest.fixture
def make() -> Iterator[Callable[..., WholeCluster]]:
    made: list[WholeCluster] = []

    def make(roles: dict[int, str] | None = None, **settings: Any) -> WholeCluster:
        made.append(WholeCluster(roles, **settings))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture
def shown(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """Return the log so far, with the errors of failed starts."""
    caplog.set_level(logging.INFO)
    return lambda: caplog.text


def refused(cluster: WholeCluster, host: Host) -> str:
    """Start a node that must fail; return the reason."""
    why: list[str] = []
    cluster.world.report = lambda found: why.append(str(found))  # type: ignore[method-assign]
    host.start()
    cluster.until(lambda: host.state == "failed", "refused")
    del cluster.world.report
    return why[0]


def test_duplicate_broker_id_is_refused(make: Callable[..., WholeCluster]) -> None:
    cluster = make(APART)
    cluster.start()
    settings = node_settings(4, APART, listeners=f"PLAINTEXT://b5:{PORT}", **SOON)
    why = refused(cluster, Host(cluster.world, "b5", settings, []))
    assert "another broker with node.id=4 is running in this cluster" in why
    assert not cluster.raft(cluster.active).image.brokers[4].fenced


def test_broker_of_other_cluster_is_refused(make: Callable[..., WholeCluster], shown: Callable[[], str]) -> None:
    cluster = make(APART)
    cluster.start(1, 2, 3)
    settings = node_settings(4, APART, barnabas_cluster_id=OTHER)
    began = cluster.schedule.now
    why = refused(cluster, Host(cluster.world, "b4", settings, []))
    assert f"the data directory belongs to cluster {OTHER}" in why
    assert cluster.schedule.now - began < 5
    assert f"Node 1 is not in this node's cluster {OTHER}: " in shown()


def test_unreachable_advertised_address_is_logged_and_its_followers_leave_isr(
    make: Callable[..., WholeCluster], shown: Callable[[], str]
) -> None:
    cluster = make()
    cluster.add(3, advertised_listeners=f"PLAINTEXT://nowhere:{PORT},CONTROLLER://b3:{CONTROLLER_PORT}")
    cluster.start()
    assert cluster.create(1, "t", 3).error_code == ErrorCode.NONE
    led = {cluster.partition(1, "t", index).leader: index for index in range(3)}
    assert cluster.produce(1, "t", b"one", led[1]) == ErrorCode.NONE
    cluster.until(lambda: set(cluster.partition(1, "t", led[3]).isr) == {3})
    assert set(cluster.partition(1, "t", led[1]).isr) == {1, 2, 3}
    assert f"Cannot connect to broker 3 at nowhere:{PORT}" in shown()


def test_data_directory_of_other_node_is_refused(make: Callable[..., WholeCluster]) -> None:
    cluster = make(APART)
    cluster.start()
    cluster.stop(4)
    settings = node_settings(5, {**APART, 5: BROKER})
    host = Host(cluster.world, "b5", settings, [])
    host.disk = cluster.hosts[4].disk
    assert "has node.id=4, but the configuration has node.id=5" in refused(cluster, host)


def test_controller_of_other_cluster_at_voters_address_is_excluded_from_quorum(
    make: Callable[..., WholeCluster], shown: Callable[[], str]
) -> None:
    cluster = make(dict.fromkeys((1, 2, 3), CONTROLLER))
    cluster.add(3, barnabas_cluster_id=OTHER)
    cluster.start(1, 2, 3)
    assert cluster.active in (1, 2)
    cluster.let_pass(5)
    assert f"Refused a request for cluster {OTHER}" in shown()
    assert cluster.raft(3).applied_offset == -1
    assert cluster.raft(3).leader_id == -1


def test_a_controller_with_other_voters_does_not_lead(
    make: Callable[..., WholeCluster], shown: Callable[[], str]
) -> None:
    cluster = make(dict.fromkeys((1, 2, 3), CONTROLLER), barnabas_cluster_id=OTHER)
    cluster.start(1, 2)
    assert cluster.active in (1, 2)
    roles = {**dict.fromkeys((1, 2), CONTROLLER), 4: CONTROLLER}
    cluster.roles = roles
    stranger = cluster.add(4)
    stranger.start()
    cluster.let_pass(10)
    assert cluster.active in (1, 2)
    assert not cluster.raft(4).leads
    assert cluster.raft(cluster.active).leader_id in (1, 2)


@pytest.mark.parametrize(
    ("port", "key", "version"),
    [
        (PORT, ApiKey.VOTE, 2),
        (PORT, ApiKey.BROKER_HEARTBEAT, 1),
        (PORT, ApiKey.ENVELOPE, 0),
        (CONTROLLER_PORT, ApiKey.METADATA, 12),
        (CONTROLLER_PORT, ApiKey.PRODUCE, 9),
    ],
)
def test_request_on_wrong_listener_is_logged_and_closes_connection(
    make: Callable[..., WholeCluster], shown: Callable[[], str], port: int, key: ApiKey, version: int
) -> None:
    cluster = make({1: BOTH})
    cluster.start()
    of_each: dict[ApiKey, dict[str, Any]] = {
        ApiKey.VOTE: {"topics": []},
        ApiKey.BROKER_HEARTBEAT: {
            "broker_id": 1,
            "broker_epoch": 1,
            "current_metadata_offset": 1,
            "want_fence": False,
            "want_shut_down": False,
            "offline_log_dirs": [],
        },
        ApiKey.ENVELOPE: {"request_data": b"", "request_principal": b"", "client_host_address": b""},
        ApiKey.METADATA: {"topics": [MetadataRequest.Topic(name="t")], "allow_auto_topic_creation": False},
        ApiKey.PRODUCE: {"transactional_id": None, "acks": 1, "timeout_ms": 1, "topic_data": []},
    }
    with pytest.raises(Lost):
        cluster.query(1, key, version, port=port, **of_each[key])
    assert "is not served on this listener" in shown()


@pytest.mark.parametrize(("replica", "of_epoch"), [(9, 1), (2, 0)], ids=["no broker", "no run of this broker"])
def test_client_claiming_replica_id_does_not_advance_high_watermark(
    make: Callable[..., WholeCluster], replica: int, of_epoch: int
) -> None:
    cluster = make(min_insync_replicas="1")
    cluster.start()
    cluster.create(1, "t", replication_factor=3)
    state = cluster.partition(1, "t")
    partition = FetchRequest.Topic.Partition(
        partition=0, current_leader_epoch=state.leader_epoch, fetch_offset=0, partition_max_bytes=1 << 20
    )
    topic_id = present(cluster.raft(1).image.topic("t")).topic_id
    answer = cluster.query(
        state.leader,
        ApiKey.FETCH,
        17,
        replica_state=FetchRequest.ReplicaState(replica_id=replica, replica_epoch=of_epoch),
        max_wait_ms=0,
        min_bytes=0,
        topics=[FetchRequest.Topic(topic_id=topic_id, partitions=[partition])],
        forgotten_topics_data=[],
    )
    [found] = answer.responses[0].partitions
    assert found.error_code in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )


def test_client_claiming_broker_id_without_epoch_fences_no_broker(make: Callable[..., WholeCluster]) -> None:
    cluster = make()
    cluster.start()
    other = cluster.follower()
    shown: dict[str, Any] = {
        "want_fence": True,
        "want_shut_down": False,
        "offline_log_dirs": [],
        "cordoned_log_dirs": [],
    }
    answer = query(
        cluster, ApiKey.BROKER_HEARTBEAT, 2, broker_id=other, broker_epoch=0, current_metadata_offset=1, **shown
    )
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert epoch(cluster, other) > 0
    assert not cluster.raft(cluster.active).image.brokers[other].fenced


def test_more_replicas_than_live_brokers_are_refused_with_their_number(make: Callable[..., WholeCluster]) -> None:
    cluster = make()
    cluster.start(1, 2)
    answer = cluster.create(1, "t", replication_factor=3)
    assert answer.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "3" in answer.error_message
