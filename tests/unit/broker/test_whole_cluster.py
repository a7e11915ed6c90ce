"""Brokers and controllers together: acknowledged records survive any failure as long as a majority lives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from protocol.api import ApiKey, request_class
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest
from tests.typed import present
from tests.unit.broker.whole_cluster import BROKER, CONTROLLER, WholeCluster

NONE = ErrorCode.NONE


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


def test_topic_created_through_follower_is_on_all_brokers(three: WholeCluster) -> None:
    follower = three.follower()
    assert three.create(follower, "t").error_code == NONE
    assert sorted(three.partition(follower, "t").replicas) == [1, 2, 3]
    assert three.produce(leader(three, "t", follower), "t", b"one") == NONE
    three.until(lambda: [three.values(node_id, "t") for node_id in (1, 2, 3)] == [[b"one"]] * 3)


def test_acknowledged_records_survive_stopped_and_killed_leaders(three: WholeCluster) -> None:
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


def test_cluster_killed_at_once_restarts_without_waiting_for_old_sessions(three: WholeCluster) -> None:
    for node_id in three.hosts:
        three.kill(node_id)
    began = three.schedule.now
    three.start()
    assert three.schedule.now - began < 2


def test_broker_with_empty_disk_is_refilled_before_joining_isr(three: WholeCluster) -> None:
    """Rule 28: a known broker id with an empty disk fetches its partitions from the leaders."""
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
    assert sorted(cluster.partition(5, "t").replicas) == [4, 5]
    assert cluster.produce(leader(cluster, "t", 4), "t", b"one") == NONE
    cluster.kill(cluster.active)
    assert cluster.create(5, "u", replication_factor=2).error_code == NONE


def test_new_topic_can_be_produced_to_immediately_through_any_broker(three: WholeCluster) -> None:
    """Rule 26: CreateTopics is answered when every replica can be served."""
    for number in range(20):
        name = f"t{number}"
        assert three.create(number % 3 + 1, name, partitions=6).error_code == NONE
        for node_id in (1, 2, 3):
            for index in range(6):
                assert three.partition(node_id, name, index) is not None
                assert three.broker(node_id).replicas.find_named(name, index) is not None
        for index, state in present(three.raft(1).image.topic(name)).partitions.items():
            assert three.produce(state.leader, name, b"x", index) == NONE
    assert three.schedule.now < 20, "no wait for the next heartbeat"


def test_new_partitions_can_be_produced_to_immediately_through_any_broker(three: WholeCluster) -> None:
    three.create(1, "t")
    requests: Any = request_class(ApiKey.CREATE_PARTITIONS)
    began = three.schedule.now
    topics = [requests.Topic(name="t", count=6, assignments=None)]
    [result] = three.query(
        three.follower(), ApiKey.CREATE_PARTITIONS, 3, topics=topics, timeout_ms=20_000, validate_only=False
    ).results
    assert result.error_code == NONE
    assert all(three.broker(node_id).replicas.find_named("t", 5) is not None for node_id in (1, 2, 3))
    assert three.schedule.now - began < 1


def test_topic_creation_waits_for_hanging_broker_no_longer_than_its_session(three: WholeCluster) -> None:
    hangs = three.follower()
    three.hosts[hangs].pause()
    assert three.create(three.active, "t").error_code == NONE
    assert three.schedule.now < 15
    state: Any = three.partition(three.active, "t")
    assert three.raft(three.active).image.brokers[hangs].fenced
    assert three.produce(state.leader, "t", b"x") == NONE


@pytest.mark.parametrize("timeout_ms", [4_000, 300_000])
def test_create_topics_completes_before_client_timeout_with_hanging_broker(
    make: Callable[..., WholeCluster], timeout_ms: int
) -> None:
    cluster = make(**{"broker.session.timeout.ms": "600000"})
    cluster.start()
    cluster.hosts[cluster.follower()].pause()
    topic: Any = request_class(ApiKey.CREATE_TOPICS)
    topics = [topic.Topic(name="t", num_partitions=1, replication_factor=3, assignments=[], configs=[])]
    began = cluster.schedule.now
    answer = cluster.query(cluster.active, ApiKey.CREATE_TOPICS, 7, topics=topics, timeout_ms=timeout_ms)
    assert answer.topics[0].error_code == NONE
    assert cluster.schedule.now - began < min(timeout_ms / 1000, 30)


def test_heartbeats_do_not_wait_behind_client_requests(three: WholeCluster) -> None:
    hangs = three.follower()
    three.hosts[hangs].pause()
    [other] = [node_id for node_id in three.running if node_id != three.active]
    creating = three.requesting_to_create(other, "t")
    three.let_pass(8)
    assert not creating.done()
    assert not three.raft(three.active).image.brokers[other].fenced
    three.until(creating.done)


def test_every_broker_returns_live_broker_as_controller(three: WholeCluster) -> None:
    fields: dict[str, Any] = {"topics": [], "allow_auto_topic_creation": False}
    reported = {three.query(1, ApiKey.METADATA, 12, **fields).controller_id for _ in range(50)}
    assert reported == {1, 2, 3}
    gone = three.follower()
    three.kill(gone)
    three.until(lambda: three.raft(three.active).image.brokers[gone].fenced)
    reported = {three.query(three.active, ApiKey.METADATA, 12, **fields).controller_id for _ in range(50)}
    assert reported == {1, 2, 3} - {gone}


def test_groups_have_a_coordinator_through_any_broker_with_all_its_replicas(three: WholeCluster) -> None:
    answer = three.query(three.follower(), ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    [found] = answer.coordinators
    assert (found.error_code, found.node_id in (1, 2, 3)) == (NONE, True)
    assert len(three.partition(three.active, "__consumer_offsets").replicas) == 3


def test_offsets_topic_creation_waits_for_brokers_for_full_replication(make: Callable[..., WholeCluster]) -> None:
    cluster = make()
    cluster.start(1, 2)
    answer = cluster.query(1, ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    assert answer.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert cluster.partition(1, "__consumer_offsets") is None
    cluster.start(3)
    answer = cluster.query(2, ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    assert answer.coordinators[0].error_code == NONE
    assert len(cluster.partition(1, "__consumer_offsets").replicas) == 3


@pytest.fixture
def metadata_after_kill(three: WholeCluster) -> Callable[[int], Any]:
    """Kill a broker that is a leader; send Metadata to another one as soon as it has lost the connections."""
    three.create(three.follower(), "t", partitions=6)

    def query(killed: int) -> Any:
        other = next(node_id for node_id in three.running if node_id != killed)
        assert any(state.leader == killed for state in present(three.raft(other).image.topic("t")).partitions.values())
        three.kill(killed)
        three.let_pass(0.003)
        begun = three.schedule.now
        topic = MetadataRequest.Topic(name="t")
        answer = three.query(other, ApiKey.METADATA, 12, topics=[topic])
        assert three.schedule.now - begun < 0.5
        return answer

    return query


@pytest.mark.parametrize("of_controller", [False, True])
def test_metadata_right_after_kill_has_next_leader(
    three: WholeCluster, metadata_after_kill: Callable[[int], Any], of_controller: bool
) -> None:
    killed = three.active if of_controller else three.follower()
    answer = metadata_after_kill(killed)
    assert {partition.leader_id for partition in answer.topics[0].partitions} == {1, 2, 3} - {killed}


def test_killed_broker_is_listed_for_limited_time_and_stopped_one_is_not(
    three: WholeCluster, metadata_after_kill: Callable[[int], Any]
) -> None:
    def reported(answer: Any) -> set[int]:
        return {broker.node_id for broker in answer.brokers}

    killed = three.follower()
    assert reported(metadata_after_kill(killed)) == {1, 2, 3}
    other = three.active
    three.let_pass(3.5)
    assert reported(three.query(other, ApiKey.METADATA, 12, topics=[])) == {1, 2, 3} - {killed}
    three.start(killed)
    three.stop(killed)
    three.let_pass(0.5)
    assert reported(three.query(other, ApiKey.METADATA, 12, topics=[])) == {1, 2, 3} - {killed}
