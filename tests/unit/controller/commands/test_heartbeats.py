"""BrokerHeartbeat: what a broker requests, and the state that the response gives it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from controller.commands.brokers import fence_brokers
from controller.commands.heartbeats import broker_heartbeat
from controller.image import NO_LEADER
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from protocol.records.metadata import BrokerRegistrationChangeRecord, PartitionChangeRecord
from tests.typed import present
from tests.unit.controller.cluster import Cluster, directory

ACTIVE, FENCED, STOPPED = (False, False), (True, False), (True, True)
"""(is_fenced, should_shut_down) of a response."""

FENCE = {"want_fence": True}
STOP = {"want_shut_down": True}


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers; each leads one partition of the topic t."""
    cluster = Cluster(brokers=3)
    cluster.create("t", assignments={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    return cluster


def beat(cluster: Cluster, sender: int = 1, *, may_stop: bool = False, **fields: Any) -> tuple[bool, bool]:
    """Send a heartbeat of a broker that has all metadata; return (is fenced, should shut down)."""
    request = BrokerHeartbeatRequest(
        **{
            "broker_id": sender,
            "broker_epoch": cluster.image.brokers[sender].epoch,
            "current_metadata_offset": cluster.image.offset,
            "want_fence": False,
            "want_shut_down": False,
            **fields,
        }
    )
    answer = cluster.apply(partial(broker_heartbeat, request=request, settings=cluster.settings, may_stop=may_stop))
    return answer.is_fenced, answer.should_shut_down


def fence(cluster: Cluster, broker_id: int = 1) -> None:
    epochs = {broker_id: cluster.image.brokers[broker_id].epoch}
    cluster.apply(lambda image: fence_brokers(image, epochs, cluster.settings))


def test_active_broker_stays_active(cluster: Cluster) -> None:
    assert beat(cluster) == ACTIVE
    assert cluster.records == ()


def test_unfenced_broker_becomes_leader_of_leaderless_partitions(cluster: Cluster) -> None:
    cluster.create("u", assignments={0: [1]})
    fence(cluster)
    assert cluster.partition("u").leader == NO_LEADER
    assert beat(cluster) == ACTIVE
    assert cluster.image.brokers[1].active
    assert cluster.partition("u").leader == 1


@pytest.mark.parametrize(("lack", "state"), [(1, FENCED), (0, ACTIVE)])
def test_broker_is_unfenced_once_it_has_applied_its_registration_record(lack: int, state: tuple[bool, bool]) -> None:
    cluster = Cluster(brokers=1)
    epoch = cluster.add_broker(2, fenced=True)
    request = BrokerHeartbeatRequest(
        broker_id=2,
        broker_epoch=epoch,
        current_metadata_offset=epoch - lack,
        want_fence=False,
        want_shut_down=False,
    )
    answer = cluster.apply(partial(broker_heartbeat, request=request, settings=cluster.settings))
    assert (answer.is_fenced, answer.is_caught_up) == (state is FENCED, state is ACTIVE)


def test_fenced_broker_stays_fenced_with_want_fence(cluster: Cluster) -> None:
    fence(cluster)
    assert beat(cluster, **FENCE) == FENCED
    assert cluster.records == ()


@pytest.mark.parametrize("wants", [STOP, STOP | FENCE])
def test_fenced_broker_may_shut_down_at_any_time(cluster: Cluster, wants: dict[str, bool]) -> None:
    fence(cluster)
    assert beat(cluster, **wants) == STOPPED
    assert cluster.records == ()


def test_active_broker_is_fenced_with_want_fence(cluster: Cluster) -> None:
    assert beat(cluster, **FENCE) == FENCED
    assert cluster.image.brokers[1].fenced
    assert [cluster.partition("t", index).leader for index in range(3)] == [2, 2, 3]


def test_want_fence_with_want_shut_down_shuts_down_immediately(cluster: Cluster) -> None:
    assert beat(cluster, **STOP, **FENCE) == STOPPED
    assert cluster.image.brokers[1].fenced


def test_broker_without_leaderships_shuts_down_immediately(cluster: Cluster) -> None:
    cluster.delete("t")
    assert beat(cluster, **STOP) == STOPPED
    assert cluster.image.brokers[1].fenced


def test_leader_hands_over_its_partitions_before_shutdown(cluster: Cluster) -> None:
    assert beat(cluster, **STOP) == ACTIVE
    broker = cluster.image.brokers[1]
    assert (broker.fenced, broker.in_controlled_shutdown) == (False, True)
    assert [cluster.partition("t", index).leader for index in range(3)] == [2, 2, 3]
    assert all(1 not in cluster.partition("t", index).isr for index in range(3))


def test_broker_shuts_down_once_all_brokers_applied_the_leader_changes(cluster: Cluster) -> None:
    beat(cluster, **STOP)
    assert beat(cluster, **STOP) == ACTIVE
    assert cluster.records == ()
    assert beat(cluster, may_stop=True, **STOP) == STOPPED
    assert cluster.image.brokers[1].fenced
    assert beat(cluster, **STOP) == STOPPED
    assert cluster.records == ()


def test_broker_does_not_shut_down_while_it_leads(cluster: Cluster) -> None:
    beat(cluster, **STOP)
    topic = cluster.image.topic("t")
    cluster.replay([PartitionChangeRecord(partition_id=0, topic_id=present(topic).topic_id, leader=1)])
    assert beat(cluster, may_stop=True, **STOP) == ACTIVE


def test_brokers_in_controlled_shutdown_do_not_become_leaders(cluster: Cluster) -> None:
    beat(cluster, 1, **STOP)
    beat(cluster, 2, **STOP)
    assert [cluster.partition("t", index).leader for index in range(3)] == [3, 3, 3]


def test_heartbeat_with_a_stale_broker_epoch_is_rejected(cluster: Cluster) -> None:
    epoch = cluster.image.brokers[1].epoch
    cluster.add_broker(1)
    with pytest.raises(KafkaError) as stale:
        beat(cluster, broker_epoch=epoch)
    assert stale.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_heartbeat_of_an_unknown_broker_is_rejected(cluster: Cluster) -> None:
    with pytest.raises(KafkaError) as unknown:
        beat(cluster, 1, broker_id=9)
    assert unknown.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_replicas_in_failed_directories_leave_the_isr() -> None:
    cluster = Cluster(brokers=0)
    cluster.add_broker(2)
    cluster.add_broker(1, directories=2)
    cluster.create("t", assignments={index: [1, 2] for index in range(4)})
    assert beat(cluster, offline_log_dirs=[directory(1, 1), directory(7)]) == ACTIVE
    assert cluster.image.brokers[1].directories == (directory(1, 0),)
    for index in range(4):
        partition = cluster.partition("t", index)
        assert partition.leader == (2 if partition.directories[0] == directory(1, 1) else 1)
    beat(cluster, offline_log_dirs=[directory(1, 1), directory(7)])
    assert cluster.records == ()


def test_broker_is_not_elected_for_a_replica_in_a_directory_that_just_failed() -> None:
    cluster = Cluster(brokers=0)
    cluster.add_broker(1, directories=2)
    cluster.create("t", 4)
    fence(cluster)
    beat(cluster, offline_log_dirs=[directory(1, 1)])
    for index in range(4):
        partition = cluster.partition("t", index)
        assert partition.leader == (NO_LEADER if partition.directories[0] == directory(1, 1) else 1)


def test_directories_are_cordoned_and_uncordoned(cluster: Cluster) -> None:
    beat(cluster, cordoned_log_dirs=[directory(1)])
    assert cluster.image.brokers[1].open_directories == ()
    beat(cluster, cordoned_log_dirs=None)
    assert not list(cluster.records)
    beat(cluster, cordoned_log_dirs=[])
    assert [type(record) for record in cluster.records] == [BrokerRegistrationChangeRecord]
    assert cluster.image.brokers[1].open_directories == (directory(1),)  # type: ignore[comparison-overlap]  # a call has changed it since
